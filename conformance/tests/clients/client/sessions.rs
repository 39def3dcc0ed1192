//! How connections begin and end, and what becomes of the requests on them.

use std::io::Read as _;
use std::net::{Shutdown, TcpStream, ToSocketAddrs as _};
use std::thread;
use std::time::{Duration, Instant};

use super::{Client, Input, Phase};
use crate::faults::Fault;

impl Client {
    pub(super) fn connect(&mut self, link: usize) {
        let state = &mut self.links[link];
        state.session += 1;
        (state.phase, state.until) = (Phase::Connecting, Some(Instant::now() + Duration::from_secs(10)));
        let (session, inbox) = (state.session, self.inbox.clone());
        let address = self.addresses[state.address].clone();
        thread::spawn(move || {
            let addresses = address.to_socket_addrs().into_iter().flatten();
            let connect = |address| TcpStream::connect_timeout(&address, Duration::from_secs(3)).ok();
            let stream = addresses.into_iter().find_map(connect);
            let reading = stream.as_ref().and_then(|stream| stream.try_clone().ok());
            // Who has gone does not want to know.
            _ = inbox.send(Input::Connected { link, session, stream });
            let Some(mut reading) = reading else { return };
            let mut buffer = [0; 4096];
            loop {
                let len = reading.read(&mut buffer).unwrap_or(0);
                _ = inbox.send(Input::Data { link, session, data: buffer[..len].to_vec() });
                if len == 0 {
                    return;
                }
            }
        });
    }

    pub(super) fn connected(&mut self, link: usize, session: u64, stream: Option<TcpStream>) {
        let state = &mut self.links[link];
        if state.session != session || state.phase != Phase::Connecting {
            return;
        }
        match stream {
            Some(stream) => {
                state.phase = Phase::Greeting;
                state.stream = Some(stream);
                state.input.clear();
            }
            None => self.end_session(link, "lost"),
        }
    }

    pub(super) fn drain(&mut self, link: usize, failure: &'static str) {
        let state = &mut self.links[link];
        if state.phase != Phase::Ready {
            return;
        }
        let time = Duration::from_secs(if self.fault == Fault::ReadsOnForever { 3600 } else { 2 });
        (state.phase, state.until, state.failure) = (Phase::Draining, Some(Instant::now() + time), failure);
        if let Some(stream) = &state.stream {
            // It may be over already; then reading tells.
            _ = stream.shutdown(Shutdown::Write);
        }
        self.end_idle_drain(link);
    }

    pub(super) fn end_idle_drain(&mut self, link: usize) {
        let is_waited_for = self.acquires.values().any(|it| it.link == Some(link))
            || self.releases.values().any(|it| it.link == Some(link));
        if self.links[link].phase == Phase::Draining && !is_waited_for {
            self.end_session(link, self.links[link].failure);
        }
    }

    pub(super) fn redirected(&mut self, link: usize, failure: &'static str) {
        if self.is(Fault::RedirectIsALoss) {
            return self.end_session(link, failure);
        }
        let now = Instant::now();
        let without_pause = self.is(Fault::RetriesWithoutPause);
        let pause = |pauses: u32| match without_pause {
            true => now,
            false => now + Duration::from_millis((10_u64 << pauses.min(4)).min(100)),
        };
        let owners = self.acquires.iter().filter(|(_, it)| it.link == Some(link)).map(|(&owner, _)| owner);
        for owner in owners.collect::<Vec<_>>() {
            let Some(acquire) = self.acquires.get_mut(&owner) else { continue };
            if acquire.done.is_none() || now >= acquire.deadline {
                self.end(owner, "timeout");
                continue;
            }
            acquire.link = None;
            acquire.not_before = Some(pause(acquire.pauses));
            acquire.pauses += 1;
            if self.fault == Fault::AnotherOwnerForRetries
                && let Some(acquire) = self.acquires.remove(&owner)
            {
                self.acquires.insert(self.next_owner, acquire);
                self.next_owner += 1;
            }
        }
        for release in self.releases.values_mut().filter(|it| it.link == Some(link)) {
            release.link = None;
            release.not_before = Some(pause(release.pauses));
            release.pauses += 1;
        }
        self.end_session(link, failure);
    }

    pub(super) fn end_session(&mut self, link: usize, failure: &'static str) {
        let state = &mut self.links[link];
        let failure = if state.phase == Phase::Draining { state.failure } else { failure };
        let has_lived = matches!(state.phase, Phase::Ready | Phase::Draining)
            && state.since.elapsed() >= Duration::from_secs(1);
        state.hang_up();
        self.lose_requests(link);
        let is_failed = failure == "auth" || !(has_lived || matches!(failure, "redirected" | "overdue"));
        let state = &mut self.links[link];
        state.failures = if is_failed { state.failures + 1 } else { 0 };
        state.failure = failure;
        let pause = match (failure, self.fault) {
            (_, Fault::ReconnectsAtOnce) => Duration::from_millis(10),
            ("auth", Fault::TriesRefusedTokensAgain) => Duration::from_millis(100),
            ("redirected", Fault::RetriesWithoutPause) => Duration::ZERO,
            ("auth", _) => Duration::from_millis(3200),
            _ => Duration::from_millis(100 << state.failures.saturating_sub(1).min(5)),
        };
        (state.phase, state.until) = (Phase::Waiting, Some(Instant::now() + pause));
        if self.is_refused() {
            let unsent = self.acquires.iter().filter(|(_, it)| it.link.is_none()).map(|(&owner, _)| owner);
            unsent.collect::<Vec<_>>().into_iter().for_each(|owner| self.end(owner, "auth"));
        }
    }

    fn lose_requests(&mut self, link: usize) {
        let owners = self.acquires.iter().filter(|(_, it)| it.link == Some(link)).map(|(&owner, _)| owner);
        for owner in owners.collect::<Vec<_>>() {
            match self.fault {
                Fault::SendsAgainAfterALoss => {
                    if let Some(acquire) = self.acquires.get_mut(&owner) {
                        acquire.link = None;
                    }
                }
                Fault::LossIsTimeout => self.end(owner, "timeout"),
                _ => self.end(owner, "indeterminate"),
            }
        }
        let tokens = self.releases.iter().filter(|(_, it)| it.link == Some(link)).map(|(&token, _)| token);
        for token in tokens.collect::<Vec<_>>() {
            let Some(release) = self.releases.get_mut(&token) else { continue };
            release.link = None;
            match self.fault {
                Fault::ReleasesOnce => {
                    if let Some(done) = self.releases.remove(&token).and_then(|release| release.done) {
                        done("unconfirmed".into());
                    }
                }
                Fault::ReleaseTimeStartsAnew => release.deadline = Instant::now() + Duration::from_secs(5),
                _ => {}
            }
        }
    }
}
