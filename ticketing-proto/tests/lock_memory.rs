//! What holds and waiters cost in memory, and that it comes back.

#[path = "support/counting.rs"]
mod counting;

use std::time::Duration;

use counting::{allocations, assert_as_recorded, live_bytes};
use ticketing_proto::id::{ConnectionId, Owner, Token};
use ticketing_proto::key::{Key, KeyRef};
use ticketing_proto::limits::{Lease, Limits, Wait};
use ticketing_proto::lock::{Outcome, Table, TableConfig, TokenRange, Verdict};
use ticketing_proto::time::Instant;

const MILLION: u64 = 1_000_000;
const CONNECTIONS: u64 = 64;
/// What a table that has been in use may keep: a spare chunk of each kind, and the smallest shards.
const KEPT: isize = 256 * 1024;

fn table() -> Table {
    let limits = Limits {
        keys: u32::MAX,
        acquires: u32::MAX,
        waiters: u32::MAX,
        waiters_per_key: u32::MAX,
        ..Limits::default()
    };
    let tokens = TokenRange { next: Token::new(1).unwrap(), last: Token::new(u64::MAX).unwrap() };
    Table::new(Instant::ORIGIN, TableConfig { limits, tokens, hash_seed: [1, 2] })
}

fn ask(table: &mut Table, now: Instant, number: u64, wait: u8, lease: u8, key: KeyRef<'_>) -> Outcome {
    let (connection, owner) = (ConnectionId::new(number % CONNECTIONS), Owner::new(number + 1).unwrap());
    let lease = Lease::from_secs(lease).unwrap();
    let outcome = table.acquire(now, connection, owner, Wait::from_secs(wait), lease, key);
    if outcome != Outcome::Queued {
        table.answered(1);
    }
    outcome
}

fn take(table: &mut Table, now: Instant, lease: u8, key: KeyRef<'_>) -> Token {
    match ask(table, now, 0, 0, lease, key) {
        Outcome::Granted(token) => token,
        other => panic!("the key is free: {other:?}"),
    }
}

/// Handles the timeouts up to a time, each when it comes. Gives the number of answers.
fn pass(table: &mut Table, until: Instant) -> usize {
    let mut answers = 0;
    for calls in 0.. {
        assert!(calls < 10_000, "it does not come to rest");
        let Some(timeout) = table.poll_timeout().filter(|&timeout| timeout <= until) else { break };
        table.handle_timeout(timeout);
        while table.poll_answer().is_some() {
            table.answered(1);
            answers += 1;
        }
    }
    answers
}

/// The key with this number, of 16 bytes or of 128.
fn key(len: usize, number: u64) -> Key {
    Key::new(format!("{number:0len$}").as_bytes()).unwrap()
}

#[test]
fn a_held_key_of_16_bytes_takes_at_most_112() {
    let before = live_bytes();
    let mut table = table();
    let mut most = 0.0_f64;
    for number in 0..MILLION {
        take(&mut table, Instant::ORIGIN, 250, key(16, number).as_key_ref());
        if number >= 100_000 && number % 1000 == 0 {
            most = most.max((live_bytes() - before) as f64 / number as f64);
        }
    }
    let bytes = (live_bytes() - before) as f64 / MILLION as f64;
    assert!(most <= 112.0 && bytes <= 112.0, "{bytes} bytes, {most} at most from 100 000 on");
    assert_as_recorded("a held key of a million", bytes, 83.0);
    assert_as_recorded("a held key, at most from 100 000 on", most, 84.3);
}

#[test]
fn a_held_key_of_16_bytes_takes_at_most_112_when_keys_come_and_go() {
    let before = live_bytes();
    let mut table = table();
    let held = 200_000;
    let mut tokens = std::collections::VecDeque::new();
    let mut most = 0;
    for number in 0..3 * held {
        tokens.push_back(take(&mut table, Instant::ORIGIN, 250, key(16, number).as_key_ref()));
        if number >= held {
            let token: Token = tokens.pop_front().unwrap();
            assert!(table.release(Instant::ORIGIN, token.value(), key(16, number - held).as_key_ref()));
            let own = (tokens.capacity() * size_of::<Token>()) as isize;
            most = most.max(live_bytes() - before - own);
        }
    }
    let bytes = most as f64 / held as f64;
    assert!(bytes <= 112.0, "{bytes} bytes");
    assert_as_recorded("a held key of those that come and go, at most", bytes, 87.9);
}

#[test]
fn a_waiter_takes_at_most_56() {
    let mut table = table();
    let key = key(16, 0);
    take(&mut table, Instant::ORIGIN, 250, key.as_key_ref());
    for number in 0..CONNECTIONS {
        assert_eq!(ask(&mut table, Instant::ORIGIN, number, 255, 30, key.as_key_ref()), Outcome::Queued);
        table.disconnect(Instant::ORIGIN, ConnectionId::new(number));
    }
    let before = live_bytes();
    let waiters = 100_000;
    for number in 0..waiters {
        assert_eq!(ask(&mut table, Instant::ORIGIN, number, 255, 30, key.as_key_ref()), Outcome::Queued);
    }
    let bytes = (live_bytes() - before) as f64 / waiters as f64;
    assert!(bytes <= 56.0, "{bytes} bytes");
    assert_as_recorded("a waiter", bytes, 51.7);
}

