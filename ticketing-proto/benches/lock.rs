//! What the lock table costs: `cargo bench -p ticketing-proto --bench lock`.
//!
//! Each figure is nanoseconds per operation, as the least and the median over slices of 1000 operations: the least
//! is what the machine can do, the median what else it was doing meanwhile. The goals were set on an idle machine
//! of two cores: an uncontended acquire and release in 56 ns beside 1000 held keys, 210 ns beside 100 000 and
//! 500 ns beside a million; a hand-over in 60 ns, however many wait. Machines differ, so there is a yardstick:
//! the standard library's hash map, with keys in place and a keyed hash, and nothing else of a lock table.

use std::collections::HashMap;
use std::hash::{Hash, Hasher};
use std::hint::black_box;
use std::time::{Duration, Instant as Clock};

use ticketing_proto::id::{ConnectionId, Owner, Token};
use ticketing_proto::key::{Key, KeyRef};
use ticketing_proto::limits::{Lease, Limits, Wait};
use ticketing_proto::lock::{Outcome, Table, TableConfig, TokenRange, Verdict};
use ticketing_proto::time::Instant;

const NOW: Instant = Instant::ORIGIN;
const SLICE: usize = 1000;
const SLICES: usize = 1000;

fn main() {
    for held in [1000, 100_000, 1_000_000] {
        uncontended(held);
        yardstick(held);
    }
    for waiters in [1, 1000, 100_000] {
        hand_over(waiters);
    }
    timers();
}

fn table() -> Table {
    let limits = Limits {
        keys: u32::MAX,
        acquires: u32::MAX,
        waiters: u32::MAX,
        waiters_per_key: u32::MAX,
        ..Limits::default()
    };
    let tokens = TokenRange { next: Token::new(1).unwrap(), last: Token::new(u64::MAX).unwrap() };
    Table::new(NOW, TableConfig { limits, tokens, hash_seed: [1, 2] })
}

/// Keys of 16 bytes.
fn keys(prefix: &str, count: usize) -> Vec<Key> {
    (0..count).map(|number| Key::new(format!("{prefix}-{number:012}").as_bytes()).unwrap()).collect()
}

fn ask(table: &mut Table, number: u64, wait: u8, lease: u8, key: KeyRef<'_>) -> Outcome {
    let (connection, owner) = (ConnectionId::new(number % 64), Owner::new(number + 1).unwrap());
    table.acquire(NOW, connection, owner, Wait::from_secs(wait), Lease::from_secs(lease).unwrap(), key)
}

fn take(table: &mut Table, key: KeyRef<'_>) -> Token {
    match ask(table, 0, 0, 250, key) {
        Outcome::Granted(token) => token,
        other => panic!("the key is free: {other:?}"),
    }
}

/// Spans per operation.
#[derive(Default)]
struct Spans(Vec<f64>);

impl Spans {
    fn slice(&mut self, mut act: impl FnMut()) {
        let start = Clock::now();
        (0..SLICE).for_each(|_| act());
        self.add(start.elapsed(), SLICE);
    }

    fn add(&mut self, span: Duration, operations: usize) {
        self.0.push(span.as_nanos() as f64 / operations as f64);
    }

    fn print(mut self, name: &str) {
        self.0.sort_by(f64::total_cmp);
        println!("{name:70} least {:7.1} ns, median {:7.1} ns", self.0[0], self.0[self.0.len() / 2]);
    }
}

/// Places below `count` in an order that no cache foresees.
fn shuffled(count: usize) -> impl FnMut() -> usize {
    let mut random = 1_u64;
    move || {
        random = random.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
        (random >> 33) as usize % count
    }
}

fn uncontended(held: usize) {
    let (held_keys, free_keys) = (keys("key", held), keys("new", held));
    let held_keys: Vec<KeyRef<'_>> = held_keys.iter().map(Key::as_key_ref).collect();
    let free_keys: Vec<KeyRef<'_>> = free_keys.iter().map(Key::as_key_ref).collect();
    let mut table = table();
    let mut tokens: Vec<Token> = held_keys.iter().map(|&key| take(&mut table, key)).collect();
    table.answered(held);

    let mut next = shuffled(held);
    let mut spans = Spans::default();
    for _ in 0..SLICES {
        spans.slice(|| {
            let key = free_keys[next()];
            let token = take(&mut table, key);
            assert!(table.release(NOW, token.value(), key));
            table.answered(1);
        });
    }
    spans.print(&format!("acquire and release of some free key, {held} others held"));

    let mut spans = Spans::default();
    for _ in 0..SLICES {
        spans.slice(|| {
            let at = next();
            assert!(table.release(NOW, tokens[at].value(), held_keys[at]));
            tokens[at] = take(&mut table, held_keys[at]);
            table.answered(1);
        });
    }
    spans.print(&format!("release and acquire of some key of {held} held ones"));
}

