//! The clients' hosts: what an adapter does there.

use std::time::Duration;

use ticketing_proto::client::{Broker, Event as BrokerEvent};
use ticketing_proto::id::ConnectionId;
use ticketing_proto::time::Instant;

use super::clock::Time;
use super::facts::{Event, LinkNo, ProcessNo};
use super::link::{Piece, There};
use super::plan::Impostor;
use super::world::{Wake, World, piece_len};

/// The end of a connection (CA-5), and a release behind it (CR-3).
const AFTERMATH: Duration = Duration::from_secs(2 + 5);
const RELEASE_TIMEOUT: Duration = Duration::from_secs(5);
const MOST_TURNS: usize = 10_000;

impl World {
    /// Gives a client's broker one input, then acts on all that comes out.
    pub(super) fn with_broker<T>(
        &mut self,
        client: usize,
        input: impl FnOnce(&mut Broker, Instant) -> T,
    ) -> Option<T> {
        let now = self.client_now(client);
        let given = input(self.clients[client].broker.as_mut()?, now);
        self.client_turn(client);
        Some(given)
    }

    pub(super) fn handle_timeouts(&mut self, client: usize) {
        let mut turns = 0;
        let is_awake = |world: &Self| world.clients[client].paused_until <= world.now;
        while self.clients[client].due.is_some_and(|due| due <= self.now)
            && is_awake(self)
            && self.oracle.violation.is_none()
        {
            self.with_broker(client, Broker::handle_timeout);
            turns += 1;
            if turns > MOST_TURNS {
                return self.oracle.fail(self.now, format!("a timeout of client {client} stays due"));
            }
        }
        if is_awake(self) && std::mem::take(&mut self.clients[client].is_touched) {
            self.report_client(client);
        }
    }

    pub(super) fn client_turn(&mut self, client: usize) {
        self.clients[client].is_touched = true;
        loop {
            let mut had_any = false;
            while let Some(event) = self.clients[client].broker.as_mut().and_then(Broker::poll_event) {
                had_any = true;
                self.handle_broker_event(client, event);
            }
            for link in self.clients[client].links.clone() {
                had_any |= self.send_up(link);
            }
            if !had_any {
                break;
            }
        }
        let host = &mut self.clients[client];
        let due = host.broker.as_ref().and_then(Broker::poll_timeout);
        host.due = due.map(|at| host.clock.when(at));
    }

    /// After its deadlines: nothing is due, and what could go out has.
    fn report_client(&mut self, client: usize) {
        let now = self.client_now(client);
        let Self { clients, oracle, links, .. } = self;
        let host = &mut clients[client];
        let Some(broker) = &host.broker else { return };
        let resumed = host.resumed;
        host.recent_releases.retain(|&called| now < called.max(resumed) + RELEASE_TIMEOUT);
        host.recent_calls.retain(|&call| {
            let call = &oracle.facts.calls[call];
            let is_open = !call.is_claimed && !call.is_cancelled;
            is_open || now < (call.deadline + call.grace).max(resumed) + AFTERMATH
        });
        let is_usable = |&&link: &&LinkNo| {
            let link = &links[link];
            link.client_received.is_greeted && !link.is_write_shut
        };
        let mut usable = host.links.iter().filter(is_usable).peekable();
        let is_idle = oracle.facts.sees_wire
            && usable.peek().is_some()
            && usable.all(|&link| !links[link].up.is_full && !broker.wants_transmit(links[link].here));
        let event = Event::ClientTurnEnds {
            process: host.process,
            now,
            is_idle,
            outstanding: broker.outstanding(),
            calls: host.recent_calls.clone(),
            releases: host.recent_releases.len(),
        };
        self.see(&event);
    }

