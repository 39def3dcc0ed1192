//! `Arbitrary` for those types of which not every value is legal.

use core::time::Duration;

use arbitrary::{Arbitrary, Result, Unstructured};

use crate::id::Token;
use crate::key::{Key, KeyRef, MAX_KEY_LEN};
use crate::limits::{Lease, MAX_WORK_BUDGET, WorkBudget};
use crate::wire::{Reason, Reply, is_address};

impl<'a> Arbitrary<'a> for KeyRef<'a> {
    /// As much of some text as is a key, or else `k`.
    fn arbitrary(u: &mut Unstructured<'a>) -> Result<Self> {
        let text: &str = u.arbitrary()?;
        let word = text.split([' ', '\n']).next().unwrap_or_default();
        let fits = |&len: &usize| word.is_char_boundary(len);
        let len = (0..=MAX_KEY_LEN.min(word.len())).rev().find(fits).unwrap_or_default();
        KeyRef::new(&word.as_bytes()[..len])
            .or_else(|_| KeyRef::new(b"k"))
            .map_err(|_| arbitrary::Error::IncorrectFormat)
    }

    fn size_hint(depth: usize) -> (usize, Option<usize>) {
        <&str>::size_hint(depth)
    }
}

impl<'a> Arbitrary<'a> for Key {
    fn arbitrary(u: &mut Unstructured<'a>) -> Result<Self> {
        u.arbitrary().map(KeyRef::to_key)
    }

    fn size_hint(depth: usize) -> (usize, Option<usize>) {
        KeyRef::size_hint(depth)
    }
}

impl<'a> Arbitrary<'a> for Lease {
    fn arbitrary(u: &mut Unstructured<'a>) -> Result<Self> {
        Self::from_secs(u.int_in_range(1..=250)?).ok_or(arbitrary::Error::IncorrectFormat)
    }

    fn size_hint(_: usize) -> (usize, Option<usize>) {
        (1, Some(1))
    }
}

impl<'a> Arbitrary<'a> for WorkBudget {
    fn arbitrary(u: &mut Unstructured<'a>) -> Result<Self> {
        let nanos = u.int_in_range(0..=MAX_WORK_BUDGET.as_nanos() as u64)?;
        Self::new(Duration::from_nanos(nanos)).map_err(|_| arbitrary::Error::IncorrectFormat)
    }

    fn size_hint(_: usize) -> (usize, Option<usize>) {
        (0, Some(size_of::<u64>()))
    }
}

impl<'a> Arbitrary<'a> for Reply<'a> {
    fn arbitrary(u: &mut Unstructured<'a>) -> Result<Self> {
        Ok(match u.int_in_range(0..=7)? {
            0 => Self::Acquired { token: u.arbitrary()?, owner: u.arbitrary()?, key: u.arbitrary()? },
            1 => Self::TimedOut { owner: u.arbitrary()?, key: u.arbitrary()? },
            2 => Self::Busy { owner: u.arbitrary()?, key: u.arbitrary()? },
            3 => Self::Released { token: u.arbitrary::<Token>()?.value(), key: u.arbitrary()? },
            4 => Self::NotHeld { token: u.arbitrary()?, key: u.arbitrary()? },
            5 => Self::Moved { leader: address(u)? },
            6 => Self::LeaderChanged { leader: if u.arbitrary()? { Some(address(u)?) } else { None } },
            _ => Self::Error(u.arbitrary::<Reason>()?),
        })
    }

    fn size_hint(_: usize) -> (usize, Option<usize>) {
        (1, None)
    }
}

/// Some text if it is an address, or else one that is.
fn address<'a>(u: &mut Unstructured<'a>) -> Result<&'a str> {
    let text: &str = u.arbitrary()?;
    Ok(if is_address(text) { text } else { "node-1:5225" })
}
