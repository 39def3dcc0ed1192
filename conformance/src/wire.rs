//! The protocol's bytes: a codec of the suite's own, which can write what a sound implementation refuses to.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sha2::{Digest as _, Sha256};

use crate::transcript::readable;

/// The greatest length of a frame or a handshake line, LF excluded (`FR-5`, `AU-1`).
pub const MAX_FRAME_LEN: usize = 192;

/// A frame from a client.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Request {
    /// `A`
    Acquire {
        /// Seconds.
        wait: u8,
        /// Seconds.
        lease: u8,
        /// The correlation id.
        owner: u64,
        /// The lock's name, any bytes.
        key: Vec<u8>,
    },
    /// `R`
    Release {
        /// The grant's number.
        token: u64,
        /// The lock's name, any bytes.
        key: Vec<u8>,
    },
}

/// A frame from a server.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Reply {
    /// `A`
    Acquired {
        /// The grant's number.
        token: u64,
        /// The request's owner.
        owner: u64,
        /// The request's key.
        key: Vec<u8>,
    },
    /// `T`
    TimedOut {
        /// The request's owner.
        owner: u64,
        /// The request's key.
        key: Vec<u8>,
    },
    /// `B`
    Busy {
        /// The request's owner.
        owner: u64,
        /// The request's key.
        key: Vec<u8>,
    },
    /// `R`
    Released {
        /// The request's token.
        token: u64,
        /// The request's key.
        key: Vec<u8>,
    },
    /// `N`
    NotHeld {
        /// The request's token.
        token: u64,
        /// The request's key.
        key: Vec<u8>,
    },
    /// `M`
    Moved {
        /// `host:port`
        leader: Vec<u8>,
    },
    /// `L`
    LeaderChanged {
        /// `host:port`, or nothing.
        leader: Vec<u8>,
    },
    /// `E`
    Error {
        /// A word of `ER`.
        reason: Vec<u8>,
    },
}

/// What a decoder reads: requests or replies.
pub trait Message: Sized {
    /// How long the fixed header of an op is; `None` if there is no such op.
    fn header_len(op: u8) -> Option<usize>;

    /// A message from a whole frame's parts. The header has the length that [`header_len`](Self::header_len) says.
    fn from_parts(op: u8, header: &[u8], body: &[u8]) -> Self;

    /// The frame's bytes, LF included. Whatever the fields hold is written as it is.
    fn encode(&self) -> Vec<u8>;
}

impl Message for Request {
    fn header_len(op: u8) -> Option<usize> {
        match op {
            b'A' => Some(10),
            b'R' => Some(8),
            _ => None,
        }
    }

    fn from_parts(op: u8, header: &[u8], body: &[u8]) -> Self {
        let key = body.to_vec();
        match (op, header) {
            (b'A', [wait, lease, owner @ ..]) => {
                Self::Acquire { wait: *wait, lease: *lease, owner: number(owner), key }
            }
            (_, token) => Self::Release { token: number(token), key },
        }
    }

    fn encode(&self) -> Vec<u8> {
        match self {
            Self::Acquire { wait, lease, owner, key } => acquire(*wait, *lease, *owner, key),
            Self::Release { token, key } => release(*token, key),
        }
    }
}

impl Message for Reply {
    fn header_len(op: u8) -> Option<usize> {
        match op {
            b'A' => Some(16),
            b'T' | b'B' | b'R' | b'N' => Some(8),
            b'M' | b'L' | b'E' => Some(0),
            _ => None,
        }
    }

    fn from_parts(op: u8, header: &[u8], body: &[u8]) -> Self {
        let key = body.to_vec();
        match op {
            b'A' => Self::Acquired { token: number(&header[..8]), owner: number(&header[8..]), key },
            b'T' => Self::TimedOut { owner: number(header), key },
            b'B' => Self::Busy { owner: number(header), key },
            b'R' => Self::Released { token: number(header), key },
            b'N' => Self::NotHeld { token: number(header), key },
            b'M' => Self::Moved { leader: key },
            b'L' => Self::LeaderChanged { leader: key },
            _ => Self::Error { reason: key },
        }
    }

