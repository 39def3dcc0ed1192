//! Peers that do not read.

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
    Case::new(
        "back-pressure/undelivered-grant-is-released",
        &["OP-7", "AD-6"],
        "A grant whose reply was never handed over is released with the end of its connection, and not with its lease.",
        undelivered_grant_is_released,
    )
    .slow(),
];

/// Releases of nothing with a long key: as many bytes come back as go out, about 1 MB.
const BATCH: usize = 7_600;
/// No transport holds so many of them.
const MOST: usize = 16;
const MEANING: &str = "7600 releases of nothing, reading no reply";

fn batch(key: &[u8]) -> Vec<u8> {
    wire::release(1, key).repeat(BATCH)
}

/// R01
fn slow_reader(bench: &mut Bench) -> Verdict {
    const PAUSE: Duration = Duration::from_secs(4);
    let start = Instant::now();
    let batch = batch(&bench.key_of_len(128));
    let mut peer = bench.peer()?;
    peer.sentinel(&bench.key("before"))?;
    // Until every buffer between the two is full, but not for so long that the server gives up.
    let mut batches = 0;
    let mut is_taken = true;
    while is_taken && batches < MOST && start.elapsed() < PAUSE {
        peer.post(&batch, MEANING);
        batches += 1;
        is_taken = peer.is_taken(PAUSE.saturating_sub(start.elapsed()))?;
    }
    bench.peer()?.sentinel(&bench.key("others-are-served"))?;
    for count in 0..batches * BATCH {
        match peer.hear("N for each release")? {
            Heard::Reply(Reply::NotHeld { .. }) => {}
            other => {
                return Err(Stop::failed(format!("{other}, after {count} replies"), "N for each release"));
            }
        }
    }
    if !is_taken && !peer.is_taken(bench.settings().timeout)? {
        return Err(Stop::failed("the server does not take what it has answered", "it takes all of it"));
    }
    peer.sentinel(&bench.key("after"))
}

/// A holder with its token, and two who wait behind it in this order, as owners 2 and 3.
fn held_with_two_waiters(bench: &mut Bench, key: &[u8]) -> Result<(Peer, u64, Peer, Peer), Stop> {
    let mut holder = bench.peer()?;
    let token = holder.take(250, 1, key)?;
    let mut first = bench.peer()?;
    first.acquire(255, 250, 2, key)?;
    first.sentinel(&bench.key("queued"))?;
    let mut second = bench.peer()?;
    second.acquire(255, 60, 3, key)?;
    second.sentinel(&bench.key("queued"))?;
    Ok((holder, token, first, second))
}

/// R01
fn no_reader(bench: &mut Bench) -> Verdict {
    let (key, batch) = (bench.key("k"), batch(&bench.key_of_len(128)));
    let (mut holder, token, mut deaf, mut next) = held_with_two_waiters(bench, &key)?;
    let start = Instant::now();
    // Nothing tells when the last byte was taken: some while after the flood began, and 10 s later is the close.
    let patience = WRITE_STALL_TIMEOUT + 2 * bench.settings().timeout;
    deaf.flood_until_cut(&batch, MEANING, patience)?;
    if start.elapsed() < WRITE_STALL_TIMEOUT {
        let got = format!("a close after {:.3} s", start.elapsed().as_secs_f64());
        return Err(Stop::failed(got, "a close 10 s after the last byte was taken"));
    }
    holder.give_back(token, &key)?;
    let token = next.granted(3, &key)?;
    next.give_back(token, &key)
}

fn undelivered_grant_is_released(bench: &mut Bench) -> Verdict {
    let (key, batch) = (bench.key("k"), batch(&bench.key_of_len(128)));
    let (mut holder, token, mut deaf, mut next) = held_with_two_waiters(bench, &key)?;
    // While nothing moves, the server owes replies, and owes the grant behind them.
    let mut batches = 0;
    loop {
        deaf.post(&batch, MEANING);
        batches += 1;
        if !deaf.is_taken(Duration::from_secs(3))? {
            break;
        }
        if batches == MOST {
            return Err(Stop::disturbed(
                "the transport takes whatever is sent",
                "buffers that are full at last",
            ));
        }
    }
    holder.give_back(token, &key)?;
    let right = "A for owner 3, 10 s after the connection of owner 2 has stalled";
    match next.hear_within(WRITE_STALL_TIMEOUT + 2 * bench.settings().timeout, right)? {
        Heard::Reply(Reply::Acquired { token, owner: 3, key: name }) if name == key => {
            next.give_back(token, &key)
        }
        other => Err(Stop::failed(other.to_string(), right)),
    }
}
