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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lock::{NotGranted, TokenRange};
    use alloc::string::ToString;
    use alloc::vec;
    use core::time::Duration;

    const NOW: Instant = Instant::from_origin(Duration::from_secs(9));
    const LAST: u64 = u64::MAX;

    fn token(value: u64) -> Token {
        Token::new(value).unwrap()
    }

    fn key(text: &str) -> KeyRef<'_> {
        KeyRef::new(text.as_bytes()).unwrap()
    }

    fn lease(secs: u8) -> Lease {
        Lease::from_secs(secs).unwrap()
    }

    fn holds(next: u64) -> Holds {
        Holds::new(NOW, TokenRange { next: token(next), last: token(LAST) }, [1, 2])
    }

    fn written(holds: &Holds) -> Vec<u8> {
        let mut out = Vec::new();
        holds.write(&mut out);
        out
    }

    fn read(bytes: &[u8]) -> Result<Holds, MalformedHolds> {
        Holds::read(NOW, bytes, token(LAST), [3, 4])
    }

    /// Two holds, by tokens 0x102 and 0x104; the last one given is 0x105.
    fn golden() -> (Holds, Vec<u8>) {
        let mut holds = holds(0x101);
        for (name, secs) in [("gone", 1), ("b", 30), ("gone too", 2)] {
            holds.grant(NOW, key(&name.replace(' ', "-")), lease(secs)).unwrap();
        }
        holds.grant(NOW, key("\u{e9}"), lease(250)).unwrap();
        holds.grant(NOW, key("c"), lease(5)).unwrap();
        assert!(
            holds.end(0x101, key("gone")) && holds.end(0x103, key("gone-too")) && holds.end(0x105, key("c"))
        );
        let bytes = [
            &[1][..],
            &[0, 0, 0, 0, 0, 0, 1, 5],
            &[0, 0, 0, 0, 0, 0, 0, 2],
            &[0, 0, 0, 0, 0, 0, 1, 2, 30, 1, b'b'],
            &[0, 0, 0, 0, 0, 0, 1, 4, 250, 2, 0xc3, 0xa9],
        ];
        (holds, bytes.concat())
    }

    #[test]
    fn the_written_form_is_this_to_the_byte() {
        let (holds, bytes) = golden();
        assert_eq!(written(&holds), bytes);
        assert_eq!(written(&self::holds(1)), [1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    }

    #[test]
    fn what_was_written_is_read_back_and_its_leases_run_anew() {
        let (before, bytes) = golden();
        let later = NOW + Duration::from_secs(1000);
        let mut after = Holds::read(later, &bytes, token(LAST), [3, 4]).unwrap();
        assert_eq!((after.len(), after.tokens_left()), (2, before.tokens_left()));
        let hold = after.hold(key("b")).unwrap();
        assert_eq!((hold.token, hold.lease), (token(0x102), lease(30)));
        assert_eq!(hold.deadline, later + Duration::from_secs(30));
        assert_eq!(after.poll_timeout(), Some(hold.deadline));
        assert_eq!(after.hold(key("gone")), None);
        assert_eq!(written(&after), bytes);
        assert_eq!(after.grant(later, key("c"), lease(5)), Ok(token(0x106)));
        assert!(after.end(0x104, key("\u{e9}")));
    }

    #[test]
    fn the_written_form_does_not_tell_what_led_there() {
        let (_, bytes) = golden();
        let mut other =
            Holds::new(Instant::ORIGIN, TokenRange { next: token(0x102), last: token(LAST) }, [7, 8]);
        let names = ["b", "x", "\u{e9}", "y"];
        let now = |at: usize| NOW + Duration::from_secs(at as u64);
        for (at, name) in names.into_iter().enumerate() {
            let secs = [30, 1, 250, 1][at];
            other.grant(now(at), key(name), lease(secs)).unwrap();
        }
        assert!(other.end(0x105, key("y")) && other.end(0x103, key("x")));
        assert_eq!(written(&other), bytes);
    }

    #[test]
    fn holds_are_read_back_whatever_their_number() {
        let mut holds = holds(1);
        for number in 0..5000_u32 {
            holds.grant(NOW, key(&number.to_string()), lease((number % 250 + 1) as u8)).unwrap();
        }
        for number in (0..5000_u32).filter(|number| number % 3 == 0) {
            assert!(holds.end(u64::from(number) + 1, key(&number.to_string())));
        }
        let bytes = written(&holds);
        assert_eq!(written(&read(&bytes).unwrap()), bytes);
    }

    #[test]
    fn a_counter_at_its_end_stays_there() {
        let mut holds = holds(u64::MAX);
        holds.grant(NOW, key("k"), lease(1)).unwrap();
        let mut after = read(&written(&holds)).unwrap();
        assert_eq!(after.tokens_left(), 0);
        assert_eq!(after.grant(NOW, key("other"), lease(1)), Err(NotGranted::OutOfTokens));
        let held = NotGranted::Held { token: token(u64::MAX) };
        assert_eq!(after.grant(NOW, key("k"), lease(1)), Err(held));
    }

    #[test]
    fn each_truncation_and_each_byte_more_is_refused() {
        let (_, bytes) = golden();
        for len in 0..bytes.len() {
            assert_eq!(read(&bytes[..len]).err(), Some(MalformedHolds::Truncated), "{len} bytes");
        }
        let more = [&bytes[..], &[0]].concat();
        assert_eq!(read(&more).err(), Some(MalformedHolds::Trailing { len: 1 }));
    }

    #[test]
    fn each_fault_has_its_name() {
        let fault = |change: &dyn Fn(&mut Vec<u8>)| {
            let (_, mut bytes) = golden();
            change(&mut bytes);
            read(&bytes).expect_err("it is malformed")
        };
        // The first hold's token ends at 24, its lease and key follow; the second one's token ends at 35.
        let cases: Vec<(MalformedHolds, &str)> = vec![
            (fault(&|bytes| bytes[0] = 2), "holds are written in version 2; this reads version 1"),
            (fault(&|bytes| bytes[16] = 3), "the written holds end too soon"),
            (fault(&|bytes| bytes[9] = 255), "the written holds end too soon"),
            (fault(&|bytes| bytes[16] = 1), "12 bytes follow the written holds"),
            (fault(&|bytes| bytes[23..25].fill(0)), "token 0 is not between 1 and 261"),
            (fault(&|bytes| bytes[35] = 2), "token 258 is not between 259 and 261"),
            (fault(&|bytes| bytes[35] = 6), "token 262 is not between 259 and 261"),
            (fault(&|bytes| bytes[25] = 0), "token 258 has a lease of 0 s; a lease has 1 to 250 s"),
            (fault(&|bytes| bytes[36] = 251), "token 260 has a lease of 251 s; a lease has 1 to 250 s"),
            (
                fault(&|bytes| bytes[27] = b' '),
                "token 258: the key has a space at byte 0; a key has neither spaces nor line feeds",
            ),
        ];
        for (error, message) in cases {
            assert_eq!(error.to_string(), message);
        }
        let (_, mut bytes) = golden();
        bytes.truncate(37);
        bytes.extend([1, b'b']);
        assert_eq!(read(&bytes).err(), Some(MalformedHolds::Twice { first: 0x102, second: 0x104 }));
    }
}
