//! A lock server in the plainest way, which shares nothing with the project's own, and which can have a fault.

mod connection;
mod judge;
mod table;

use std::collections::BTreeMap;
use std::io;
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use connection::Connection;
use table::{Acquire, Answer, Table};
use ticketing_conformance::server::Limits;
use ticketing_conformance::wire::{Message as _, Reply};

use crate::fault::Fault;

/// What clients must know.
pub(crate) const SECRET: &[u8] = b"the secret of the model";

/// How long the loop naps at most when nothing happens.
const LONGEST_NAP: Duration = Duration::from_millis(16);

/// A server on a thread of its own, until it is dropped.
pub(crate) struct Running {
    pub(crate) address: SocketAddr,
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Running {
    pub(crate) fn start(fault: Option<Fault>, limits: Limits) -> Self {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap();
        let is_over = Arc::new(AtomicBool::new(false));
        let ending = Arc::clone(&is_over);
        let thread = thread::spawn(move || {
            let mut model = Model::new(fault, limits);
            let mut nap = Duration::ZERO;
            while !ending.load(Ordering::Relaxed) {
                while let Ok((stream, _)) = listener.accept() {
                    model.accept(stream);
                }
                nap = match model.turn() {
                    true => Duration::ZERO,
                    false => LONGEST_NAP.min(nap + Duration::from_millis(1)),
                };
                thread::sleep(nap);
            }
        });
        Self { address, is_over, thread: Some(thread) }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap();
        }
    }
}

/// What a connection is told about the server.
#[derive(Clone, Copy)]
pub(crate) struct Rules {
    pub(crate) fault: Option<Fault>,
    pub(crate) limits: Limits,
}

impl Rules {
    pub(crate) fn has(&self, fault: Fault) -> bool {
        self.fault == Some(fault)
    }
}

struct Model {
    rules: Rules,
    table: Table,
    connections: BTreeMap<usize, Connection>,
    accepted: usize,
}

impl Model {
    fn new(fault: Option<Fault>, limits: Limits) -> Self {
        Self {
            rules: Rules { fault, limits },
            table: Table::new(fault, limits),
            connections: BTreeMap::new(),
            accepted: 0,
        }
    }

    fn accept(&mut self, stream: TcpStream) {
        let Rules { limits, .. } = self.rules;
        let extra = usize::from(self.rules.has(Fault::OneConnectionTooMany));
        let strangers = self.connections.values().filter(|connection| !connection.is_authenticated()).count();
        let is_full =
            limits.connections.is_some_and(|limit| self.connections.len() >= limit as usize + extra);
        let is_crowded = limits.unauthenticated.is_some_and(|limit| strangers >= limit as usize);
        if is_full || (is_crowded && !self.rules.has(Fault::UnauthenticatedUnlimited)) {
            return;
        }
        self.accepted += 1;
        if let Ok(connection) = Connection::new(self.rules, stream, self.accepted) {
            self.connections.insert(self.accepted, connection);
        }
    }

    /// Whether anything happened.
    fn turn(&mut self) -> bool {
        let mut is_busy = false;
        // The latest first: of two that ended together the waiter is seen to leave before the holder gives back.
        let ids: Vec<usize> = self.connections.keys().rev().copied().collect();
        for id in ids {
            let now = Instant::now();
            is_busy |= self.read(now, id);
            self.deliver(now);
            self.connections.get_mut(&id).into_iter().for_each(|connection| is_busy |= connection.write(now));
            self.bury(now, id);
        }
        let now = Instant::now();
        if self.table.next_deadline().is_some_and(|deadline| deadline <= now) {
            self.table.expire(now, None);
            self.deliver(now);
        }
        is_busy
    }

    fn read(&mut self, now: Instant, id: usize) -> bool {
        let Some(connection) = self.connections.get_mut(&id) else { return false };
        let is_busy = connection.read(now);
        while let Some(connection) = self.connections.get_mut(&id)
            && let Some(request) = connection.next_request(now)
        {
            match request {
                connection::Request::Acquire { wait, lease, owner, key } => {
                    let [wait, lease] = [wait, lease].map(|secs| Duration::from_secs(secs.into()));
                    let in_flight = connection.in_flight;
                    connection.in_flight += 1;
                    self.table.acquire(now, Acquire { connection: id, owner, key, wait, lease }, in_flight);
                }
                connection::Request::Release { token, key } => {
                    let is_released = self.table.release(now, id, token, &key);
                    let reply = match is_released {
                        true => Reply::Released { token, key },
                        false => Reply::NotHeld { token, key },
                    };
                    connection.reply(&reply);
                }
                connection::Request::Leave => self.table.disconnect(now, id, &[]),
            }
            self.deliver(now);
        }
        is_busy
    }

    fn deliver(&mut self, now: Instant) {
        for (acquire, answer) in self.table.take_answers() {
            let Acquire { connection: id, owner, key, .. } = acquire;
            let connection = self.connections.get_mut(&id).filter(|connection| connection.is_answering());
            match (connection, answer) {
                (Some(connection), answer) => {
                    // Some faults answer twice.
                    connection.in_flight = connection.in_flight.saturating_sub(1);
                    let owner =
                        if self.rules.has(Fault::TruncatesOwners) { owner & 0xffff_ffff } else { owner };
                    match answer {
                        Answer::Acquired(token) => connection.grant(token, owner, key),
                        Answer::TimedOut => connection.reply(&Reply::TimedOut { owner, key }),
                        Answer::Busy => connection.reply(&Reply::Busy { owner, key }),
                    }
                }
                (None, Answer::Acquired(token)) if !self.rules.has(Fault::KeepsClosedWaiters) => {
                    self.table.disconnect(now, id, &[(key, token)]);
                }
                (None, _) => {}
            }
        }
    }

    /// Forgets a connection that is over.
    fn bury(&mut self, now: Instant, id: usize) {
        if self.connections.get(&id).is_some_and(Connection::is_over)
            && let Some(connection) = self.connections.remove(&id)
        {
            let undelivered = match self.rules.has(Fault::KeepsUndeliveredGrants) {
                true => Vec::new(),
                false => connection.undelivered(),
            };
            self.table.disconnect(now, id, &undelivered);
            self.deliver(now);
        }
    }
}

/// The bytes of an `E`.
fn error(reason: &str) -> Vec<u8> {
    Reply::error(reason).encode()
}

fn would_block(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}
