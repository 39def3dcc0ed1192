use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use core::time::Duration;

use super::close::{CloseReason, Farewell, TimeoutReason};
use super::delivery::{Delivery, Replies};
use crate::id::{ConnectionId, Token};
use crate::key::Key;
use crate::limits::{
    FLUSH_TIMEOUT, FRAME_PROGRESS_TIMEOUT, HANDSHAKE_TIMEOUT, LINGER_TIMEOUT, MAX_OWED, WRITE_STALL_TIMEOUT,
};
use crate::time::Instant;
use crate::tls::{End, ServerTls, Stage, TlsError};
use crate::wire::auth::{LineDecoder, NONCE_LEN, Secret, TEXT_LEN, Verdict};
use crate::wire::{Decoder, FromClient, Reason, Reply, Request, auth, is_address};

/// What TLS begins with: a handshake record, of a version 3.x.
const TLS_HANDSHAKE: [u8; 2] = [0x16, 0x03];

/// One peer of a server: handshake, frames, back-pressure, delivery and the close.
///
/// Requests come out of [`handle_data`](Self::handle_data), replies go in, at once or later; it knows no
/// table. With one, use a [`Hub`](super::Hub), which does with it what the docs here ask of *its owner*.
///
/// Input may be split or merged anyhow. Whatever order its methods are called in, nothing becomes wrong, but
/// for one rule: the transport takes bytes only of the latest [`poll_transmit`](Self::poll_transmit), and
/// what it took is reported before the next call of anything else.
///
/// A time before the latest one seen is taken for that one.
pub struct Connection {
    id: ConnectionId,
    now: Instant,
    /// `TR-7`
    handshake_deadline: Instant,
    phase: Phase,
    /// What stands between the transport and everything here, if there is TLS.
    tls: Option<Box<Stage>>,
    delivery: Delivery,
    /// `AD-6`; runs while something is owed.
    stall_deadline: Option<Instant>,
    close_reason: Option<CloseReason>,
    is_authenticated: bool,
    /// `AD-5`: too much is owed for more requests.
    is_paused: bool,
    /// The peer's stream has ended.
    peer_ended: bool,
    /// The owner has not heard yet that the waiters must leave.
    departure: bool,
    /// The owner has not heard yet that writing must be shut down.
    write_shutdown: bool,
}

enum Phase {
    Handshake(Handshake),
    Open(Open),
    /// No more requests; what is owed goes out. `answering` says that replies still come in.
    Flushing {
        deadline: Instant,
        answering: bool,
    },
    /// All is delivered; unread input is discarded, so that it does not destroy the last replies (`TR-9`).
    Lingering {
        deadline: Instant,
    },
    Closed,
}

struct Handshake {
    secret: Arc<Secret>,
    nonce: [u8; TEXT_LEN],
    line: LineDecoder,
}

struct Open {
    decoder: Decoder<FromClient>,
    clock: FrameClock,
}

/// What a transport gave, with TLS taken off: [`Connection::open`].
#[must_use = "what is in it is lost otherwise"]
#[derive(Debug)]
pub struct Opened<'a> {
    data: Cow<'a, [u8]>,
    end: Option<End>,
}

/// The time that the frame at hand has left (`FR-6`).
#[derive(Clone, Copy)]
enum FrameClock {
    /// No frame has begun.
    Off,
    Running {
        deadline: Instant,
    },
    /// The server does not read, so the peer can't be blamed.
    Standing {
        left: Duration,
    },
}

impl FrameClock {
    fn stand(&mut self, now: Instant) {
        if let Self::Running { deadline } = *self {
            *self = Self::Standing { left: deadline.saturating_since(now) };
        }
    }

    fn run(&mut self, now: Instant) {
        if let Self::Standing { left } = *self {
            *self = Self::Running { deadline: now + left };
        }
    }
}

impl Connection {
    /// A connection that was accepted at `now`. The challenge is the first thing that it owes (`AU-1`).
    ///
    /// `id` and `nonce` are never used twice; the nonce comes from the system's secure random source
    /// (`AU-6`). An empty secret accepts any well-formed response (`AU-5`).
    #[must_use]
    pub fn new(now: Instant, id: ConnectionId, secret: Arc<Secret>, nonce: [u8; NONCE_LEN]) -> Self {
        let nonce = auth::nonce_text(&nonce);
        Self {
            id,
            now,
            handshake_deadline: now + HANDSHAKE_TIMEOUT,
            phase: Phase::Handshake(Handshake { secret, nonce, line: LineDecoder::new() }),
            tls: None,
            delivery: Delivery::challenge(|out| auth::encode_challenge(&nonce, out)),
            stall_deadline: Some(now + WRITE_STALL_TIMEOUT),
            close_reason: None,
            is_authenticated: false,
            is_paused: false,
            peer_ended: false,
            departure: false,
            write_shutdown: false,
        }
    }

