//! What the wire costs: `cargo bench -p ticketing-proto --bench wire`.
//!
//! A frame pair is a request that is decoded and its reply that is encoded. The goal is 40 ns for a pair, and no
//! allocation; `tests/wire_allocation.rs` shows the latter.

use std::hint::black_box;
use std::time::{Duration, Instant};

use ticketing_proto::id::Token;
use ticketing_proto::limits::READ_BUFFER_LEN;
use ticketing_proto::wire::{Acquire, Decoder, FromClient, FromServer, Release, Reply, Request};

const KEY_LENS: [usize; 3] = [1, 16, 128];
const PAIRS: usize = 200_000;
const ROUNDS: usize = 15;

/// Alternating acquires and releases with keys of one length.
fn requests(key_len: usize) -> Vec<u8> {
    let key = "k".repeat(key_len);
    let mut bytes = Vec::new();
    for number in 0..PAIRS {
        let (header, op): (Vec<u8>, u8) = if number % 2 == 0 {
            ([&[5, 30][..], &(number as u64 + 1).to_be_bytes()].concat(), b'A')
        } else {
            ((number as u64).to_be_bytes().to_vec(), b'R')
        };
        bytes.push(op);
        bytes.extend(header);
        bytes.extend(key.as_bytes());
        bytes.push(b'\n');
    }
    bytes
}

/// Decodes requests and encodes a reply to each, as a server without locks would.
fn serve(input: &[u8], piece_len: usize, out: &mut Vec<u8>) -> usize {
    let token = Token::new(7).expect("not 0");
    let mut decoder = Decoder::<FromClient>::new();
    let mut pairs = 0;
    for mut piece in input.chunks(piece_len) {
        out.clear();
        while let Ok(Some(frame)) = decoder.next(&mut piece) {
            let reply = match Request::parse(frame) {
                Ok(Request::Acquire(Acquire { owner, key, .. })) => Reply::Acquired { token, owner, key },
                Ok(Request::Release(Release { token, key })) => Reply::Released { token, key },
                Err(error) => Reply::Error(error.reason()),
            };
            reply.encode(out);
            pairs += 1;
        }
        black_box(&out);
    }
    pairs
}

/// The same from the client's side: decodes replies only.
fn read_replies(input: &[u8]) -> usize {
    let mut decoder = Decoder::<FromServer>::new();
    let mut replies = 0;
    for mut piece in input.chunks(READ_BUFFER_LEN) {
        while let Ok(Some(frame)) = decoder.next(&mut piece) {
            replies += usize::from(black_box(Reply::parse(frame)).is_ok());
        }
    }
    replies
}

/// The least and the middle time of several rounds, for one of `per_round` things.
fn measure(name: &str, per_round: usize, mut act: impl FnMut() -> usize) {
    let mut times: Vec<Duration> = (0..ROUNDS)
        .map(|_| {
            let start = Instant::now();
            assert_eq!(act(), per_round, "{name} does all of its work");
            start.elapsed()
        })
        .collect();
    times.sort_unstable();
    let nanos = |time: Duration| time.as_nanos() as f64 / per_round as f64;
    println!("{name:<44} {:>6.1} ns   least {:>6.1} ns", nanos(times[ROUNDS / 2]), nanos(times[0]));
}

fn main() {
    let mut out = Vec::with_capacity(16 * READ_BUFFER_LEN);
    for key_len in KEY_LENS {
        let input = requests(key_len);
        measure(&format!("frame pair, key of {key_len} bytes"), PAIRS, || {
            serve(&input, READ_BUFFER_LEN, &mut out)
        });
        let mut replies = Vec::new();
        serve(&input, usize::MAX, &mut replies);
        measure(&format!("reply read, key of {key_len} bytes"), PAIRS, || read_replies(&replies));
    }
    let input = requests(16);
    measure("frame pair, key of 16 bytes, 8-byte pieces", PAIRS, || serve(&input, 8, &mut out));
}
