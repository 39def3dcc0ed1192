//! One peer of a model server: bytes to requests, replies to bytes, and the times of both.

use std::io::{self, Read as _, Write as _};
use std::net::{Shutdown, TcpStream};
use std::time::{Duration, Instant};

use ticketing_conformance::wire::{Message as _, Reply};

use super::{Rules, error, judge, would_block};
use crate::fault::Fault;

const MAX_OWED: usize = 64 * 1024;

/// What a frame asks for.
pub(super) enum Request {
    Acquire {
        wait: u8,
        lease: u8,
        owner: u64,
        key: Vec<u8>,
    },
    Release {
        token: u64,
        key: Vec<u8>,
    },
    /// The connection is about to end: its waiters leave.
    Leave,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    Handshake,
    Open,
    /// What is owed goes out, then the stream ends.
    Closing,
}

pub(super) struct Connection {
    rules: Rules,
    stream: TcpStream,
    nonce: String,
    phase: Phase,
    accepted: Instant,
    last_input: Instant,
    input: Vec<u8>,
    output: Vec<u8>,
    /// How many bytes were queued and written in all.
    queued: usize,
    written: usize,
    /// Grants, each with how many bytes have to be written until it is delivered.
    grants: Vec<(usize, Vec<u8>, u64)>,
    pub(super) in_flight: usize,
    frame_since: Option<Instant>,
    stalled_since: Instant,
    is_paused: bool,
    has_left: bool,
    /// After a wrong response.
    executes_anyway: bool,
    peer_ended: bool,
    has_failed: bool,
    lingers_since: Option<Instant>,
}