    /// The same inside TLS (`TR-2`); to be said before anything else. The TLS handshake is part of the 10 s that
    /// there are for authentication (`TR-7`).
    #[must_use]
    pub fn with_tls(self, tls: &ServerTls) -> Self {
        Self { tls: Some(Stage::server(tls)), ..self }
    }

    /// The id it was made with.
    #[must_use]
    pub const fn id(&self) -> ConnectionId {
        self.id
    }

    /// Whether the handshake has succeeded, also when the connection has ended since.
    #[must_use]
    pub const fn is_authenticated(&self) -> bool {
        self.is_authenticated
    }

    /// Why it ends, or ended: the first cause.
    #[must_use]
    pub const fn close_reason(&self) -> Option<CloseReason> {
        self.close_reason
    }

    /// Whether the transport may be closed. Nothing comes out any more but what
    /// [`poll_withdrawn`](Self::poll_withdrawn) and its like report.
    #[must_use]
    pub const fn is_closed(&self) -> bool {
        matches!(self.phase, Phase::Closed)
    }

    /// Whether it takes requests: authenticated, and not about to end.
    #[must_use]
    pub const fn is_open(&self) -> bool {
        matches!(self.phase, Phase::Open(_))
    }

    /// How many bytes the peer is owed.
    #[must_use]
    pub fn owed(&self) -> usize {
        match &self.tls {
            None => self.delivery.owed(),
            // What has not entered never will.
            Some(stage) if stage.has_failed() => stage.owed(),
            Some(stage) => self.delivery.in_hand() + stage.owed(),
        }
    }

    /// Whether [`poll_transmit`](Self::poll_transmit) has something. Inside TLS that is not whenever the peer is
    /// owed something: the challenge waits for the end of the TLS handshake.
    #[must_use]
    pub fn wants_transmit(&self) -> bool {
        let may_send = matches!(self.phase, Phase::Handshake(_) | Phase::Open(_) | Phase::Flushing { .. });
        may_send
            && match &self.tls {
                None => self.delivery.owed() > 0,
                Some(stage) => stage.owed() > 0 || (stage.accepts_plaintext() && self.delivery.owed() > 0),
            }
    }

    /// Whether the transport shall be read. Not from 64 KiB owed until less than half of it is (`AD-5`), and
    /// not behind the end of the stream. Reads should be of [`READ_BUFFER_LEN`](crate::limits::READ_BUFFER_LEN)
    /// at most: all that is read is executed, so this bounds by how much more the peer can be owed.
    #[must_use]
    pub const fn wants_read(&self) -> bool {
        !self.peer_ended
            && match self.phase {
                Phase::Handshake(_) | Phase::Open(_) => !self.is_paused,
                Phase::Flushing { .. } | Phase::Lingering { .. } => true,
                Phase::Closed => false,
            }
    }

    /// Bytes from the peer. Each request that is whole goes to `serve`, in order (`OP-8`); its final reply may
    /// come at once or later. Costs time in proportion to the bytes, but for the handshake of TLS.
    pub fn handle_data(
        &mut self,
        now: Instant,
        data: &[u8],
        serve: impl FnMut(Request<'_>, &mut Replies<'_>),
    ) {
        let opened = self.open(data);
        self.handle_opened(now, opened, serve);
    }

