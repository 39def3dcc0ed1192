use alloc::sync::Arc;

use super::close::Farewell;
use super::connection::{Connection, Opened};
use super::delivery::Replies;
use super::mail::Mailroom;
use crate::id::{ConnectionId, Token};
use crate::limits::{Limits, ZeroLimit};
use crate::lock::{Answer, Outcome, Table, TableConfig, TokenRange, Usage, Verdict};
use crate::time::Instant;
use crate::tls::ServerTls;
use crate::wire::auth::{NONCE_LEN, Secret};
use crate::wire::{Acquire, Release, Reply, Request};

/// What a server starts with.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ServerConfig {
    /// What clients must know. The empty secret lets everybody in (`AU-5`).
    pub secret: Secret,
    /// What is admitted.
    pub limits: Limits,
    /// The tokens that may be given (`FI-8`).
    pub tokens: TokenRange,
    /// The seed for the hashes of keys: random, and secret.
    pub hash_seed: [u64; 2],
    /// With it every connection is inside TLS (`TR-2`).
    pub tls: Option<ServerTls>,
}

/// Why a connection is closed right after accept (`AD-4`, `AU-8`, `TR-8`).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Refused {
    /// `AD-4`
    #[error("the limit of {limit} connections is reached")]
    Connections {
        /// The limit.
        limit: u32,
    },
    /// `AU-8`
    #[error("the limit of {limit} unauthenticated connections is reached")]
    Unauthenticated {
        /// The limit.
        limit: u32,
    },
    /// `TR-8`
    #[error("the server is shutting down")]
    ShuttingDown,
}

/// What all connections of a node share: the table, who is connected, and the mail between them.
///
/// Its connections are owned by whoever serves their sockets; the hub may be behind a lock that all of them
/// share. With the lock: [`receive`](Self::receive) and its like. Without it: reading, and
/// [`Connection::poll_transmit`] and [`Connection::handle_transmitted`].
///
/// For each connection, until [`Connection::is_closed`]:
/// - a read gives bytes: [`receive`](Self::receive); the end of the stream: [`receive_eof`](Self::receive_eof);
/// - it was named by [`poll_mail`](Self::poll_mail), its [timeout](Connection::poll_timeout) is due, or
///   [`Connection::wants_attention`] after a write: [`attend`](Self::attend);
///
/// and at its end, however it came: [`disconnect`](Self::disconnect), so that no grant is lost (`OP-7`).
/// After each call on the hub: wake those that [`poll_mail`](Self::poll_mail) names, and look at
/// [`poll_timeout`](Self::poll_timeout) again.
#[derive(Debug)]
pub struct Hub {
    now: Instant,
    secret: Arc<Secret>,
    tls: Option<ServerTls>,
    limits: Limits,
    table: Table,
    mailroom: Mailroom,
    next_id: u64,
    is_shutting_down: bool,
}

impl Hub {
    /// A hub without connections and holds.
    ///
    /// # Errors
    /// [`ZeroLimit`] if one of the limits is 0.
    pub fn new(now: Instant, config: ServerConfig) -> Result<Self, ZeroLimit> {
        let ServerConfig { secret, limits, tokens, hash_seed, tls } = config;
        limits.check()?;
        Ok(Self {
            now,
            secret: Arc::new(secret),
            tls,
            limits,
            table: Table::new(now, TableConfig { limits, tokens, hash_seed }),
            mailroom: Mailroom::default(),
            next_id: 1,
            is_shutting_down: false,
        })
    }

    /// A connection that was accepted at `now`, with 32 bytes from the system's secure random source that are
    /// never used again (`AU-6`).
    ///
    /// # Errors
    /// [`Refused`]: close it.
    pub fn accept(&mut self, now: Instant, nonce: [u8; NONCE_LEN]) -> Result<Connection, Refused> {
        let now = self.advance_clock(now);
        let Limits { connections, unauthenticated, .. } = self.limits;
        if self.is_shutting_down {
            return Err(Refused::ShuttingDown);
        }
        if self.mailroom.len() >= connections as usize {
            return Err(Refused::Connections { limit: connections });
        }
        if self.mailroom.unauthenticated() >= unauthenticated as usize {
            return Err(Refused::Unauthenticated { limit: unauthenticated });
        }
        let id = ConnectionId::new(self.next_id);
        self.next_id += 1;
        self.mailroom.open(id);
        let connection = Connection::new(now, id, Arc::clone(&self.secret), nonce);
        Ok(match &self.tls {
            None => connection,
            Some(tls) => connection.with_tls(tls),
        })
    }

