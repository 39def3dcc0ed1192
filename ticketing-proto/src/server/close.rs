//! Why connections end, what they are told, and what their timers are for.

use core::fmt;

use crate::tls::TlsError;
use crate::wire::{DecodeError, Reason};

/// Why a connection ends: the first cause, for logs and metrics. It holds nothing that the peer chose but an
/// unknown op, and shows that as a number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum CloseReason {
    /// `AU-4`: the response to the challenge is wrong.
    AuthFailed,
    /// `AU-4`: the first line is no response at all.
    MalformedResponse,
    /// `AU-4`: the first line has more than 192 bytes.
    ResponseTooLong,
    /// `TR-2`: TLS has failed.
    Tls(TlsError),
    /// `AU-4`: the first line is the start of TLS, and the server has no certificate. It holds what the peer is
    /// told, which is what other first lines of that length get.
    UnexpectedTls(Reason),
    /// `TR-7`: not authenticated in time.
    HandshakeTimedOut,
    /// `TR-7`: the peer's stream ended inside the handshake.
    HandshakeEnded,
    /// `FR-5`, `FR-7`, `FR-8`: the stream can't be cut into frames any further.
    Malformed(DecodeError),
    /// `FI-3`: an acquire with owner 0.
    ZeroOwner,
    /// `FR-6`: a frame took longer than its time.
    FrameTimedOut,
    /// `TR-10`: the peer's stream ended.
    Ended,
    /// `AD-6`: the peer did not read what it was owed.
    WriteStalled,
    /// The transport failed, or was cut.
    Disconnected,
    /// `RD-1`: another node leads.
    Moved,
    /// `TR-8`, `RD-1`: the node does not serve now.
    NotActive,
    /// `RD-1`: the node knows no leader.
    NoLeader,
    /// `RD-1`: the node can't know whether it executes what it has not answered.
    Unanswered,
}

impl fmt::Display for CloseReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::AuthFailed => "wrong response to the challenge",
            Self::MalformedResponse => "the first line is not a response to the challenge",
            Self::ResponseTooLong => "the first line has more than 192 bytes",
            Self::Tls(error) => return error.fmt(f),
            Self::UnexpectedTls(_) => "the peer speaks TLS, and the server has no certificate",
            Self::HandshakeTimedOut => "not authenticated within 10 s",
            Self::HandshakeEnded => "the stream ended inside the handshake",
            Self::Malformed(error) => return error.fmt(f),
            Self::ZeroOwner => "an acquire with owner 0",
            Self::FrameTimedOut => "a frame took longer than 5 s",
            Self::Ended => "the peer's stream ended",
            Self::WriteStalled => "the peer took none of its replies for 10 s",
            Self::Disconnected => "the transport failed",
            Self::Moved => "another node leads",
            Self::NotActive => "the node does not serve now",
            Self::NoLeader => "the node knows no leader",
            Self::Unanswered => "what is under way can't be answered",
        })
    }
}

/// The last word to a peer whose connection this side ends (`RD-1`).
///
/// All but [`Unanswered`](Self::Unanswered) tell the peer that none of its unanswered requests was or will be
/// executed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Farewell<'a> {
    /// `M`: ask the leader.
    Moved {
        /// `host:port`. What is not [an address](crate::wire::is_address) is as good as none: `Eno_leader`.
        leader: &'a str,
    },
    /// `Enot_active`
    NotActive,
    /// `Eno_leader`
    NoLeader,
    /// No frame at all: what is unanswered may still be executed.
    Unanswered,
}

impl Farewell<'_> {
    pub(super) fn close_reason(self) -> CloseReason {
        match self {
            Self::Moved { .. } => CloseReason::Moved,
            Self::NotActive => CloseReason::NotActive,
            Self::NoLeader => CloseReason::NoLeader,
            Self::Unanswered => CloseReason::Unanswered,
        }
    }
}

/// What a connection's next timeout is for.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum TimeoutReason {
    /// `TR-7`: authentication.
    Handshake,
    /// `FR-6`: the end of a frame that has begun.
    Frame,
    /// `AD-6`: the peer's taking some of what it is owed.
    WriteStall,
    /// `TR-8`, `TR-10`: the last replies before the close.
    Flush,
    /// `TR-9`: the peer's end of stream.
    Linger,
}

impl CloseReason {
    /// The `E` that a peer gets for its fault.
    pub(super) const fn error(self) -> Option<Reason> {
        match self {
            Self::AuthFailed => Some(Reason::AuthFailed),
            Self::MalformedResponse | Self::ZeroOwner | Self::FrameTimedOut => Some(Reason::BadRequest),
            Self::ResponseTooLong => Some(Reason::LineTooLong),
            Self::UnexpectedTls(reason) => Some(reason),
            Self::Malformed(error) => Some(error.reason()),
            Self::NotActive => Some(Reason::NotActive),
            Self::NoLeader => Some(Reason::NoLeader),
            _ => None,
        }
    }
}
