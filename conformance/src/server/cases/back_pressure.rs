//! Peers that do not read.

use std::thread::sleep;
use std::time::{Duration, Instant};

use super::super::bench::Bench;
use super::super::peer::{Heard, Peer};
use crate::case::{Case, Stop, Verdict};
use crate::wire::{self, Reply};

/// A connection that owes replies and has not taken a byte of them for so long is closed (`AD-6`).
const WRITE_STALL_TIMEOUT: Duration = Duration::from_secs(10);

pub(super) const CASES: &[Case<Bench>] = &[
    Case::new(
        "back-pressure/slow-reader",
        &["AD-5", "TR-6"],
        "A peer that sends more than it reads is slowed down, not cut off: it gets every reply, in the end.",
        slow_reader,
    )
    .slow(),
    Case::new(
        "back-pressure/no-reader",
        &["AD-6"],
        "A connection whose replies are not read for 10 s is closed, and its waiters leave their queues.",
        no_reader,
    )
    .slow(),
];

/// Requests whose replies fill every buffer between the server and a peer that does not read.
const FLOOD: u64 = 80_000;

/// Posts releases of nothing with long keys: as many bytes come back as go out, 11 MB.
fn flood(peer: &mut Peer, key: &[u8]) {
    let frames: Vec<u8> = (1..=FLOOD).flat_map(|token| wire::release(token, key)).collect();
    peer.post(&frames, "80 000 releases of nothing, reading no reply");
}

/// R01
fn slow_reader(bench: &mut Bench) -> Verdict {
    let key = bench.key_of_len(128);
    let mut peer = bench.peer()?;
    peer.sentinel(&bench.key("before"))?;
    flood(&mut peer, &key);
    sleep(Duration::from_secs(4));
    bench.peer()?.sentinel(&bench.key("others-are-served"))?;
    let mut count = 0;
    while count < FLOOD {
        match peer.hear("N for each release")? {
            Heard::Reply(Reply::NotHeld { .. }) => count += 1,
            other => {
                return Err(Stop::failed(format!("{other}, after {count} replies"), "N for each release"));
            }
        }
    }
    peer.flood_is_taken()?;
    peer.sentinel(&bench.key("after"))
}

/// R01
fn no_reader(bench: &mut Bench) -> Verdict {
    let (key, long) = (bench.key("k"), bench.key_of_len(128));
    let mut holder = bench.peer()?;
    let token = holder.take(250, 1, &key)?;
    let mut deaf = bench.peer()?;
    deaf.acquire(255, 250, 2, &key)?;
    deaf.sentinel(&bench.key("queued"))?;
    let mut next = bench.peer()?;
    next.acquire(255, 60, 3, &key)?;
    next.sentinel(&bench.key("queued"))?;
    let start = Instant::now();
    flood(&mut deaf, &long);
    // Nothing tells when the last byte was taken: some while after the flood began, and 10 s later is the close.
    deaf.flood_is_cut(WRITE_STALL_TIMEOUT + bench.settings().tolerance * 4)?;
    if start.elapsed() < WRITE_STALL_TIMEOUT {
        let got = format!("a close after {:.3} s", start.elapsed().as_secs_f64());
        return Err(Stop::failed(got, "a close 10 s after the last byte was taken"));
    }
    holder.give_back(token, &key)?;
    let token = next.granted(3, &key)?;
    next.give_back(token, &key)
}
