use core::fmt;

/// The reason in an `E` frame (`ER`).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[cfg_attr(feature = "arbitrary", derive(arbitrary::Arbitrary))]
pub enum Reason {
    /// `ER-1`: a wrong handshake response.
    AuthFailed,
    /// `ER-2`: an unknown op.
    BadOp,
    /// `ER-3`: a truncated or stalled frame, owner 0, a malformed handshake line.
    BadRequest,
    /// `ER-4`: more than 192 bytes before LF.
    LineTooLong,
    /// `ER-5`: not a key (`FI-4`). The connection stays open.
    BadKey,
    /// `ER-6`: not a lease (`FI-2`). The connection stays open.
    BadLease,
    /// `ER-7`: the node does not serve now.
    NotActive,
    /// `ER-8`: the node knows no leader.
    NoLeader,
}

impl Reason {
    /// All of them, in the order of their ids.
    pub const ALL: [Self; 8] = [
        Self::AuthFailed,
        Self::BadOp,
        Self::BadRequest,
        Self::LineTooLong,
        Self::BadKey,
        Self::BadLease,
        Self::NotActive,
        Self::NoLeader,
    ];

    /// The text on the wire.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::AuthFailed => "auth_failed",
            Self::BadOp => "bad_op",
            Self::BadRequest => "bad_request",
            Self::LineTooLong => "line_too_long",
            Self::BadKey => "bad_key",
            Self::BadLease => "bad_lease",
            Self::NotActive => "not_active",
            Self::NoLeader => "no_leader",
        }
    }

    /// The reason with this text.
    #[must_use]
    pub fn from_bytes(text: &[u8]) -> Option<Self> {
        Self::ALL.into_iter().find(|reason| reason.as_str().as_bytes() == text)
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
