//! One million leases that end in the same second: `cargo bench -p ticketing-proto --bench mass_expiry`.
//!
//! The goals: all of them ended within 250 ms, and no call so long that another request is delayed by more than
//! 10 ms. Each call's time is its least over several runs, as the runs are the same to the call, so that the greatest
//! one is the table's and not that of whatever else the machine was doing.

use std::time::{Duration, Instant as Clock};

use ticketing_proto::id::{ConnectionId, Owner, Token};
use ticketing_proto::key::Key;
use ticketing_proto::limits::{Lease, Limits, Wait};
use ticketing_proto::lock::{Outcome, Table, TableConfig, TokenRange};
use ticketing_proto::time::Instant;

const LEASES: u64 = 1_000_000;
const LEASE: Duration = Duration::from_secs(30);
const RUNS: usize = 5;

/// How the million ends.
#[derive(Clone, Copy)]
struct Scene {
    name: &'static str,
    key_limit: u32,
    /// Between one grant and the next.
    step: Duration,
    /// One key in so many has a waiter.
    waiter_each: Option<u64>,
}

fn main() {
    let scene = Scene { name: "all at once", key_limit: 4_000_000, step: Duration::ZERO, waiter_each: None };
    let scenes = [
        scene,
        Scene { name: "spread over the second", step: Duration::from_nanos(999), ..scene },
        Scene { name: "all at once, each tenth with a waiter", waiter_each: Some(10), ..scene },
        // The millionth key closes it.
        Scene { name: "all at once, the gate for keys closed", key_limit: 1_111_111, ..scene },
    ];
    for scene in scenes {
        let runs: Vec<Calls> = (0..RUNS).map(|_| run(scene)).collect();
        let best = |at: usize| runs.iter().map(|run| run.spans[at]).min().expect("there are runs");
        let spans: Vec<Duration> = (0..runs[0].spans.len()).map(best).collect();
        let [first, rest @ ..] = &spans[..] else { panic!("there is an acquire") };
        let (ending, reclaiming) = rest.split_at(runs[0].ending);
        println!(
            "{}: ended by {} calls in {:?}, the longest {:?}; memory reclaimed by {} calls in {:?}, the longest \
             {:?}; the first acquire of another key {first:?}",
            scene.name,
            ending.len(),
            ending.iter().sum::<Duration>(),
            ending.iter().max().expect("they end"),
            reclaiming.len(),
            reclaiming.iter().sum::<Duration>(),
            reclaiming.iter().max().unwrap_or(&Duration::ZERO),
        );
    }
}

/// How long the first acquire after the end took, then each call of `handle_timeout`.
struct Calls {
    spans: Vec<Duration>,
    /// So many calls of `handle_timeout` until all had ended.
    ending: usize,
}

fn run(scene: Scene) -> Calls {
    let limits = Limits { keys: scene.key_limit, acquires: u32::MAX, waiters: 200_000, ..Limits::default() };
    let tokens = TokenRange { next: Token::new(1).unwrap(), last: Token::new(u64::MAX).unwrap() };
    let mut table = Table::new(Instant::ORIGIN, TableConfig { limits, tokens, hash_seed: [1, 2] });
    let ask = |table: &mut Table, now, number: u64, wait| {
        let key = Key::new(format!("key-{number:012}").as_bytes()).unwrap();
        let (connection, owner) = (ConnectionId::new(number % 64), Owner::new(number + 1).unwrap());
        let (wait, lease) = (Wait::from_secs(wait), Lease::new(LEASE).unwrap());
        let start = Clock::now();
        let outcome = table.acquire(now, connection, owner, wait, lease, key.as_key_ref());
        (outcome, start.elapsed())
    };
    let mut now = Instant::ORIGIN;
    for number in 0..LEASES {
        assert!(matches!(ask(&mut table, now, number, 0).0, Outcome::Granted(_)));
        if scene.waiter_each.is_some_and(|each| number % each == 0) {
            assert_eq!(ask(&mut table, now, number, 255).0, Outcome::Queued);
        }
        now = now + scene.step;
    }

    now = now + LEASE;
    let (outcome, first) = ask(&mut table, now, LEASES, 0);
    assert!(matches!(outcome, Outcome::Granted(_)), "what is overdue never counts");
    let left = 1 + scene.waiter_each.map_or(0, |each| LEASES / each);
    let (mut spans, mut ending) = (vec![first], 0);
    // Where nobody waits the sweep ends them: let its time have come.
    now = now + Duration::from_secs(5);
    while table.poll_timeout().is_some_and(|timeout| timeout <= now) {
        let start = Clock::now();
        table.handle_timeout(now);
        spans.push(start.elapsed());
        while table.poll_answer().is_some() {}
        ending += usize::from(table.usage().keys.used > left);
    }
    Calls { spans, ending: ending + 1 }
}