    /// The first half of [`handle_data`](Self::handle_data), which needs nothing but the connection: TLS, if there
    /// is any, is taken off. It may cost a millisecond, and is to be done outside of a lock that others want.
    /// Without TLS it does nothing.
    pub fn open<'a>(&mut self, data: &'a [u8]) -> Opened<'a> {
        match &mut self.tls {
            None => Opened { data: Cow::Borrowed(data), end: None },
            Some(stage) if matches!(self.phase, Phase::Handshake(_) | Phase::Open(_)) && !self.peer_ended => {
                let opening = stage.open(data);
                Opened { data: Cow::Owned(opening.plain), end: opening.end }
            }
            // It is discarded, and need not be read for that.
            Some(_) => Opened { data: Cow::Borrowed(&[]), end: None },
        }
    }

    /// The second half of [`handle_data`](Self::handle_data).
    #[expect(clippy::needless_pass_by_value, reason = "it is used up: nothing may be served twice")]
    pub fn handle_opened(
        &mut self,
        now: Instant,
        opened: Opened<'_>,
        serve: impl FnMut(Request<'_>, &mut Replies<'_>),
    ) {
        let now = self.advance_clock(now);
        self.expire(now);
        if self.peer_ended {
            return;
        }
        self.read(now, &opened.data, serve);
        match opened.end {
            None => {}
            Some(End::Closed) => self.end_input(now),
            Some(End::Failed(error)) => self.fail_tls(now, error),
        }
        self.refresh(now);
    }

    fn read(&mut self, now: Instant, mut input: &[u8], serve: impl FnMut(Request<'_>, &mut Replies<'_>)) {
        if let Phase::Handshake(handshake) = &mut self.phase {
            match handshake.read(&mut input) {
                Ok(true) => {
                    self.is_authenticated = true;
                    self.phase = Phase::Open(Open { decoder: Decoder::new(), clock: FrameClock::Off });
                }
                Ok(false) => {}
                Err(fault) => self.fail(now, fault),
            }
        }
        if let Phase::Open(open) = &mut self.phase
            && let Err(fault) = open.read(now, input, &mut self.delivery, serve)
        {
            self.fail(now, fault);
        }
    }

    /// The peer's stream has ended (`TR-10`): what is owed is flushed, then the connection ends. Inside the
    /// handshake it ends at once (`TR-7`), inside a frame with `Ebad_request` (`FR-7`).
    pub fn handle_eof(&mut self, now: Instant) {
        let now = self.advance_clock(now);
        self.expire(now);
        if !self.peer_ended {
            self.end_input(now);
            self.refresh(now);
        }
    }

    fn end_input(&mut self, now: Instant) {
        self.peer_ended = true;
        self.delivery.take_back_waiters_grants();
        match &mut self.phase {
            Phase::Handshake(_) => self.end(CloseReason::HandshakeEnded),
            Phase::Open(open) => match open.decoder.finish() {
                Ok(()) => self.flush(now, CloseReason::Ended, true),
                Err(error) => self.fail(now, CloseReason::Malformed(error)),
            },
            Phase::Lingering { .. } => self.phase = Phase::Closed,
            Phase::Flushing { .. } | Phase::Closed => {}
        }
    }

    /// The transport is gone: reset, failed, or cut. What it was not reported to have taken, it did not take
    /// (`OP-7`).
    pub fn handle_disconnected(&mut self, now: Instant) {
        self.advance_clock(now);
        self.end(CloseReason::Disconnected);
        if let Some(stage) = &mut self.tls {
            stage.abandon_output();
        }
        self.delivery.take_back_all();
    }

    /// When [`handle_timeout`](Self::handle_timeout) is to be called; `None` while there is nothing to wait for.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.next_timeout().map(|(deadline, _)| deadline)
    }

    /// What [`poll_timeout`](Self::poll_timeout) is for.
    #[must_use]
    pub fn timeout_reason(&self) -> Option<TimeoutReason> {
        self.next_timeout().map(|(_, reason)| reason)
    }

    /// Does what is due at `now`. Offer the transport what is owed before, so that the peer is not blamed for a
    /// pause of this process (`AD-6`).
    pub fn handle_timeout(&mut self, now: Instant) {
        let now = self.advance_clock(now);
        self.expire(now);
        self.refresh(now);
    }

    /// Appends the next of what the peer is owed, at most [`MAX_BATCH`](crate::limits::MAX_BATCH) frames of it
    /// (`FR-11`). Whether there was any.
    ///
    /// Polling again gives the same bytes, until [`handle_transmitted`](Self::handle_transmitted) says how many
    /// of them the transport took. Until then these count as on their way: no frame of them is taken back but
    /// by [`handle_disconnected`](Self::handle_disconnected). So report 0 as well; and never keep the rest of a
    /// batch to write it later: poll again.
    #[must_use]
    pub fn poll_transmit(&mut self, out: &mut Vec<u8>) -> bool {
        if !matches!(self.phase, Phase::Handshake(_) | Phase::Open(_) | Phase::Flushing { .. }) {
            return false;
        }
        let Some(stage) = &mut self.tls else {
            let batch = self.delivery.show();
            out.extend_from_slice(batch);
            return !batch.is_empty();
        };
        if stage.accepts_plaintext() && self.delivery.owed() > 0 {
            let sealed = stage.seal(self.delivery.show());
            self.delivery.hold(stage.plain());
            if let Err(error) = sealed {
                self.fail_tls(self.now, error);
            }
        }
        self.tls.as_mut().is_some_and(|stage| stage.show(out))
    }

    /// The transport took the first `len` bytes of the latest [`poll_transmit`](Self::poll_transmit), and none
    /// of the others. More than was polled counts as all of it.
    pub fn handle_transmitted(&mut self, now: Instant, len: usize) {
        let now = self.advance_clock(now);
        if len > 0 {
            self.stall_deadline = None;
        }
        match &mut self.tls {
            None => self.delivery.take(len),
            Some(stage) => {
                self.delivery.take(stage.take(len));
                self.delivery.hold(stage.plain());
            }
        }
        if self.is_closed() {
            self.take_back_unfinished();
        }
        self.refresh(now);
    }

    /// The final reply to an earlier request, one that did not queue for its lock. If the peer can't get it any
    /// more, a grant comes back through [`poll_withdrawn`](Self::poll_withdrawn).
    pub fn reply(&mut self, now: Instant, reply: Reply<'_>) {
        let now = self.advance_clock(now);
        if self.is_open() || matches!(self.phase, Phase::Flushing { answering: true, .. }) {
            self.delivery.reply(&reply, false);
        } else {
            self.delivery.drop_reply(&reply);
        }
        self.refresh(now);
    }

    /// The final reply to an earlier acquire that queued for its lock. As [`reply`](Self::reply), but that a
    /// grant comes back, too, if the peer's stream ends before any of its bytes is on its way (`TR-10`).
    pub fn reply_to_waiter(&mut self, now: Instant, reply: Reply<'_>) {
        let now = self.advance_clock(now);
        if self.is_open() {
            self.delivery.reply(&reply, true);
            self.refresh(now);
        } else if matches!(reply, Reply::Acquired { .. }) {
            self.delivery.drop_reply(&reply);
            self.refresh(now);
        } else {
            self.reply(now, reply);
        }
    }

    /// Pushes an `L` (`RD-3`) unless the connection is not open. One that is still owed is replaced, so that a
    /// peer that does not read costs no memory. A leader that is not [an address](is_address) is none.
    pub fn announce_leader(&mut self, now: Instant, leader: Option<&str>) {
        let now = self.advance_clock(now);
        if self.is_open() {
            self.delivery.take_back_leader_changes();
            let leader = leader.filter(|leader| is_address(leader));
            self.delivery.say(&Reply::LeaderChanged { leader });
        }
        self.refresh(now);
    }

    /// Ends the connection from this side: replies decided go out, then the last word, nothing more is
    /// executed (`RD-1`). One that is not authenticated ends silently (`TR-8`); one that is ending already goes
    /// on with it, and waits no longer for replies that have not come.
    pub fn finish(&mut self, now: Instant, farewell: Farewell<'_>) {
        let now = self.advance_clock(now);
        self.expire(now);
        match self.phase {
            Phase::Handshake(_) => self.end(farewell.close_reason()),
            Phase::Open(_) => match farewell {
                Farewell::Moved { leader } if is_address(leader) => {
                    self.delivery.say(&Reply::Moved { leader });
                    self.flush(now, CloseReason::Moved, false);
                }
                Farewell::Moved { .. } => self.fail(now, CloseReason::NoLeader),
                Farewell::NotActive | Farewell::NoLeader => self.fail(now, farewell.close_reason()),
                Farewell::Unanswered => self.flush(now, CloseReason::Unanswered, false),
            },
            // It ends already; but nothing that it has asked for is waited for any more.
            Phase::Flushing { ref mut answering, .. } => *answering = false,
            Phase::Lingering { .. } | Phase::Closed => {}
        }
        self.refresh(now);
    }

    /// True once, when writing shall be shut down: all that was owed is delivered, and nothing follows (`TR-9`).
    #[must_use]
    pub fn poll_shutdown_write(&mut self) -> bool {
        core::mem::take(&mut self.write_shutdown)
    }

    /// True once, when its waiters must leave their queues (`OP-7`); then
    /// [`waiters_left`](Self::waiters_left) tells how many there were.
    #[must_use]
    pub fn poll_departure(&mut self) -> bool {
        core::mem::take(&mut self.departure)
    }

    /// So many of its requests waited in queues and have left them: they will have no reply.
    pub fn waiters_left(&mut self, now: Instant, count: usize) {
        let now = self.advance_clock(now);
        self.delivery.waiters_left(u32::try_from(count).unwrap_or(u32::MAX));
        self.refresh(now);
    }

    /// The next grant that did not reach the peer, for its owner to release at once (`OP-7`, `TR-10`).
    #[must_use]
    pub fn poll_withdrawn(&mut self) -> Option<(Key, Token)> {
        self.delivery.poll_withdrawn()
    }

    /// How many acquires have left flight since the last call: their replies are wholly handed over, or will
    /// never be (`AD-1`).
    #[must_use]
    pub fn take_settled(&mut self) -> usize {
        self.delivery.take_settled() as usize
    }

    /// Whether its owner has something to fetch: a departure, withdrawn grants, or settled acquires.
    #[must_use]
    pub fn wants_attention(&self) -> bool {
        self.departure || self.delivery.has_news()
    }

    fn advance_clock(&mut self, now: Instant) -> Instant {
        self.now = self.now.max(now);
        self.now
    }

    fn next_timeout(&self) -> Option<(Instant, TimeoutReason)> {
        let own = match &self.phase {
            Phase::Handshake(_) => Some((self.handshake_deadline, TimeoutReason::Handshake)),
            Phase::Open(open) => open.deadline().map(|deadline| (deadline, TimeoutReason::Frame)),
            Phase::Flushing { deadline, .. } => Some((*deadline, TimeoutReason::Flush)),
            Phase::Lingering { deadline } => Some((*deadline, TimeoutReason::Linger)),
            Phase::Closed => return None,
        };
        let stall = self.stall_deadline.map(|deadline| (deadline, TimeoutReason::WriteStall));
        own.into_iter().chain(stall).min_by_key(|&(deadline, _)| deadline)
    }

    /// Does what is due, one after the other.
    fn expire(&mut self, now: Instant) {
        while let Some((deadline, reason)) = self.next_timeout()
            && deadline <= now
        {
            match reason {
                TimeoutReason::Handshake => self.end(CloseReason::HandshakeTimedOut),
                TimeoutReason::Frame => self.fail(now, CloseReason::FrameTimedOut),
                TimeoutReason::WriteStall | TimeoutReason::Flush => self.end(CloseReason::WriteStalled),
                TimeoutReason::Linger => self.phase = Phase::Closed,
            }
        }
    }

    /// Ends it for a reason that has an `E`: that is the last frame (`FR-9`, `RD-1`).
    fn fail(&mut self, now: Instant, cause: CloseReason) {
        if let Some(reason) = cause.error() {
            self.delivery.say(&Reply::Error(reason));
        }
        self.flush(now, cause, false);
    }

    /// TLS has failed: what is inside of it goes out, its alert behind that, and nothing else ever will.
    fn fail_tls(&mut self, now: Instant, error: TlsError) {
        if matches!(self.phase, Phase::Handshake(_) | Phase::Open(_)) {
            self.delivery.take_back_unfinished();
            self.flush(now, CloseReason::Tls(error), false);
        }
    }

    /// No more requests; what is owed goes out.
    fn flush(&mut self, now: Instant, cause: CloseReason, answering: bool) {
        self.close_reason.get_or_insert(cause);
        self.departure = self.is_authenticated;
        self.phase = Phase::Flushing { deadline: self.bounded(now + FLUSH_TIMEOUT), answering };
    }

    /// No deadline gives a peer that is not authenticated more than its 10 s (`TR-7`).
    fn bounded(&self, deadline: Instant) -> Instant {
        if self.is_authenticated { deadline } else { deadline.min(self.handshake_deadline) }
    }

    /// Ends it without another byte.
    fn end(&mut self, cause: CloseReason) {
        self.close_reason.get_or_insert(cause);
        self.departure |= self.is_open();
        self.take_back_unfinished();
        self.write_shutdown = false;
        self.phase = Phase::Closed;
    }

    /// Takes back what the transport has not wholly taken, but for what may be on its way to it.
    fn take_back_unfinished(&mut self) {
        if let Some(stage) = &mut self.tls
            && !stage.is_shown()
        {
            stage.abandon_output();
            self.delivery.hold(0);
        }
        self.delivery.take_back_unfinished();
    }

    /// What follows from how much is owed now.
    fn refresh(&mut self, now: Instant) {
        let mut owed = self.owed();
        let is_flushed = owed == 0
            && matches!(self.phase, Phase::Flushing { answering, .. }
                if !(answering && self.delivery.has_unanswered()));
        if is_flushed && let Some(stage) = &mut self.tls {
            stage.close();
            owed = stage.owed();
        }
        if owed == 0 || (self.tls.is_some() && !self.wants_transmit()) {
            self.stall_deadline = None;
        } else if self.stall_deadline.is_none() {
            self.stall_deadline = Some(now + WRITE_STALL_TIMEOUT);
        }
        if owed >= MAX_OWED {
            self.is_paused = true;
        } else if owed < MAX_OWED / 2 {
            self.is_paused = false;
        }
        match &mut self.phase {
            Phase::Open(open) if self.is_paused => open.clock.stand(now),
            Phase::Open(open) => open.clock.run(now),
            Phase::Flushing { .. } if is_flushed && owed == 0 => {
                self.write_shutdown = true;
                self.phase = if self.peer_ended {
                    Phase::Closed
                } else {
                    Phase::Lingering { deadline: self.bounded(now + LINGER_TIMEOUT) }
                };
            }
            _ => {}
        }
    }
}