    /// Connections that are accepted from now on are inside TLS with this certificate, or without TLS. Those that
    /// exist live on.
    pub fn set_tls(&mut self, tls: Option<ServerTls>) {
        self.tls = tls;
    }

    /// Connections that are accepted from now on must know this secret. Those that exist live on, also those that
    /// are not authenticated yet.
    pub fn set_secret(&mut self, secret: Secret) {
        self.secret = Arc::new(secret);
    }

    /// Bytes from a connection's peer. Costs time in proportion to them: read at most
    /// [`READ_BUFFER_LEN`](crate::limits::READ_BUFFER_LEN) at once. With TLS, and a lock around the hub, better
    /// [`receive_opened`](Self::receive_opened).
    pub fn receive(&mut self, now: Instant, connection: &mut Connection, data: &[u8]) {
        let opened = connection.open(data);
        self.receive_opened(now, connection, opened);
    }

    /// The same with what [`Connection::open`] made of the bytes, so that TLS is taken off outside of the lock.
    pub fn receive_opened(&mut self, now: Instant, connection: &mut Connection, opened: Opened<'_>) {
        let now = self.take_input(now, connection);
        let id = connection.id();
        let was_authenticated = connection.is_authenticated();
        let Self { table, mailroom, limits, is_shutting_down, .. } = self;
        connection.handle_opened(now, opened, |request, replies| {
            match request {
                // What `Enot_active` speaks of must not have been executed (`RD-1`).
                Request::Acquire(_) if *is_shutting_down => {}
                Request::Acquire(acquire) => {
                    if let Some(reply) = judge(table, now, id, limits, &acquire, replies) {
                        replies.reply(reply);
                    }
                }
                Request::Release(Release { token, key }) => {
                    let reply = if table.release(now, token, key) {
                        Reply::Released { token, key }
                    } else {
                        Reply::NotHeld { token, key }
                    };
                    replies.reply(reply);
                }
            }
            while let Some(answer) = table.poll_answer() {
                if answer.connection == id {
                    replies.reply_to_waiter(reply_of(&answer));
                } else {
                    post(table, mailroom, now, answer);
                }
            }
        });
        if connection.is_authenticated() && !was_authenticated {
            self.mailroom.authenticated(id);
        }
        self.settle(now, connection);
    }

    /// The stream of a connection's peer has ended (`TR-10`).
    pub fn receive_eof(&mut self, now: Instant, connection: &mut Connection) {
        let now = self.take_input(now, connection);
        connection.handle_eof(now);
        self.settle(now, connection);
    }

    /// Brings a connection up to date: its mail, its timeouts, the shutdown; and the table: replies that were
    /// delivered, grants that were not, waiters that must leave.
    pub fn attend(&mut self, now: Instant, connection: &mut Connection) {
        let now = self.catch_up(now, connection);
        self.settle(now, connection);
    }

    /// The end of a connection, be it closed, reset or dropped: nothing of it is left but the grants that
    /// were wholly handed over (`OP-7`).
    pub fn disconnect(&mut self, now: Instant, mut connection: Connection) {
        let now = self.advance_clock(now);
        connection.handle_disconnected(now);
        self.table.disconnect(now, connection.id());
        self.deliver_mail(now, &mut connection);
        self.settle(now, &mut connection);
        self.mailroom.close(connection.id());
    }

    /// The next connection to wake, so that it is [attended](Self::attend). Each is named once until then.
    #[must_use]
    pub fn poll_mail(&mut self) -> Option<ConnectionId> {
        self.mailroom.poll_wake()
    }

