use alloc::vec::Vec;

use super::frame::encode;
use super::{DecodeError, Frame, FromClient, Reason};
use crate::id::Owner;
use crate::key::{InvalidKey, KeyRef};
use crate::limits::{Lease, Wait};

/// What a client asks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "arbitrary", derive(arbitrary::Arbitrary))]
pub enum Request<'a> {
    /// `A`
    Acquire(Acquire<'a>),
    /// `R`
    Release(Release<'a>),
}

/// Asks for a lock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "arbitrary", derive(arbitrary::Arbitrary))]
pub struct Acquire<'a> {
    /// How long it may queue.
    pub wait: Wait,
    /// How long the hold shall last.
    pub lease: Lease,
    /// What the reply will carry.
    pub owner: Owner,
    /// Which lock.
    pub key: KeyRef<'a>,
}

/// Gives a lock back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "arbitrary", derive(arbitrary::Arbitrary))]
pub struct Release<'a> {
    /// The token as it was sent: it may be 0, which is no hold's token (`OP-5`).
    pub token: u64,
    /// Which lock.
    pub key: KeyRef<'a>,
}

/// A frame whose bounds are intact but that is not a request. Judged in the order of the variants (`ER`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RequestError {
    /// `FI-3`: fatal for the connection.
    #[error("owner 0; an owner is 1 or more")]
    ZeroOwner,
    /// `FI-2`: the connection stays open.
    #[error("a lease of {secs} s; a lease has 1 to 250 s")]
    BadLease {
        /// The byte.
        secs: u8,
    },
    /// `FI-4`: the connection stays open.
    #[error(transparent)]
    BadKey(#[from] InvalidKey),
}

impl RequestError {
    /// What the server answers.
    #[must_use]
    pub const fn reason(self) -> Reason {
        match self {
            Self::ZeroOwner => Reason::BadRequest,
            Self::BadLease { .. } => Reason::BadLease,
            Self::BadKey(_) => Reason::BadKey,
        }
    }

    /// Whether the connection ends with it (`FR-9`).
    #[must_use]
    pub const fn is_fatal(self) -> bool {
        matches!(self, Self::ZeroOwner)
    }
}

impl DecodeError {
    /// What the server answers; the connection ends with it (`FR-9`).
    #[must_use]
    pub const fn reason(self) -> Reason {
        match self {
            Self::UnknownOp { .. } => Reason::BadOp,
            Self::LineTooLong => Reason::LineTooLong,
            Self::Truncated { .. } => Reason::BadRequest,
        }
    }
}

impl<'a> Request<'a> {
    /// Understands a frame that a [`Decoder<FromClient>`](super::Decoder) cut.
    ///
    /// # Errors
    /// [`RequestError`]; the first that applies.
    pub fn parse(frame: Frame<'a, FromClient>) -> Result<Self, RequestError> {
        match *frame.header {
            [wait, lease, o0, o1, o2, o3, o4, o5, o6, o7] => {
                let owner = u64::from_be_bytes([o0, o1, o2, o3, o4, o5, o6, o7]);
                Ok(Self::Acquire(Acquire {
                    owner: Owner::new(owner).ok_or(RequestError::ZeroOwner)?,
                    lease: Lease::from_secs(lease).ok_or(RequestError::BadLease { secs: lease })?,
                    wait: Wait::from_secs(wait),
                    key: KeyRef::new(frame.body)?,
                }))
            }
            [t0, t1, t2, t3, t4, t5, t6, t7] => Ok(Self::Release(Release {
                token: u64::from_be_bytes([t0, t1, t2, t3, t4, t5, t6, t7]),
                key: KeyRef::new(frame.body)?,
            })),
            _ => unreachable!("a decoder of requests gives headers of 10 or 8 bytes"),
        }
    }

    /// Appends the frame.
    pub fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::Acquire(Acquire { wait, lease, owner, key }) => {
                let [o0, o1, o2, o3, o4, o5, o6, o7] = owner.value().to_be_bytes();
                let header = [b'A', wait.secs(), lease.secs(), o0, o1, o2, o3, o4, o5, o6, o7];
                encode(out, header, key.as_bytes());
            }
            Self::Release(Release { token, key }) => {
                let [t0, t1, t2, t3, t4, t5, t6, t7] = token.to_be_bytes();
                encode(out, [b'R', t0, t1, t2, t3, t4, t5, t6, t7], key.as_bytes());
            }
        }
    }
}
