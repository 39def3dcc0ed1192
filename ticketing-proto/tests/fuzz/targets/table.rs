//! The lock table beside the naive one.

#[path = "../../lock_model/judge.rs"]
mod judge;
#[path = "../../lock_model/naive.rs"]
mod naive;
#[path = "../../lock_model/run.rs"]
mod run;

use arbitrary::{Result, Unstructured};
use run::{Habit, KEYS, Step};
use ticketing_proto::id::Token;
use ticketing_proto::limits::Limits;
use ticketing_proto::lock::TokenRange;

/// Every outcome, every answer and every count is the same.
pub(crate) fn table(data: &[u8]) {
    // Bytes that end too soon make no case.
    let _ = case(&mut Unstructured::new(data));
}

fn case(u: &mut Unstructured<'_>) -> Result<()> {
    let limit = |u: &mut Unstructured<'_>| Ok(if u.arbitrary()? { 1000 } else { u.int_in_range(1..=12)? });
    let limits = Limits {
        keys: limit(u)?,
        acquires: limit(u)?,
        waiters: limit(u)?,
        waiters_per_key: limit(u)?,
        ..Limits::default()
    };
    let (next, last) = match u.int_in_range(0..=3)? {
        0..=1 => (1, u64::MAX),
        2 => (2, u.int_in_range(1..=30)?),
        _ => (u64::MAX - u.int_in_range(0..=20)?, u64::MAX),
    };
    let token = |value| Token::new(value).expect("not 0");
    let habit = if u.arbitrary()? { Habit::Punctual } else { Habit::Careless };
    let mut steps = Vec::new();
    // A run's time rises with the square of its length: the naive table searches.
    while !u.is_empty() && steps.len() < 300 {
        steps.push(step(u)?);
    }
    run::run(limits, TokenRange { next: token(next), last: token(last) }, &steps, habit);
    Ok(())
}

fn step(u: &mut Unstructured<'_>) -> Result<Step> {
    let key = |u: &mut Unstructured<'_>| u.choose_index(KEYS.len());
    Ok(match u.int_in_range(0..=31)? {
        0..=11 => Step::Acquire {
            connection: u.int_in_range(0..=3)?,
            wait: *u.choose(&[0, 0, 1, 2, 3, 255])?,
            lease: *u.choose(&[1, 2, 3, 250])?,
            key: key(u)?,
        },
        12 => Step::Refuse,
        13..=16 => Step::Release { key: key(u)? },
        17..=18 => Step::ReleaseAny { token: u.arbitrary::<u8>()?.into(), key: key(u)? },
        19 => Step::ReleaseNonsense { token: *u.choose(&[0, 1 << 40])?, key: key(u)? },
        20 => Step::Disconnect { connection: u.int_in_range(0..=3)? },
        21..=23 => Step::Answered,
        24..=25 => Step::HandleTimeout,
        26..=27 => Step::Pass { millis: u.int_in_range(0..=5000)? },
        28..=29 => Step::PassToDeadline { nanos: u.int_in_range(-1..=1)? },
        30 => Step::GoBack,
        _ => Step::ExtendTokens { by: u.int_in_range(1..=4)? },
    })
}
