//! What the server's connections cost: bytes while they are idle, allocations while they are busy.

#[path = "support/counting.rs"]
mod counting;

use std::time::Duration;

use counting::{allocations, assert_as_recorded, live_bytes};
use ticketing_proto::id::{ConnectionId, Owner, Token};
use ticketing_proto::key::KeyRef;
use ticketing_proto::limits::{Lease, Limits, READ_BUFFER_LEN, Wait};
use ticketing_proto::lock::TokenRange;
use ticketing_proto::server::{Server, ServerConfig, ServerEvent};
use ticketing_proto::time::Instant;
use ticketing_proto::wire::auth::Secret;
use ticketing_proto::wire::{Acquire, Release, Request};

const NOW: Instant = Instant::from_origin(Duration::from_secs(1));

fn token(value: u64) -> Token {
    Token::new(value).expect("a token is not 0")
}

fn server() -> Server {
    let config = ServerConfig {
        secret: Secret::default(),
        limits: Limits::default(),
        tokens: TokenRange { next: token(1), last: token(u64::MAX) },
        hash_seed: [1, 2],
        tls: None,
    };
    Server::new(NOW, config).expect("limits above 0")
}

fn connect(server: &mut Server) -> ConnectionId {
    let id = server.accept(NOW, [7; 32]).expect("room");
    server.handle_data(NOW, id, &[b'x'; 43]);
    server.handle_data(NOW, id, b"\n");
    id
}

/// Everything that is owed goes out; how many bytes that is.
fn drain(server: &mut Server, out: &mut Vec<u8>) -> usize {
    let mut total = 0;
    while let Some(event) = server.poll_event() {
        if let ServerEvent::Transmit(id) = event {
            out.clear();
            while server.poll_transmit(id, out) {
                server.handle_transmitted(NOW, id, out.len());
                total += out.len();
                out.clear();
            }
        }
    }
    total
}

/// An acquire without a wait and its release, for each of these keys.
fn pairs(keys: impl Iterator<Item = u64>, first_token: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (number, token) in keys.zip(first_token..) {
        let text = format!("lock-of-16-{number:05}");
        let key = KeyRef::new(text.as_bytes()).expect("a key");
        let owner = Owner::new(number + 1).expect("an owner");
        Request::Acquire(Acquire { wait: Wait::NONE, lease: Lease::DEFAULT, owner, key }).encode(&mut bytes);
        Request::Release(Release { token, key }).encode(&mut bytes);
    }
    bytes
}

#[test]
fn an_idle_connection_costs_at_most_1_kib_also_after_a_burst() {
    const CONNECTIONS: isize = 1000;
    let mut server = server();
    let mut out = Vec::with_capacity(1 << 16);
    let before = live_bytes();
    let ids: Vec<_> = (0..CONNECTIONS).map(|_| connect(&mut server)).collect();
    drain(&mut server, &mut out);
    let each = |before| (live_bytes() - before) as f64 / CONNECTIONS as f64;
    let idle = each(before);
    assert!(idle <= 1024.0, "{idle} bytes");
    assert_as_recorded("an idle connection", idle, 712.2);
    for (round, &id) in ids.iter().enumerate() {
        let bytes = pairs(0..400, 1 + 400 * round as u64);
        for piece in bytes.chunks(READ_BUFFER_LEN) {
            server.handle_data(NOW, id, piece);
        }
        let replied = drain(&mut server, &mut out);
        assert_eq!(replied, 400 * (34 + 26), "all granted and released");
    }
    let after = each(before);
    assert!(after <= 1024.0, "{after} bytes after a burst");
    assert_as_recorded("an idle connection after a burst", after, 817.2);
}

