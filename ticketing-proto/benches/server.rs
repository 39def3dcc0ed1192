//! What a server costs without its sockets: `cargo bench -p ticketing-proto --bench server`.
//!
//! A connection reads a batch of requests, the hub serves them, and the replies are handed over: all that an adapter
//! has done for it, but for the system calls. Times are for a request.

use std::hint::black_box;
use std::time::{Duration, Instant as Clock};

use ticketing_proto::id::Token;
use ticketing_proto::limits::Limits;
use ticketing_proto::lock::TokenRange;
use ticketing_proto::server::{Connection, Hub, ServerConfig};
use ticketing_proto::time::Instant;
use ticketing_proto::wire::auth::{self, Secret};

/// Keys that are taken and released in turn.
const KEYS: usize = 4096;
const ROUNDS: usize = 41;
const KEY_LEN: usize = 16;
const LEN_OF_A: usize = 1 + 16 + KEY_LEN + 1;

fn main() {
    println!("a request's share of a batch, {KEYS} keys of {KEY_LEN} bytes, uncontended");
    for depth in [1, 8, 64, 128] {
        let mut times: Vec<[f64; 2]> = (0..ROUNDS).map(|_| round(depth)).collect();
        let [acquire, release] = [0, 1].map(|kind| {
            times.sort_by(|one, other| one[kind].total_cmp(&other[kind]));
            (times[ROUNDS / 2][kind], times[0][kind])
        });
        println!(
            "batches of {depth:>3}: acquire {:>6.1} ns, least {:>6.1}; release {:>6.1} ns, least {:>6.1}",
            acquire.0, acquire.1, release.0, release.1
        );
    }
}

/// Nanoseconds for an acquire and for a release.
fn round(depth: usize) -> [f64; 2] {
    let now = Instant::ORIGIN;
    let token = |value| Token::new(value).expect("not 0");
    let config = ServerConfig {
        secret: Secret::default(),
        limits: Limits::default(),
        tokens: TokenRange { next: token(1), last: token(u64::MAX) },
        hash_seed: [1, 2],
        tls: None,
    };
    let mut hub = Hub::new(now, config).expect("no limit is 0");
    let mut connection = hub.accept(now, [7; auth::NONCE_LEN]).expect("it has room");
    let mut out = Vec::new();
    serve(&mut hub, &mut connection, now, &[], &mut out);
    let response = auth::respond(&Secret::default(), &out[7..50]);
    serve(&mut hub, &mut connection, now, &[&response[..], b"\n"].concat(), &mut out);

    let (mut acquiring, mut releasing) = (Duration::ZERO, Duration::ZERO);
    for first in (0..KEYS).step_by(depth) {
        let mut acquires = Vec::new();
        for number in first..first + depth {
            acquires.extend_from_slice(&[b'A', 0, 30]);
            acquires.extend_from_slice(&(number as u64 + 1).to_be_bytes());
            acquires.extend_from_slice(format!("{number:016x}\n").as_bytes());
        }
        acquiring += serve(&mut hub, &mut connection, now, &acquires, &mut out);
        assert_eq!(out.len(), depth * LEN_OF_A, "all are granted");
        let releases: Vec<u8> =
            out.chunks(LEN_OF_A).flat_map(|reply| [&b"R"[..], &reply[1..9], &reply[17..]].concat()).collect();
        releasing += serve(&mut hub, &mut connection, now, &releases, &mut out);
        assert!(out.iter().step_by(LEN_OF_A - 8).all(|&op| op == b'R'), "all are released");
    }
    [acquiring, releasing].map(|time| time.as_nanos() as f64 / KEYS as f64)
}

/// What an adapter does for a connection that has sent `input`. How long that takes.
fn serve(
    hub: &mut Hub,
    connection: &mut Connection,
    now: Instant,
    input: &[u8],
    out: &mut Vec<u8>,
) -> Duration {
    out.clear();
    let start = Clock::now();
    hub.receive(now, connection, input);
    loop {
        let before = out.len();
        if !connection.poll_transmit(out) {
            break;
        }
        black_box(&out);
        connection.handle_transmitted(now, out.len() - before);
    }
    if connection.wants_attention() {
        hub.attend(now, connection);
    }
    start.elapsed()
}