    fn handle_broker_event(&mut self, client: usize, event: BrokerEvent) {
        let (now, process) = (self.now, self.clients[client].process);
        self.oracle.note(now, || format!("client {client}: {event:?}"));
        match event {
            BrokerEvent::Connect { connection, .. } => {
                self.clients[client].connecting.insert(connection);
                if self.clients[client].hangs_until <= now {
                    let at = now + self.latency();
                    self.wake_at(at, Wake::Connected(process, connection));
                }
            }
            BrokerEvent::ShutdownWrite { connection } => {
                if let Some(link) = self.link_of(client, connection) {
                    self.links[link].is_write_shut = true;
                    self.push_up(link, Piece::End);
                }
            }
            BrokerEvent::Disconnect { connection, .. } => {
                if !self.clients[client].connecting.remove(&connection)
                    && let Some(link) = self.link_of(client, connection)
                {
                    self.close_here(link);
                }
            }
            BrokerEvent::AcquireSettled(id) => {
                if let Some(&call) = self.clients[client].calls.get(&id) {
                    self.see(&Event::Settled { call });
                    if let Some(script) = self.scripts.get(&call) {
                        self.wake_at(now + script.claims_after, Wake::Claim(call));
                    }
                }
            }
            BrokerEvent::ReleaseSettled(id) => self.claim_release(client, id),
            BrokerEvent::Closed => {
                if let Some(after) = self.clients[client].back_after.take() {
                    self.end_process(client);
                    self.wake_at(now + after, Wake::StartClient(client));
                }
            }
            _ => {}
        }
    }

    fn latency(&mut self) -> Duration {
        Duration::from_nanos(self.random.below(self.weather.delay.as_nanos() as u64 + 1))
    }

    pub(super) fn link_of(&self, client: usize, connection: ConnectionId) -> Option<LinkNo> {
        self.clients[client].links.iter().copied().find(|&link| self.links[link].here == connection)
    }

    /// The client's end is closed: unread bytes make that a reset.
    pub(super) fn close_here(&mut self, number: LinkNo) {
        let client = self.links[number].client;
        self.clients[client].links.retain(|&link| link != number);
        let link = &mut self.links[number];
        link.is_here = false;
        let end = if link.down.len == 0 { Piece::End } else { Piece::Reset };
        link.down.kill();
        if link.down.is_full {
            self.wake_at(self.now, Wake::DownRoom(number));
        }
        self.push_up(number, end);
    }

    pub(super) fn connected(&mut self, process: ProcessNo, connection: ConnectionId) {
        let client = self.processes[process];
        let host = &self.clients[client];
        if host.process != process || !host.connecting.contains(&connection) {
            return;
        }
        if host.paused_until > self.now {
            return self.wake_at(host.paused_until, Wake::Connected(process, connection));
        }
        let impostor = host.impostor.filter(|&(_, until)| self.now < until).map(|(kind, _)| kind);
        let is_up = self.host.server.is_some() && self.host.refuses_until <= self.now;
        self.clients[client].connecting.remove(&connection);
        match impostor {
            Some(kind) => {
                let link = self.add_link(client, connection, There::Impostor(kind));
                self.with_broker(client, |broker, now| broker.handle_connected(now, connection));
                self.greet_as_impostor(link, kind);
            }
            None if is_up => {
                let link = self.add_link(client, connection, There::Backlog);
                self.with_broker(client, |broker, now| broker.handle_connected(now, connection));
                self.wake_at(self.now, Wake::Accept(link));
            }
            None => {
                self.with_broker(client, |broker, now| broker.handle_disconnected(now, connection));
            }
        }
    }

    /// Hands a broker's bytes to the transport, as far as it takes them. Whether there were any.
    fn send_up(&mut self, number: LinkNo) -> bool {
        let link = &mut self.links[number];
        if !link.is_here || link.up.is_full {
            return false;
        }
        let (client, here, process) = (link.client, link.here, link.process);
        let now = self.clients[client].clock.read(self.now);
        let Some(broker) = &mut self.clients[client].broker else { return false };
        let room = link.up.room();
        if room == 0 {
            link.up.is_full = broker.wants_transmit(here);
            return false;
        }
        let mut bytes = Vec::new();
        if !broker.poll_transmit(now, here, &mut bytes) {
            return false;
        }
        let len = bytes.len();
        let failing = link.failing_write.take();
        let taken = match failing {
            None => piece_len(&mut link.random, self.weather.splits, room.min(len)),
            Some(_) => room.min(len),
        };
        let is_whole = taken == len;
        if failing.is_none() {
            broker.handle_transmitted(now, here, taken);
            link.up.is_full = !is_whole;
        }
        let mut begun = Vec::new();
        if self.oracle.facts.sees_wire {
            link.client_sent.offer(&bytes);
            (begun, _) = link.client_sent.take(if failing.is_some() { len } else { taken });
        }
        if !is_whole && taken < room {
            self.wake_at(self.now, Wake::UpRoom(number));
        }
        for frame in begun {
            self.see(&Event::Begun { link: number, process, now, frame });
        }
        bytes.truncate(taken);
        if failing.is_none_or(|(arrives, _)| arrives) {
            self.push_up(number, Piece::Bytes(bytes));
        }
        if let Some((_, is_lost)) = failing {
            self.count("fail a write");
            self.push_up(number, Piece::Reset);
            let Some(broker) = &mut self.clients[client].broker else { return false };
            if is_lost {
                broker.handle_disconnected(now, here);
            } else {
                broker.handle_write_failed(now, here);
            }
        }
        true
    }