/// What the table takes, and what connections and replies add to it.
#[test]
fn held_keys_and_waiters_cost_as_much_as_is_recorded() {
    const COUNT: usize = 8000;
    let mut server = server();
    let mut out = Vec::with_capacity(1 << 16);
    let ids: [_; 4] = std::array::from_fn(|_| connect(&mut server));
    drain(&mut server, &mut out);
    let mut ask = |wait, key_of: fn(usize) -> String| {
        let before = live_bytes();
        for number in 0..COUNT {
            let (text, mut bytes) = (key_of(number), Vec::new());
            let key = KeyRef::new(text.as_bytes()).expect("a key");
            let owner = Owner::new(number as u64 + 1).expect("an owner");
            Request::Acquire(Acquire { wait, lease: Lease::DEFAULT, owner, key }).encode(&mut bytes);
            server.handle_data(NOW, ids[number % ids.len()], &bytes);
            drain(&mut server, &mut out);
        }
        (live_bytes() - before) as f64 / COUNT as f64
    };
    let held = ask(Wait::NONE, |number| format!("lock-of-16-{number:05}"));
    let waiter = ask(Wait::from_secs(200), |_| "lock-of-16-00000".to_owned());
    let usage = server.usage();
    assert_eq!((usage.keys.used, usage.waiters.used), (COUNT as u64, COUNT as u64));
    assert_as_recorded("a held key", held, 82.6);
    assert_as_recorded("a waiter", waiter, 56.4);
}

#[test]
fn a_peer_that_does_not_read_costs_a_bounded_amount() {
    let mut server = server();
    let id = connect(&mut server);
    let before = live_bytes();
    let mut bytes = Vec::new();
    let key = KeyRef::new(b"k").expect("a key");
    while bytes.len() < READ_BUFFER_LEN {
        Request::Release(Release { token: 1, key }).encode(&mut bytes);
    }
    while server.wants_read(id) {
        server.handle_data(NOW, id, &bytes);
    }
    let cost = live_bytes() - before - bytes.capacity() as isize;
    assert!(cost <= 160 * 1024, "{cost} bytes for 64 KiB owed");
    server.handle_disconnected(NOW, id);
    drain(&mut server, &mut Vec::new());
    drop(bytes);
    assert!(live_bytes() <= before, "nothing is left");
}

#[test]
fn requests_allocate_nothing_in_the_steady_state() {
    let mut server = server();
    let id = connect(&mut server);
    let mut out = Vec::with_capacity(1 << 16);
    drain(&mut server, &mut out);
    let rounds: Vec<_> = (0..200).map(|round| pairs(round % 2..=round % 2, 1 + round)).collect();
    let mut run = |rounds: &[Vec<u8>]| {
        for bytes in rounds {
            server.handle_data(NOW, id, bytes);
            assert_eq!(drain(&mut server, &mut out), 34 + 26);
        }
    };
    run(&rounds[..100]);
    let before = allocations();
    run(&rounds[100..]);
    assert_eq!(allocations() - before, 0, "for 200 requests of one connection");
}

#[test]
fn a_deep_pipeline_allocates_for_a_batch_and_not_for_a_request() {
    let mut server = server();
    let id = connect(&mut server);
    let mut out = Vec::with_capacity(1 << 16);
    drain(&mut server, &mut out);
    let rounds: Vec<_> = (0..20).map(|round| pairs(0..32, 1 + 32 * round)).collect();
    let mut run = |rounds: &[Vec<u8>]| {
        for bytes in rounds {
            server.handle_data(NOW, id, bytes);
            assert_eq!(drain(&mut server, &mut out), 32 * (34 + 26));
        }
    };
    run(&rounds[..10]);
    let before = allocations();
    run(&rounds[10..]);
    let count = allocations() - before;
    assert!(count <= 10 * 4, "{count} allocations for 10 batches of 64 requests");
}

#[test]
fn a_hand_over_between_connections_allocates_nothing_in_the_steady_state() {
    let mut server = server();
    let ids = [connect(&mut server), connect(&mut server)];
    let mut out = Vec::with_capacity(1 << 16);
    drain(&mut server, &mut out);
    let key = KeyRef::new(b"hot").expect("a key");
    let turns: Vec<_> = (0..400)
        .map(|turn| {
            let mut bytes = Vec::new();
            if turn > 1 {
                Request::Release(Release { token: turn - 1, key }).encode(&mut bytes);
            }
            let owner = Owner::new(turn + 1).expect("an owner");
            let wait = Wait::from_secs(200);
            Request::Acquire(Acquire { wait, lease: Lease::DEFAULT, owner, key }).encode(&mut bytes);
            bytes
        })
        .collect();
    let mut run = |range: std::ops::Range<usize>| {
        for turn in range {
            server.handle_data(NOW, ids[turn % 2], &turns[turn]);
            drain(&mut server, &mut out);
        }
    };
    run(0..200);
    let before = allocations();
    run(200..400);
    assert_eq!(allocations() - before, 0, "for 200 hand-overs");
    assert_eq!(server.usage().waiters.used, 1);
}
