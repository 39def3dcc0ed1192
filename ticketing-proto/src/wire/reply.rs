use alloc::vec::Vec;

use super::frame::encode;
use super::{Frame, FromServer, Reason};
use crate::id::{Owner, Token};
use crate::key::{InvalidKey, KeyRef};

/// What a server answers, or says unasked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reply<'a> {
    /// `A`: the lock is held, by this token.
    Acquired {
        /// The fencing token.
        token: Token,
        /// As it was asked.
        owner: Owner,
        /// As it was asked.
        key: KeyRef<'a>,
    },
    /// `T`: certain that the request was not and will not be granted (`OP-4`).
    TimedOut {
        /// As it was asked.
        owner: Owner,
        /// As it was asked.
        key: KeyRef<'a>,
    },
    /// `B`: a gate is closed; as certain as `T`.
    Busy {
        /// As it was asked.
        owner: Owner,
        /// As it was asked.
        key: KeyRef<'a>,
    },
    /// `R`: the hold is over now.
    Released {
        /// As it was asked.
        token: u64,
        /// As it was asked.
        key: KeyRef<'a>,
    },
    /// `N`: there was no such hold.
    NotHeld {
        /// As it was asked.
        token: u64,
        /// As it was asked.
        key: KeyRef<'a>,
    },
    /// `M`: ask the leader, at this address (`RD-1`).
    Moved {
        /// `host:port`
        leader: &'a str,
    },
    /// `L`: the leader has changed (`RD-3`).
    LeaderChanged {
        /// `host:port`, or `None` when none is known.
        leader: Option<&'a str>,
    },
    /// `E`
    Error(Reason),
}

/// A frame whose bounds are intact but that no server may send (`FR-10`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MalformedReply {
    /// A grant with token 0, or a release that was confirmed for it.
    #[error("token 0; a token is 1 or more")]
    ZeroToken,
    /// An owner of 0.
    #[error("owner 0; an owner is 1 or more")]
    ZeroOwner,
    /// Not a key.
    #[error(transparent)]
    BadKey(#[from] InvalidKey),
    /// The body of an `M` or `L` is not an address.
    #[error("a leader's address that is not host:port")]
    BadAddress,
    /// The body of an `E` is none of the eight reasons.
    #[error("an unknown reason in an E frame")]
    UnknownReason,
}

impl<'a> Reply<'a> {
    /// Understands a frame that a [`Decoder<FromServer>`](super::Decoder) cut.
    ///
    /// # Errors
    /// [`MalformedReply`]
    pub fn parse(frame: Frame<'a, FromServer>) -> Result<Self, MalformedReply> {
        let body = frame.body;
        let owner = |value| Owner::new(value).ok_or(MalformedReply::ZeroOwner);
        match (frame.op, header_words(frame.header)) {
            (b'A', [token, asked]) => Ok(Self::Acquired {
                token: Token::new(token).ok_or(MalformedReply::ZeroToken)?,
                owner: owner(asked)?,
                key: KeyRef::new(body)?,
            }),
            (b'T', [asked, _]) => Ok(Self::TimedOut { owner: owner(asked)?, key: KeyRef::new(body)? }),
            (b'B', [asked, _]) => Ok(Self::Busy { owner: owner(asked)?, key: KeyRef::new(body)? }),
            (b'R', [0, _]) => Err(MalformedReply::ZeroToken),
            (b'R', [token, _]) => Ok(Self::Released { token, key: KeyRef::new(body)? }),
            (b'N', [token, _]) => Ok(Self::NotHeld { token, key: KeyRef::new(body)? }),
            (b'M', _) => Ok(Self::Moved { leader: address(body)? }),
            (b'L', _) if body.is_empty() => Ok(Self::LeaderChanged { leader: None }),
            (b'L', _) => Ok(Self::LeaderChanged { leader: Some(address(body)?) }),
            (b'E', _) => Reason::from_bytes(body).map(Self::Error).ok_or(MalformedReply::UnknownReason),
            _ => unreachable!("a decoder of replies gives no other op"),
        }
    }

    /// Appends the frame.
    pub fn encode(&self, out: &mut Vec<u8>) {
        match *self {
            Self::Acquired { token, owner, key } => {
                let [t0, t1, t2, t3, t4, t5, t6, t7] = token.value().to_be_bytes();
                let [o0, o1, o2, o3, o4, o5, o6, o7] = owner.value().to_be_bytes();
                let header = [b'A', t0, t1, t2, t3, t4, t5, t6, t7, o0, o1, o2, o3, o4, o5, o6, o7];
                encode(out, header, key.as_bytes());
            }
            Self::TimedOut { owner, key } => encode_with_word(out, b'T', owner.value(), key),
            Self::Busy { owner, key } => encode_with_word(out, b'B', owner.value(), key),
            Self::Released { token, key } => encode_with_word(out, b'R', token, key),
            Self::NotHeld { token, key } => encode_with_word(out, b'N', token, key),
            Self::Moved { leader } => encode(out, [b'M'], leader.as_bytes()),
            Self::LeaderChanged { leader } => encode(out, [b'L'], leader.unwrap_or_default().as_bytes()),
            Self::Error(reason) => encode(out, [b'E'], reason.as_str().as_bytes()),
        }
    }
}

fn encode_with_word(out: &mut Vec<u8>, op: u8, word: u64, key: KeyRef<'_>) {
    let [w0, w1, w2, w3, w4, w5, w6, w7] = word.to_be_bytes();
    encode(out, [op, w0, w1, w2, w3, w4, w5, w6, w7], key.as_bytes());
}

/// The header as up to two big-endian words; a word that the header does not have is 0.
fn header_words(header: &[u8]) -> [u64; 2] {
    let mut words = header.chunks_exact(8).map(|chunk| chunk.try_into().map_or(0, u64::from_be_bytes));
    [words.next().unwrap_or(0), words.next().unwrap_or(0)]
}

fn address(body: &[u8]) -> Result<&str, MalformedReply> {
    let text = core::str::from_utf8(body).map_err(|_| MalformedReply::BadAddress)?;
    if is_address(text) { Ok(text) } else { Err(MalformedReply::BadAddress) }
}

/// Whether a text is `host:port` as it stands in `M` and `L` frames (`CC-2`): a host without blanks and
/// control characters (an IPv6 literal in brackets), a decimal port from 1 to 65535, at most 191 bytes.
#[must_use]
pub fn is_address(text: &str) -> bool {
    let Some((host, port)) = text.rsplit_once(':') else { return false };
    let host_is_plain = match host.strip_prefix('[').and_then(|host| host.strip_suffix(']')) {
        Some(literal) => literal.contains(':') && !literal.contains(['[', ']']),
        None => !host.is_empty() && !host.contains([':', '[', ']']),
    };
    text.len() < crate::limits::MAX_FRAME_LEN
        && host_is_plain
        && !host.contains(|letter: char| letter.is_whitespace() || letter.is_control())
        && port.bytes().all(|digit| digit.is_ascii_digit())
        && port.parse::<u16>().is_ok_and(|port| port != 0)
}