#[test]
fn a_million_long_keys_taken_and_released_leave_nothing() {
    let keys: Vec<Key> = (0..MILLION).map(|number| key(128, number)).collect();
    let mut tokens = Vec::with_capacity(keys.len());
    let before = live_bytes();
    let mut table = table();
    let mut now = Instant::ORIGIN;
    // A million at first and at last; the last ones' leases run out.
    for (round, count) in [MILLION, 100_000, 100_000, 100_000, MILLION].into_iter().enumerate() {
        let keys = &keys[..count as usize];
        tokens.extend(keys.iter().map(|key| take(&mut table, now, 250, key.as_key_ref())));
        assert!(live_bytes() - before > 128 * count as isize);
        for (key, token) in keys.iter().zip(tokens.drain(..)) {
            if round < 4 {
                assert!(table.release(now, token.value(), key.as_key_ref()));
            }
        }
        now = now + Duration::from_secs(300);
        pass(&mut table, now);
        assert_eq!(table.poll_timeout(), None, "it has come to rest");
        let kept = live_bytes() - before;
        assert!(kept <= KEPT, "{kept} bytes are kept after round {round}");
    }
}

#[test]
fn a_million_waiters_pass_through_one_key_and_leave_nothing() {
    let mut table = table();
    let key = key(16, 0);
    let mut held = take(&mut table, Instant::ORIGIN, 250, key.as_key_ref());
    let mut settled = None;
    for number in 0..MILLION {
        assert_eq!(ask(&mut table, Instant::ORIGIN, number, 255, 250, key.as_key_ref()), Outcome::Queued);
        match number % 100 {
            _ if number < 50 => {}
            // Some leave otherwise than by a grant.
            99 => assert!(table.disconnect(Instant::ORIGIN, ConnectionId::new(number % CONNECTIONS)) > 0),
            _ => {
                assert!(table.release(Instant::ORIGIN, held.value(), key.as_key_ref()));
                held = match table.poll_answer().map(|answer| answer.verdict) {
                    Some(Verdict::Granted(token)) => token,
                    other => panic!("someone waits: {other:?}"),
                };
                table.answered(1);
            }
        }
        if number == 10_000 {
            settled = Some((live_bytes(), allocations()));
        }
    }
    assert_eq!(settled, Some((live_bytes(), allocations())), "neither a byte nor an allocation more");
}

#[test]
fn a_burst_of_waiters_leaves_nothing() {
    let before = live_bytes();
    let mut table = table();
    for burst in 1..=3 {
        let now = Instant::ORIGIN + Duration::from_secs(1000 * burst);
        let key = key(128, 0);
        take(&mut table, now, 250, key.as_key_ref());
        for number in 0..300_000 {
            let (connection, owner) = (ConnectionId::new(number), Owner::new(number + 1).unwrap());
            let outcome =
                table.acquire(now, connection, owner, Wait::from_secs(200), Lease::DEFAULT, key.as_key_ref());
            assert_eq!(outcome, Outcome::Queued);
        }
        assert!(live_bytes() - before > 300_000 * 52);
        assert_eq!(pass(&mut table, now + Duration::from_secs(500)), 300_000);
        drop(key);
        let kept = live_bytes() - before;
        assert!(kept <= KEPT, "{kept} bytes are kept after burst {burst}");
    }
}

#[test]
fn a_request_for_a_short_key_that_is_known_allocates_nothing() {
    let mut table = table();
    let key = Key::new(b"twenty-two-bytes-long.").unwrap();
    let mut held = take(&mut table, Instant::ORIGIN, 250, key.as_key_ref());
    let mut serve = |table: &mut Table| {
        // A grant, a T, a wait that is granted, an N.
        assert!(table.release(Instant::ORIGIN, held.value(), key.as_key_ref()));
        held = take(table, Instant::ORIGIN, 250, key.as_key_ref());
        assert_eq!(ask(table, Instant::ORIGIN, 1, 0, 250, key.as_key_ref()), Outcome::TimedOut);
        assert_eq!(ask(table, Instant::ORIGIN, 2, 9, 250, key.as_key_ref()), Outcome::Queued);
        assert!(table.release(Instant::ORIGIN, held.value(), key.as_key_ref()));
        match table.poll_answer().map(|answer| answer.verdict) {
            Some(Verdict::Granted(token)) => held = token,
            other => panic!("someone waits: {other:?}"),
        }
        table.answered(1);
        assert!(!table.release(Instant::ORIGIN, 7_000_000, key.as_key_ref()));
    };
    serve(&mut table);
    let before = allocations();
    (0..10_000).for_each(|_| serve(&mut table));
    assert_eq!(allocations() - before, 0);
}