    /// When [`handle_timeout`](Self::handle_timeout) is to be called; `None` while there is nothing to wait for.
    /// Connections have timeouts of their own.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.table.poll_timeout()
    }

    /// Ends what is due: leases and waits. Bounded; while more is due, [`poll_timeout`](Self::poll_timeout) is
    /// not later than `now`.
    pub fn handle_timeout(&mut self, now: Instant) {
        let now = self.advance_clock(now);
        self.table.handle_timeout(now);
        self.post_answers(now);
    }

    /// Begins to shut down (`TR-8`): no connection is accepted any more, all waiters leave their queues, and
    /// every connection is to be attended, which ends it: with `Enot_active`, or silently before it is
    /// authenticated. Releases that were read, but not received here, may still be: they are executed.
    pub fn shut_down(&mut self, now: Instant) {
        let now = self.advance_clock(now);
        self.is_shutting_down = true;
        self.mailroom.wake_all();
        for id in self.mailroom.ids() {
            self.table.disconnect(now, id);
        }
        self.post_answers(now);
    }

    /// Whether [`shut_down`](Self::shut_down) was called.
    #[must_use]
    pub const fn is_shutting_down(&self) -> bool {
        self.is_shutting_down
    }

    /// How many connections there are, those included that are about to end.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.mailroom.len()
    }

    /// How many connections are not authenticated (`AU-8`).
    #[must_use]
    pub const fn unauthenticated(&self) -> usize {
        self.mailroom.unauthenticated()
    }

    /// How full the table is.
    #[must_use]
    pub fn usage(&self) -> Usage {
        self.table.usage()
    }

    /// Allows tokens up to this one. It never takes tokens back.
    pub fn extend_tokens(&mut self, last: Token) {
        self.table.extend_tokens(last);
    }

    /// How many tokens may still be given (`FI-6`).
    #[must_use]
    pub fn tokens_left(&self) -> u64 {
        self.table.tokens_left()
    }

    fn advance_clock(&mut self, now: Instant) -> Instant {
        self.now = self.now.max(now);
        self.now
    }

    /// What comes before new input of a connection: due deadlines (`OP-6`), its mail, its timeouts.
    fn take_input(&mut self, now: Instant, connection: &mut Connection) -> Instant {
        let now = self.advance_clock(now);
        self.table.settle(now);
        self.post_answers(now);
        self.catch_up(now, connection)
    }

    /// A connection's mail and timeouts. Not the table's deadlines: those who are woken by one batch of them
    /// must not each do the next, or a call would have no bound.
    fn catch_up(&mut self, now: Instant, connection: &mut Connection) -> Instant {
        let now = self.advance_clock(now);
        self.deliver_mail(now, connection);
        connection.handle_timeout(now);
        now
    }

    /// The shutdown, if there is one, and what the table must hear of a connection.
    fn settle(&mut self, now: Instant, connection: &mut Connection) {
        if self.is_shutting_down {
            connection.finish(now, Farewell::NotActive);
        }
        if connection.poll_departure() {
            let left = self.table.disconnect(now, connection.id());
            connection.waiters_left(now, left);
        }
        while let Some((key, token)) = connection.poll_withdrawn() {
            self.table.release(now, token.value(), key.as_key_ref());
        }
        self.table.answered(connection.take_settled());
        self.post_answers(now);
    }

    fn deliver_mail(&mut self, now: Instant, connection: &mut Connection) {
        self.mailroom.collect(connection.id(), |answer| connection.reply_to_waiter(now, reply_of(answer)));
    }

    fn post_answers(&mut self, now: Instant) {
        while let Some(answer) = self.table.poll_answer() {
            post(&mut self.table, &mut self.mailroom, now, answer);
        }
    }
}

/// The reply to an acquire, unless it queues.
fn judge<'a>(
    table: &mut Table,
    now: Instant,
    id: ConnectionId,
    limits: &Limits,
    &Acquire { wait, lease, owner, key }: &Acquire<'a>,
    replies: &Replies<'_>,
) -> Option<Reply<'a>> {
    // The one at hand is in flight already.
    if replies.in_flight() > limits.acquires_per_connection {
        table.refuse();
        return Some(Reply::Busy { owner, key });
    }
    match table.acquire(now, id, owner, wait, lease, key) {
        Outcome::Granted(token) => Some(Reply::Acquired { token, owner, key }),
        Outcome::TimedOut => Some(Reply::TimedOut { owner, key }),
        Outcome::Busy => Some(Reply::Busy { owner, key }),
        Outcome::Queued => None,
    }
}

fn reply_of(answer: &Answer) -> Reply<'_> {
    let &Answer { owner, ref key, verdict, .. } = answer;
    let key = key.as_key_ref();
    match verdict {
        Verdict::Granted(token) => Reply::Acquired { token, owner, key },
        Verdict::TimedOut => Reply::TimedOut { owner, key },
        Verdict::Busy => Reply::Busy { owner, key },
    }
}

/// Keeps an answer for its connection. One that nobody waits for is dropped, and its grant is released.
fn post(table: &mut Table, mailroom: &mut Mailroom, now: Instant, answer: Answer) {
    if let Err(Answer { key, verdict, .. }) = mailroom.post(answer) {
        if let Verdict::Granted(token) = verdict {
            table.release(now, token.value(), key.as_key_ref());
        }
        table.answered(1);
    }
}