    fn encode(&self) -> Vec<u8> {
        let (op, numbers, body): (u8, &[u64], _) = match self {
            Self::Acquired { token, owner, key } => (b'A', &[*token, *owner], key),
            Self::TimedOut { owner, key } => (b'T', &[*owner], key),
            Self::Busy { owner, key } => (b'B', &[*owner], key),
            Self::Released { token, key } => (b'R', &[*token], key),
            Self::NotHeld { token, key } => (b'N', &[*token], key),
            Self::Moved { leader } => (b'M', &[], leader),
            Self::LeaderChanged { leader } => (b'L', &[], leader),
            Self::Error { reason } => (b'E', &[], reason),
        };
        let mut frame = vec![op];
        numbers.iter().for_each(|number| frame.extend(number.to_be_bytes()));
        frame.extend(body);
        frame.push(b'\n');
        frame
    }
}

impl Reply {
    /// An `E` with this reason.
    #[must_use]
    pub fn error(reason: &str) -> Self {
        Self::Error { reason: reason.as_bytes().to_vec() }
    }
}

impl fmt::Display for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Acquire { wait, lease, owner, key } => {
                write!(f, "acquire {}: wait {wait} s, lease {lease} s, owner {owner}", readable(key))
            }
            Self::Release { token, key } => write!(f, "release {}: token {token}", readable(key)),
        }
    }
}

impl fmt::Display for Reply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Acquired { token, owner, key } => {
                write!(f, "A, acquired {}: token {token}, owner {owner}", readable(key))
            }
            Self::TimedOut { owner, key } => write!(f, "T, timed out {}: owner {owner}", readable(key)),
            Self::Busy { owner, key } => write!(f, "B, busy {}: owner {owner}", readable(key)),
            Self::Released { token, key } => write!(f, "R, released {}: token {token}", readable(key)),
            Self::NotHeld { token, key } => write!(f, "N, not held {}: token {token}", readable(key)),
            Self::Moved { leader } => write!(f, "M, moved to {}", readable(leader)),
            Self::LeaderChanged { leader } => write!(f, "L, leader changed to {}", readable(leader)),
            Self::Error { reason } => write!(f, "E, error {}", readable(reason)),
        }
    }
}

/// Bytes that are no frame.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Malformed {
    /// An op that is not in the table (`FR-8`).
    UnknownOp(u8),
    /// More than 192 bytes without LF (`FR-5`).
    TooLong,
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownOp(op) => write!(f, "no frame begins with {op:02x}"),
            Self::TooLong => write!(f, "a frame of more than {MAX_FRAME_LEN} bytes"),
        }
    }
}

/// Splits bytes into frames (`FR-2`). It judges no field: cases do.
#[derive(Debug, Default)]
pub struct Decoder {
    buffer: Vec<u8>,
}