impl Handshake {
    /// Reads the response. Whether it has come, and is good.
    fn read(&mut self, input: &mut &[u8]) -> Result<bool, CloseReason> {
        let Ok(line) = self.line.next(input) else {
            let is_tls = self.line.part().starts_with(&TLS_HANDSHAKE);
            return Err(if is_tls {
                CloseReason::UnexpectedTls(Reason::LineTooLong)
            } else {
                CloseReason::ResponseTooLong
            });
        };
        let Some(line) = line else { return Ok(false) };
        match auth::judge(&self.secret, &self.nonce, line) {
            Verdict::Accepted => Ok(true),
            Verdict::Wrong => Err(CloseReason::AuthFailed),
            Verdict::Malformed if line.starts_with(&TLS_HANDSHAKE) => {
                Err(CloseReason::UnexpectedTls(Reason::BadRequest))
            }
            Verdict::Malformed => Err(CloseReason::MalformedResponse),
        }
    }
}

impl Open {
    fn deadline(&self) -> Option<Instant> {
        match self.clock {
            FrameClock::Running { deadline } => Some(deadline),
            FrameClock::Off | FrameClock::Standing { .. } => None,
        }
    }

    /// Reads and serves frames, until the input ends or can't be trusted any further (`FR-9`).
    fn read(
        &mut self,
        now: Instant,
        mut input: &[u8],
        delivery: &mut Delivery,
        mut serve: impl FnMut(Request<'_>, &mut Replies<'_>),
    ) -> Result<(), CloseReason> {
        let mut is_same_frame = self.decoder.is_mid_frame();
        while let Some(frame) = self.decoder.next(&mut input).map_err(CloseReason::Malformed)? {
            is_same_frame = false;
            match Request::parse(frame) {
                Ok(request) => {
                    delivery.request_received(&request);
                    serve(request, &mut Replies(delivery));
                }
                Err(error) if error.is_fatal() => return Err(CloseReason::ZeroOwner),
                Err(error) => delivery.say(&Reply::Error(error.reason())),
            }
        }
        if !self.decoder.is_mid_frame() {
            self.clock = FrameClock::Off;
        } else if !is_same_frame {
            self.clock = FrameClock::Running { deadline: now + FRAME_PROGRESS_TIMEOUT };
        }
        Ok(())
    }
}

impl fmt::Debug for Connection {
    /// Neither the peer's bytes nor the nonce.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let phase = match self.phase {
            Phase::Handshake(_) => "Handshake",
            Phase::Open(_) => "Open",
            Phase::Flushing { .. } => "Flushing",
            Phase::Lingering { .. } => "Lingering",
            Phase::Closed => "Closed",
        };
        f.debug_struct("Connection")
            .field("id", &self.id)
            .field("tls", &self.tls)
            .field("phase", &phase)
            .field("owed", &self.owed())
            .field("in_flight", &self.delivery.in_flight())
            .field("close_reason", &self.close_reason)
            .finish_non_exhaustive()
    }
}