impl Connection {
    pub(super) fn new(rules: Rules, stream: TcpStream, id: usize) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        stream.set_nodelay(true)?;
        // What a peer does not read is soon owed.
        socket2::SockRef::from(&stream).set_send_buffer_size(32 * 1024)?;
        let now = Instant::now();
        let mut connection = Self {
            rules,
            stream,
            nonce: nonce(rules, id),
            phase: Phase::Handshake,
            accepted: now,
            last_input: now,
            input: Vec::new(),
            output: Vec::new(),
            queued: 0,
            written: 0,
            grants: Vec::new(),
            in_flight: 0,
            frame_since: None,
            stalled_since: now,
            is_paused: false,
            has_left: false,
            executes_anyway: false,
            peer_ended: false,
            has_failed: false,
            lingers_since: None,
        };
        connection.say(format!("sha256 {}\n", connection.nonce).as_bytes());
        Ok(connection)
    }

    pub(super) fn is_authenticated(&self) -> bool {
        self.phase != Phase::Handshake
    }

    pub(super) fn is_answering(&self) -> bool {
        let is_open = self.phase == Phase::Open && !self.has_left;
        !self.has_failed && (is_open || self.executes_anyway)
    }

    pub(super) fn reply(&mut self, reply: &Reply) {
        self.say(&reply.encode());
    }

    pub(super) fn grant(&mut self, token: u64, owner: u64, key: Vec<u8>) {
        self.reply(&Reply::Acquired { token, owner, key: key.clone() });
        self.grants.push((self.queued, key, token));
    }

    /// Grants of which the peer has not got everything.
    pub(super) fn undelivered(&self) -> Vec<(Vec<u8>, u64)> {
        let late = self.grants.iter().filter(|(end, ..)| *end > self.written);
        late.map(|(_, key, token)| (key.clone(), *token)).collect()
    }

    /// Whether any bytes came.
    pub(super) fn read(&mut self, now: Instant) -> bool {
        self.pause_or_resume(now);
        let is_deaf = self.phase == Phase::Closing && self.rules.has(Fault::ClosesWithUnreadInput);
        if self.is_paused || self.peer_ended || self.has_failed || is_deaf {
            return false;
        }
        let mut buffer = [0; 4096];
        match self.stream.read(&mut buffer) {
            Ok(0) => self.peer_ended = true,
            Ok(len) if self.phase == Phase::Closing && !self.executes_anyway => return len > 0,
            Ok(len) => {
                self.input.extend(&buffer[..len]);
                self.last_input = now;
                if self.rules.has(Fault::FrameTimeoutPerByte) {
                    self.frame_since = None;
                }
                if self.rules.has(Fault::HandshakeTimeoutPerByte) {
                    self.accepted = now;
                }
            }
            Err(error) if would_block(&error) => return false,
            Err(_) => self.has_failed = true,
        }
        true
    }

    fn pause_or_resume(&mut self, now: Instant) {
        if self.output.len() >= MAX_OWED {
            self.is_paused = true;
            self.has_failed |= self.rules.has(Fault::CutsSlowReaders);
        } else if self.output.len() < MAX_OWED / 2 {
            self.is_paused = false;
        }
        if self.is_paused && self.frame_since.is_some() {
            self.frame_since = Some(now);
        }
    }

    /// The next thing to do for the table.
    pub(super) fn next_request(&mut self, now: Instant) -> Option<Request> {
        if self.phase == Phase::Handshake {
            self.handshake(now);
        }
        if self.has_failed || self.output.len() >= MAX_OWED {
            return None;
        }
        match self.phase {
            Phase::Handshake => None,
            Phase::Closing if !self.has_left && !self.executes_anyway => {
                self.has_left = true;
                Some(Request::Leave)
            }
            Phase::Closing if !self.executes_anyway => None,
            _ if self.rules.has(Fault::AnswersInOrderOnly) && self.in_flight > 0 && !self.peer_ended => None,
            _ => self.frame(now),
        }
    }

    fn handshake(&mut self, now: Instant) {
        let lf = self.input.iter().take(193).position(|&byte| byte == b'\n');
        if let Some(lf) = lf {
            let line: Vec<u8> = self.input.drain(..=lf).collect();
            match judge::line(self.rules, &line[..lf], &self.nonce) {
                Ok(()) => {
                    self.phase = Phase::Open;
                    if self.rules.has(Fault::PushesLeader) {
                        self.say(b"L\n");
                    }
                }
                Err(reason) => {
                    self.executes_anyway =
                        reason == "auth_failed" && self.rules.has(Fault::ExecutesBehindWrongResponse);
                    self.refuse(reason);
                }
            }
        } else if self.input.len() > 192 && !self.rules.has(Fault::UnboundedHandshakeLine) {
            self.refuse("line_too_long");
        } else if self.peer_ended {
            self.phase = Phase::Closing;
        } else if now - self.accepted >= Duration::from_secs(10) && !self.rules.has(Fault::NoHandshakeTimeout)
        {
            if self.rules.has(Fault::HandshakeTimeoutSaysSo) {
                self.say(&error("bad_request"));
            }
            self.phase = Phase::Closing;
        }
    }

    fn refuse(&mut self, reason: &str) {
        if !self.rules.has(Fault::RefusesSilently) {
            self.say(&error(reason));
        }
        self.phase = Phase::Closing;
    }

    fn frame(&mut self, now: Instant) -> Option<Request> {
        while self.input.first() == Some(&b'\n') {
            if self.rules.has(Fault::KeepAliveIsUnknownOp) {
                return self.fatal("bad_op");
            }
            self.input.remove(0);
            self.skip_line_feeds();
        }
        let Some(&op) = self.input.first() else {
            if self.peer_ended && self.phase == Phase::Open {
                self.phase = Phase::Closing;
                return self.next_request(now);
            }
            return self.timed_out(now);
        };
        let header_len = match op {
            b'A' => 11,
            b'R' => 9,
            _ if self.rules.has(Fault::SkipsUnknownOps) => {
                let end = self.input.iter().position(|&byte| byte == b'\n');
                self.input.drain(..end.unwrap_or(self.input.len() - 1).saturating_add(1));
                self.say(&error("bad_op"));
                return self.frame(now);
            }
            _ => return self.fatal("bad_op"),
        };
        let from = if self.rules.has(Fault::LineFeedInHeader) { 0 } else { header_len };
        let body = self.input.get(from..).unwrap_or_default();
        let lf = body.iter().position(|&byte| byte == b'\n').map(|at| from + at);
        let max = match self.rules.fault {
            Some(Fault::FramesOf192TooLong) => 191,
            Some(Fault::FramesOf193Fit) => 193,
            _ => 192,
        };
        let len = match lf {
            None if self.rules.has(Fault::TooLongOnlyAtLineFeed) => 0,
            lf => lf.unwrap_or(self.input.len()),
        };
        if len > max {
            return self.fatal("line_too_long");
        }
        let Some(lf) = lf else { return self.incomplete(now) };
        let frame: Vec<u8> = self.input.drain(..=lf).collect();
        if !self.rules.has(Fault::FrameTimerOutlivesFrame) {
            self.frame_since = None;
        }
        self.judge(&frame[..lf], now)
    }

    fn skip_line_feeds(&mut self) {
        let count = self.input.iter().take_while(|&&byte| byte == b'\n').count();
        self.input.drain(..count);
    }

    fn judge(&mut self, frame: &[u8], now: Instant) -> Option<Request> {
        match judge::frame(self.rules, frame) {
            Ok(request) => Some(request),
            Err((reason, true)) => self.fatal(reason),
            Err((reason, false)) => {
                self.say(&error(reason));
                self.frame(now)
            }
        }
    }

    fn incomplete(&mut self, now: Instant) -> Option<Request> {
        if self.peer_ended && self.rules.has(Fault::ExecutesFrameAtEnd) {
            let frame = std::mem::take(&mut self.input);
            return self.judge(&frame, now);
        }
        if self.peer_ended {
            return self.fatal("bad_request");
        }
        self.frame_since.get_or_insert(now);
        self.timed_out(now)
    }

    fn timed_out(&mut self, now: Instant) -> Option<Request> {
        let is_stalled = self.frame_since.is_some_and(|since| now - since >= Duration::from_secs(5));
        if is_stalled && !self.rules.has(Fault::NoFrameTimeout) {
            return self.fatal("bad_request");
        }
        if self.rules.has(Fault::IdleTimeout) && now - self.last_input >= Duration::from_secs(10) {
            self.phase = Phase::Closing;
        }
        None
    }

    fn fatal(&mut self, reason: &str) -> Option<Request> {
        self.input.clear();
        self.frame_since = None;
        if !self.rules.has(Fault::ClosesWithoutError) {
            self.say(&error(reason));
        }
        if self.rules.has(Fault::ErrorWithoutClose) {
            return None;
        }
        self.phase = Phase::Closing;
        self.has_left = true;
        Some(Request::Leave)
    }

    fn say(&mut self, bytes: &[u8]) {
        if self.output.is_empty() {
            self.stalled_since = Instant::now();
        }
        self.output.extend(bytes);
        self.queued += bytes.len();
    }

    /// Whether any bytes went.
    pub(super) fn write(&mut self, now: Instant) -> bool {
        if self.has_failed {
            return false;
        }
        if self.output.is_empty() {
            self.end_writing(now);
            return false;
        }
        match self.stream.write(&self.output) {
            Ok(len) => {
                self.output.drain(..len);
                self.written += len;
                self.stalled_since = now;
                return true;
            }
            Err(error) if would_block(&error) => {
                let is_stalled = now - self.stalled_since >= Duration::from_secs(10);
                self.has_failed |= is_stalled && !self.rules.has(Fault::KeepsThoseWhoDoNotRead);
            }
            Err(_) => self.has_failed = true,
        }
        false
    }

    /// `TR-9`
    fn end_writing(&mut self, now: Instant) {
        if self.phase != Phase::Closing || self.lingers_since.is_some() {
            return;
        }
        self.lingers_since = Some(now);
        let fault = self.rules.fault;
        self.has_failed |= fault == Some(Fault::ClosesWithUnreadInput)
            || (fault != Some(Fault::WaitsForPeersEnd) && self.stream.shutdown(Shutdown::Write).is_err());
    }

    pub(super) fn is_over(&self) -> bool {
        let lingered = |since: Instant| {
            let limit = if self.rules.has(Fault::WaitsForPeersEnd) { 60 } else { 1 };
            self.peer_ended || since.elapsed() >= Duration::from_secs(limit)
        };
        self.has_failed || self.lingers_since.is_some_and(lingered)
    }
}

/// 43 base64url characters, another row of them for each connection.
fn nonce(rules: Rules, id: usize) -> String {
    let id = if rules.has(Fault::FixedNonce) { 0 } else { id };
    let nonce = format!("{id:_>30}{:_>13}", fastrand::u32(1000..));
    match rules.has(Fault::ShortNonce) {
        true => nonce[21..].to_owned(),
        false if rules.has(Fault::FixedNonce) => format!("{id:_>43}"),
        false => nonce,
    }
}
