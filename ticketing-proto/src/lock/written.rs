//! Holds in their written form.
//!
//! All numbers are big-endian: the format's version (u8), the last token given (u64), how many holds (u64);
//! then the holds in the order of their tokens, each with its token (u64), lease in seconds (u8), length of the
//! key (u8), and key. No deadlines: whoever reads it times each hold anew.

use alloc::vec::Vec;

use super::holds::{Holds, Slot};
use crate::id::Token;
use crate::key::{InvalidKey, KeyRef};
use crate::limits::Lease;
use crate::time::Instant;

const VERSION: u8 = 1;

/// Bytes that are not [written](Holds::write) holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MalformedHolds {
    /// Another version of the format.
    #[error("holds are written in version {found}; this reads version {VERSION}")]
    Version {
        /// The version found.
        found: u8,
    },
    /// The end came too soon.
    #[error("the written holds end too soon")]
    Truncated,
    /// The end did not come where it should.
    #[error("{len} bytes follow the written holds")]
    Trailing {
        /// How many.
        len: usize,
    },
    /// Tokens are distinct, rise, and lie between 1 and the last one given.
    #[error("token {token} is not between {} and {given}", after.saturating_add(1))]
    Token {
        /// The token found.
        token: u64,
        /// The token of the hold before, or 0.
        after: u64,
        /// The last token given.
        given: u64,
    },
    /// Not a lease.
    #[error("token {token} has a lease of {secs} s; a lease has 1 to 250 s")]
    Lease {
        /// The hold's token.
        token: u64,
        /// The seconds found.
        secs: u8,
    },
    /// Not a key.
    #[error("token {token}: {reason}")]
    Key {
        /// The hold's token.
        token: u64,
        /// What is wrong with it.
        reason: InvalidKey,
    },
    /// A key is held once.
    #[error("tokens {first} and {second} have the same key")]
    Twice {
        /// The token read first.
        first: u64,
        /// The token read last.
        second: u64,
    },
}

impl Holds {
    /// Appends the written form: the same bytes for the same holds and the same last token given, whatever led
    /// there. Looks at all holds.
    pub fn write(&self, out: &mut Vec<u8>) {
        let mut held: Vec<(Token, &Slot)> =
            self.slots().filter_map(|slot| Some((slot.token?, slot))).collect();
        held.sort_unstable_by_key(|&(token, _)| token);
        out.push(VERSION);
        out.extend_from_slice(&self.given().to_be_bytes());
        out.extend_from_slice(&(held.len() as u64).to_be_bytes());
        for (token, slot) in held {
            let key = slot.key.as_bytes();
            out.extend_from_slice(&token.value().to_be_bytes());
            out.extend_from_slice(&[slot.lease().secs(), key.len() as u8]);
            out.extend_from_slice(key);
        }
    }

    /// Reads the written form, all of `bytes`. Each lease runs anew from `now` on. Tokens up to `last` may be
    /// given; how `hash_seed` serves is said at [`new`](Self::new).
    ///
    /// # Errors
    /// [`MalformedHolds`] with the first fault.
    pub fn read(
        now: Instant,
        bytes: &[u8],
        last: Token,
        hash_seed: [u64; 2],
    ) -> Result<Self, MalformedHolds> {
        let mut input = Input(bytes);
        let [found] = input.array()?;
        if found != VERSION {
            return Err(MalformedHolds::Version { found });
        }
        let (given, count) = (input.number()?, input.number()?);
        let mut holds = Self::counting_from(now, given, last, hash_seed);
        let mut after = 0;
        for _ in 0..count {
            let token = input.number()?;
            let [secs, len] = input.array()?;
            let key = input.bytes(usize::from(len))?;
            let bad_token = MalformedHolds::Token { token, after, given };
            let number = Token::new(token).filter(|_| (after..=given).contains(&token) && token != after);
            let number = number.ok_or(bad_token)?;
            let lease = Lease::from_secs(secs).ok_or(MalformedHolds::Lease { token, secs })?;
            let key = KeyRef::new(key).map_err(|reason| MalformedHolds::Key { token, reason })?;
            if let Some(hold) = holds.hold(key) {
                return Err(MalformedHolds::Twice { first: hold.token.value(), second: token });
            }
            holds.insert(now, holds.hash(key), key, number, lease);
            after = token;
        }
        match input.0.len() {
            0 => Ok(holds),
            len => Err(MalformedHolds::Trailing { len }),
        }
    }
}

/// What has not been read yet.
struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    fn bytes(&mut self, len: usize) -> Result<&'a [u8], MalformedHolds> {
        let (front, rest) = self.0.split_at_checked(len).ok_or(MalformedHolds::Truncated)?;
        self.0 = rest;
        Ok(front)
    }

    fn array<const LEN: usize>(&mut self) -> Result<[u8; LEN], MalformedHolds> {
        let (&front, rest) = self.0.split_first_chunk().ok_or(MalformedHolds::Truncated)?;
        self.0 = rest;
        Ok(front)
    }

    fn number(&mut self) -> Result<u64, MalformedHolds> {
        self.array().map(u64::from_be_bytes)
    }
}
