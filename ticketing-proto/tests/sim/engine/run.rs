//! One run from beginning to end, and what it must come to.

use std::collections::BTreeMap;
use std::time::Duration;

use ticketing_proto::client::{AcquireOptions, Broker};
use ticketing_proto::server::Server;

use super::clock::Time;
use super::facts::Event;
use super::oracle::{Violation, Watch};
use super::plan::Plan;
use super::world::{Transport, World};

/// All that was under way when the faults ended has had its time after this: the longest fault, wait, grace and lease.
const AFTERMATH: Duration = Duration::from_secs(120);

pub(crate) struct Report {
    pub(crate) violation: Option<Violation>,
    /// How often each outcome, fault and so on occurred.
    pub(crate) tally: BTreeMap<&'static str, u64>,
    pub(crate) trace: String,
}

pub(crate) fn run(plan: &Plan, transport: Transport, watch: Watch) -> Report {
    let mut world = World::new(plan.seed, &plan.setting, transport, watch);
    world.schedule(&plan.actions);
    world.run_until(plan.setting.end);
    let phases = [World::calm_down, World::make_progress, World::drain];
    for phase in phases {
        if world.oracle.violation.is_none() {
            phase(&mut world);
        }
    }
    let World { oracle, tally, .. } = world;
    let (violation, trace) = oracle.into_trace();
    Report { violation, tally, trace }
}

impl World {
    /// Faults are over; all calls end, tickets are given up, leases run out.
    fn calm_down(&mut self) {
        let end = self.now + AFTERMATH;
        self.mend_links();
        while !self.is_quiet() && self.now < end && self.oracle.violation.is_none() {
            let next = self.now + Duration::from_millis(500);
            self.run_until(next);
        }
        if !self.is_quiet() {
            let left = (self.used(), self.outstanding());
            let what = format!("with faults over it does not come to rest: {left:?} is left");
            self.oracle.fail(self.now, what);
        }
        // Some faults found something to strike only now.
        self.mend_links();
    }

    fn mend_links(&mut self) {
        for link in &mut self.links {
            link.up.capacity = link.up.capacity.max(4096);
            link.down.capacity = link.down.capacity.max(4096);
            link.failing_write = None;
        }
    }

    /// Whether nothing is under way any more, and whoever can be connected is.
    fn is_quiet(&self) -> bool {
        let is_rested = |number: usize| {
            let client = &self.clients[number];
            client.paused_until <= self.now
                && client.back_after.is_none()
                && client.broker.is_some()
                && (!client.setting.knows_secret || self.is_ready(number))
        };
        self.host.server.is_some()
            && self.host.back_after.is_none()
            && self.faults_to_come == 0
            && self.faults_end <= self.now
            && self.used() == [0; 3]
            && self.outstanding() == 0
            && (0..self.clients.len()).all(is_rested)
    }

    /// With faults over every client gets a lock that it asks for.
    fn make_progress(&mut self) {
        for client in 0..self.clients.len() {
            let setting = &self.clients[client].setting;
            if !setting.knows_secret || setting.first_owner > 1 || self.oracle.violation.is_some() {
                continue;
            }
            let options = AcquireOptions::new(Duration::ZERO).wait(Duration::from_secs(20));
            let call = match self.acquire(client, "progress", options, false) {
                Ok(call) => call,
                Err(error) => {
                    return self.oracle.fail(self.now, format!("client {client} may not call: {error}"));
                }
            };
            let end = self.now + Duration::from_secs(21);
            while !self.oracle.facts.calls[call].is_settled && self.now < end {
                let next = self.next().unwrap_or(end).min(end);
                self.run_until(next);
                if self.oracle.violation.is_some() {
                    return;
                }
            }
            match self.claim(call) {
                Some(Ok(_)) => _ = self.release(call),
                outcome => {
                    return self.oracle.fail(self.now, format!("client {client} got {outcome:?}"));
                }
            }
        }
    }

    /// Every broker is closed; then nothing is left of it all.
    fn drain(&mut self) {
        let second = self.now + Duration::from_secs(1);
        self.run_until(second);
        (0..self.clients.len()).for_each(|client| self.close(client));
        let end: Time = self.now + Duration::from_secs(30);
        self.run_until(end);
        let connections = self.host.server.as_ref().map_or(0, Server::connections);
        let event = Event::Drained {
            used: self.used(),
            left: [connections, self.open_ends(), self.next().into_iter().count(), self.outstanding()],
        };
        self.see(&event);
    }

    pub(crate) fn close(&mut self, client: usize) {
        self.with_broker(client, Broker::close);
    }

    /// The server's holds, waiters and acquires in flight.
    pub(crate) fn used(&self) -> [u64; 3] {
        let usage = self.host.server.as_ref().map(Server::usage);
        usage.map_or([0; 3], |usage| [usage.keys.used, usage.waiters.used, usage.acquires.used])
    }

    /// What all brokers keep.
    pub(crate) fn outstanding(&self) -> usize {
        let brokers = self.clients.iter().filter_map(|client| client.broker.as_ref());
        brokers.map(Broker::outstanding).sum()
    }

    pub(crate) fn open_ends(&self) -> usize {
        self.links.iter().map(|link| usize::from(link.is_here) + usize::from(link.is_there)).sum()
    }

    pub(crate) fn is_ready(&self, client: usize) -> bool {
        self.clients[client].broker.as_ref().is_some_and(Broker::is_ready)
    }
}