impl Decoder {
    /// Bytes came.
    pub fn push(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    /// The next whole frame and its bytes, or what is wrong with the bytes at hand; `None` until more have come. Empty
    /// frames (`FR-4`) are skipped.
    ///
    /// # Errors
    /// [`Malformed`]; the bytes stay where they are.
    pub fn message<M: Message>(&mut self) -> Option<Result<(M, Vec<u8>), Malformed>> {
        let empty = self.buffer.iter().take_while(|&&byte| byte == b'\n').count();
        self.buffer.drain(..empty);
        let &op = self.buffer.first()?;
        let Some(header_len) = M::header_len(op) else { return Some(Err(Malformed::UnknownOp(op))) };
        let body = self.buffer.get(1 + header_len..)?;
        let len = body.iter().position(|&byte| byte == b'\n').map(|at| 1 + header_len + at);
        if len.unwrap_or(self.buffer.len()) > MAX_FRAME_LEN {
            return Some(Err(Malformed::TooLong));
        }
        let frame: Vec<u8> = self.buffer.drain(..=len?).collect();
        let (header, body) = frame[1..frame.len() - 1].split_at(header_len);
        Some(Ok((M::from_parts(op, header, body), frame)))
    }

    /// The bytes that are no whole frame yet.
    #[must_use]
    pub fn rest(&self) -> &[u8] {
        &self.buffer
    }

    /// Takes a handshake line out, without its LF.
    ///
    /// # Errors
    /// [`Malformed::TooLong`] as soon as there are 193 bytes without LF.
    pub fn line(&mut self) -> Option<Result<Vec<u8>, Malformed>> {
        match self.buffer.iter().position(|&byte| byte == b'\n') {
            Some(len) if len <= MAX_FRAME_LEN => {
                let mut line: Vec<u8> = self.buffer.drain(..=len).collect();
                line.pop();
                Some(Ok(line))
            }
            None if self.buffer.len() <= MAX_FRAME_LEN => None,
            _ => Some(Err(Malformed::TooLong)),
        }
    }
}

/// An acquire's bytes.
#[must_use]
pub fn acquire(wait: u8, lease: u8, owner: u64, key: impl AsRef<[u8]>) -> Vec<u8> {
    [&[b'A', wait, lease][..], &owner.to_be_bytes(), key.as_ref(), b"\n"].concat()
}

/// A release's bytes.
#[must_use]
pub fn release(token: u64, key: impl AsRef<[u8]>) -> Vec<u8> {
    [&b"R"[..], &token.to_be_bytes(), key.as_ref(), b"\n"].concat()
}

/// The 43 characters that answer a challenge with this nonce (`AU-2`).
#[must_use]
pub fn response(secret: &[u8], nonce: &[u8]) -> String {
    let digest = Sha256::new().chain_update(secret).chain_update(nonce).finalize();
    URL_SAFE_NO_PAD.encode(digest)
}

/// Whether all of it is base64url characters.
#[must_use]
pub fn is_base64url(text: &[u8]) -> bool {
    text.iter().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'))
}

fn number(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0, |number, &byte| number << 8 | u64::from(byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all<M: Message>(bytes: &[u8]) -> Vec<Result<M, Malformed>> {
        let mut decoder = Decoder::default();
        decoder.push(bytes);
        let mut found = Vec::new();
        while let Some(next) = decoder.message() {
            let is_over = next.is_err();
            found.push(next.map(|(message, _)| message));
            if is_over {
                break;
            }
        }
        found
    }

    /// `AU-2`
    #[test]
    fn the_response_is_the_one_of_the_specification() {
        assert_eq!(response(b"secret", b"aB3dEf_g"), "WvDLEd0VIA9cVatiwxXYXRGMDSXw0ibHllLgAMBffdg");
    }

    /// `FR-2`, `FR-4`
    #[test]
    fn headers_are_read_by_count_and_empty_frames_skipped() {
        let bytes =
            [b"\n\n", &acquire(10, 10, 0x0a0a_0a0a_0a0a_0a0a, b"k")[..], b"\n", &release(10, b"k")].concat();
        let expected = [
            Request::Acquire { wait: 10, lease: 10, owner: 0x0a0a_0a0a_0a0a_0a0a, key: b"k".to_vec() },
            Request::Release { token: 10, key: b"k".to_vec() },
        ];
        assert_eq!(all::<Request>(&bytes), expected.map(Ok));
    }

    #[test]
    fn every_reply_is_what_it_was_encoded_from() {
        let key = b"k".to_vec();
        let replies = [
            Reply::Acquired { token: 7, owner: 1, key: key.clone() },
            Reply::TimedOut { owner: 1, key: key.clone() },
            Reply::Busy { owner: 1, key: key.clone() },
            Reply::Released { token: 7, key: key.clone() },
            Reply::NotHeld { token: 7, key },
            Reply::Moved { leader: b"10.0.0.2:5225".to_vec() },
            Reply::LeaderChanged { leader: Vec::new() },
            Reply::error("bad_key"),
        ];
        let bytes: Vec<u8> = replies.iter().flat_map(Message::encode).collect();
        assert_eq!(all::<Reply>(&bytes), replies.map(Ok));
    }

    /// `FR-5`, `FR-8`
    #[test]
    fn what_is_no_frame_is_said_at_its_byte() {
        assert_eq!(all::<Reply>(b"Z"), [Err(Malformed::UnknownOp(b'Z'))]);
        assert_eq!(all::<Reply>(&[b'E'; 192]), []);
        assert_eq!(all::<Reply>(&[b'E'; 193]), [Err(Malformed::TooLong)]);
        let mut with_lf = [b'E'; 194];
        with_lf[193] = b'\n';
        assert_eq!(all::<Reply>(&with_lf), [Err(Malformed::TooLong)]);
    }
}
