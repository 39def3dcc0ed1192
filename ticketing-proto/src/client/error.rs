use core::time::Duration;

use crate::id::Token;
use crate::key::InvalidKey;
use crate::limits::UnsupportedDuration;
use crate::tls::TlsError;
use crate::wire::auth::BadChallenge;
use crate::wire::{DecodeError, MalformedReply, Reason};

/// How an acquire ended without a ticket.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AcquireError {
    /// Not a key that clients send (`CK-1`). Nothing was sent.
    #[error("invalid key: {0}")]
    InvalidKey(#[from] InvalidKey),
    /// A duration that the protocol can't express (`CD-1`, `CD-2`). Nothing was sent.
    #[error(transparent)]
    UnsupportedDuration(#[from] UnsupportedDuration),
    /// The lease does not cover the work (`CD-2`, `CD-3`).
    #[error("of the lease {left:?} can be vouched for, and `min_work_budget` is {needed:?}")]
    InsufficientLease {
        /// The `min_work_budget`.
        needed: Duration,
        /// What the lease has, or had left at the grant.
        left: Duration,
        /// `None`: nothing was sent. Else the lock was granted too late to be of use, and its release is queued.
        granted: Option<Token>,
    },
    /// The deadline came, and the request was not and will not be granted.
    #[error("timed out; nothing is held")]
    Timeout,
    /// The server's gates are closed (`AD-1`), or the key's queue is full (`AD-3`).
    #[error("the server is busy; nothing is held")]
    Busy,
    /// As many acquires are in flight as this client allows (`CC-5`).
    #[error("as many acquires are in flight as this client allows")]
    ClientCapacity,
    /// The client was closed before the request was sent (`CC-6`).
    #[error("the client is closed; nothing was sent")]
    Closed,
    /// All owners have been used (`CO-1`).
    #[error("this client has used up its correlation ids; nothing was sent")]
    OwnersExhausted,
    /// The server refused the token, on every connection that could carry the request (`CC-3`).
    #[error("the server refused the token; nothing was executed")]
    Auth,
    /// The server refused the request itself.
    #[error("the server refused the request: {0}")]
    Rejected(Reason),
    /// No connection got past its handshake until the deadline; this was the last one's fault. Nothing was sent.
    #[error("no connection could be used: {0}; nothing was sent")]
    Protocol(ProtocolError),
    /// The request may have been granted. Its lease bounds that.
    #[error("unknown whether the lock was acquired; the lease bounds it")]
    Indeterminate,
}

impl AcquireError {
    /// Whether it is certain that nothing is held, or at least that what was granted is being released
    /// ([`InsufficientLease`](Self::InsufficientLease)). Only [`Indeterminate`](Self::Indeterminate) is not.
    #[must_use]
    pub const fn is_certain(&self) -> bool {
        !matches!(self, Self::Indeterminate)
    }
}

/// How a release ended that was answered. Either way the hold is over.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Released {
    /// `R`: this release ended it.
    Released,
    /// `N`: it was over already, or the token was not the current one. After a resend it may have been ended by
    /// the first try (`CR-2`).
    NotHeld,
}

/// How a release ended that was not answered.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReleaseError {
    /// No answer within 5 s (`CR-1`). The lease bounds the hold.
    #[error("the release was not confirmed within 5 s; the lease bounds the hold")]
    Unconfirmed,
}

impl ReleaseError {
    /// Whether it is certain that nothing is held: never.
    #[must_use]
    pub const fn is_certain(&self) -> bool {
        match self {
            Self::Unconfirmed => false,
        }
    }
}

/// What a server did that no server may do; its connection ends (`FR-10`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProtocolError {
    /// `AU-7`
    #[error(transparent)]
    Challenge(#[from] BadChallenge),
    /// Bytes that are no frame.
    #[error(transparent)]
    Decode(#[from] DecodeError),
    /// A frame that is no reply.
    #[error(transparent)]
    Reply(#[from] MalformedReply),
    /// A grant that fits no request (`CA-13`). Its token is released.
    #[error("a grant that nobody asked for")]
    UnknownGrant,
    /// Another answer that fits no request.
    #[error("an answer that fits no request")]
    UnknownAnswer,
    /// An `E` that fits no request.
    #[error("an error that fits no request: {0}")]
    UnknownError(Reason),
    /// TLS failed (`TR-2`).
    #[error(transparent)]
    Tls(#[from] TlsError),
}

/// Why a connection ended, for logs and for `last_failure`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Failure {
    /// The connection could not be made, was reset, or was closed by the server.
    #[error("the connection was lost or could not be made")]
    Lost,
    /// Connecting and authenticating took more than 10 s (`CC-4`). A server that expects TLS is silent towards a
    /// client that does not use it, and ends so.
    #[error("connecting and authenticating took more than 10 s")]
    HandshakeTimeout,
    /// TLS failed (`TR-2`).
    #[error("TLS: {0}")]
    Tls(#[from] TlsError),
    /// The server refused the token (`ER-1`).
    #[error("the server refused the token")]
    Auth,
    /// The server broke the protocol.
    #[error("the server broke the protocol: {0}")]
    Protocol(#[from] ProtocolError),
    /// The node does not serve now, or is not the leader (`RD-1`).
    #[error("the node sent its clients elsewhere")]
    Redirected,
    /// A request was overdue, so the client closed the connection (`CA-5`).
    #[error("a request was overdue")]
    Overdue,
    /// The client was closed (`CC-6`).
    #[error("the client was closed")]
    Closed,
}