    pub(super) fn push_up(&mut self, number: LinkNo, piece: Piece) {
        self.oracle.note(self.now, || format!("up {number} {piece:?}"));
        if !self.links[number].is_there {
            if matches!(piece, Piece::Bytes(_)) {
                self.push_down(number, Piece::Reset);
            }
            return;
        }
        let at = self.arrival(number);
        if let Some(at) = self.links[number].up.push(at, piece) {
            self.wake_at(at, Wake::Up(number));
        }
    }

    /// The server's end has read: the client's may write again.
    pub(super) fn make_room_up(&mut self, number: LinkNo) {
        if self.links[number].up.is_full {
            self.wake_at(self.now, Wake::UpRoom(number));
        }
    }

    pub(super) fn room_up(&mut self, number: LinkNo) {
        let Some(client) = self.awake(number, Wake::UpRoom(number)) else { return };
        if std::mem::take(&mut self.links[number].up.is_full) {
            self.client_turn(client);
        }
    }

    /// The client of a link, if it can do something now; else it is woken when it can.
    fn awake(&mut self, number: LinkNo, wake: Wake) -> Option<usize> {
        let client = self.links[number].client;
        let until = self.clients[client].paused_until;
        if until > self.now {
            self.wake_at(until, wake);
            return None;
        }
        Some(client)
    }

    /// What has arrived at the client's end.
    pub(super) fn deliver_down(&mut self, number: LinkNo) {
        loop {
            let link = &self.links[number];
            let Some(at) = link.down.arrival().filter(|_| link.is_here) else { return };
            let deaf_until = self.clients[link.client].deaf_until;
            let at: Time = at.max(deaf_until);
            if at > self.now {
                return self.wake_at(at, Wake::Down(number));
            }
            if self.awake(number, Wake::Down(number)).is_none() {
                return;
            }
            let Some(piece) = self.links[number].down.read(self.now, 4096) else { return };
            if self.links[number].down.is_full {
                self.wake_at(self.now, Wake::DownRoom(number));
            }
            self.hear(number, piece);
        }
    }

    fn hear(&mut self, number: LinkNo, piece: Piece) {
        let (client, here) = (self.links[number].client, self.links[number].here);
        self.oracle.note(self.now, || format!("client {client} reads {number} {piece:?}"));
        match piece {
            Piece::Bytes(bytes) => {
                let mut rest = &bytes[..];
                while !rest.is_empty() && self.links[number].is_here {
                    let link = &mut self.links[number];
                    let (part, behind) =
                        rest.split_at(piece_len(&mut link.random, self.weather.splits, rest.len()));
                    rest = behind;
                    self.hear_frames(number, part);
                    self.with_broker(client, |broker, now| broker.handle_data(now, here, part));
                }
            }
            Piece::End => {
                self.with_broker(client, |broker, now| broker.handle_eof(now, here));
            }
            Piece::Reset => {
                self.with_broker(client, |broker, now| broker.handle_disconnected(now, here));
            }
        }
    }

    fn hear_frames(&mut self, number: LinkNo, part: &[u8]) {
        let link = &mut self.links[number];
        if !self.oracle.facts.sees_wire || link.there == There::Impostor(Impostor::Stranger) {
            return;
        }
        let (process, client) = (link.process, link.client);
        let mut frames = Vec::new();
        link.client_received.push(part, &mut frames);
        let now = self.client_now(client);
        for frame in frames {
            self.see(&Event::Heard { link: number, process, now, frame });
        }
    }
}