/// A key of up to 22 bytes.
#[derive(PartialEq, Eq)]
struct Inline {
    len: u8,
    bytes: [u8; 22],
}

impl Inline {
    fn new(key: KeyRef<'_>) -> Self {
        let key = key.as_bytes();
        let mut bytes = [0; 22];
        bytes[..key.len()].copy_from_slice(key);
        Self { len: key.len() as u8, bytes }
    }
}

impl Hash for Inline {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write(&self.bytes[..usize::from(self.len)]);
    }
}

fn yardstick(held: usize) {
    let (held_keys, free_keys) = (keys("key", held), keys("new", held));
    let mut map: HashMap<Inline, (u64, u64)> =
        held_keys.iter().map(|key| (Inline::new(key.as_key_ref()), (1, 2))).collect();
    let free_keys: Vec<KeyRef<'_>> = free_keys.iter().map(Key::as_key_ref).collect();
    let mut next = shuffled(held);
    let mut spans = Spans::default();
    for _ in 0..SLICES {
        spans.slice(|| {
            let key = free_keys[next()];
            map.insert(Inline::new(key), (3, 4));
            assert!(map.remove(&Inline::new(key)).is_some());
        });
    }
    spans.print(&format!("yardstick: a bare map of {held}, insert and remove"));
}

/// As many waiters in all, on one key or many.
fn hand_over(waiters: usize) {
    let keys = keys("key", 100_000 / waiters);
    let keys: Vec<KeyRef<'_>> = keys.iter().map(Key::as_key_ref).collect();
    let (mut joins, mut hand_overs) = (Spans::default(), Spans::default());
    for _ in 0..10 {
        let mut table = table();
        let mut tokens: Vec<Token> = keys.iter().map(|&key| take(&mut table, key)).collect();
        let mut numbers = 0..;
        for _ in 0..100_000 / SLICE {
            joins.slice(|| {
                let number: usize = numbers.next().expect("an endless range");
                let outcome = ask(&mut table, number as u64, 255, 30, keys[number % keys.len()]);
                assert_eq!(outcome, Outcome::Queued);
            });
        }
        let mut numbers = 0..;
        for _ in 0..100_000 / SLICE {
            hand_overs.slice(|| {
                let at: usize = numbers.next().expect("an endless range") % keys.len();
                assert!(table.release(NOW, tokens[at].value(), keys[at]));
                match table.poll_answer().map(|answer| answer.verdict) {
                    Some(Verdict::Granted(token)) => tokens[at] = token,
                    other => panic!("a waiter is granted: {other:?}"),
                }
            });
        }
    }
    joins.print(&format!("an acquire joins the queue, up to {waiters} waiters on a key"));
    hand_overs.print(&format!("hand-over: a release and the answer, {waiters} waiters on a key"));
}

fn timers() {
    const COUNT: usize = 100_000;
    let keys = keys("key", COUNT);
    let spread = |number: usize| (number * 7919 % 250 + 1) as u8;
    for (name, lease) in [("of one length", None), ("of all lengths", Some(spread))] {
        let (mut holds, mut waits) = (Spans::default(), Spans::default());
        for _ in 0..10 {
            let mut table = table();
            for (number, key) in keys.iter().enumerate() {
                let lease = lease.map_or(30, |lease| lease(number));
                let outcome = ask(&mut table, 0, 0, lease, key.as_key_ref());
                assert!(matches!(outcome, Outcome::Granted(_)));
            }
            holds.add(time_all_out(&mut table), COUNT);

            let mut table = self::table();
            take(&mut table, keys[0].as_key_ref());
            for number in 0..COUNT {
                let wait = lease.map_or(30, |wait| wait(number)).min(249);
                let outcome = ask(&mut table, number as u64, wait, 30, keys[0].as_key_ref());
                assert_eq!(outcome, Outcome::Queued);
            }
            waits.add(time_all_out(&mut table), COUNT);
        }
        holds.print(&format!("a hold ends and is reclaimed, leases {name}"));
        waits.print(&format!("a wait ends and is answered, waits {name}"));
    }
}

/// Handles the timeouts of all that there is.
fn time_all_out(table: &mut Table) -> Duration {
    let end = NOW + Duration::from_secs(600);
    let start = Clock::now();
    while table.poll_timeout().is_some_and(|timeout| timeout <= end) {
        table.handle_timeout(end);
        while let Some(answer) = table.poll_answer() {
            black_box(answer);
        }
    }
    start.elapsed()
}
