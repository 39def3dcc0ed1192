//! Who is served when, and who leaves the queue.

use std::thread::sleep;
use std::time::{Duration, Instant};

use super::super::bench::Bench;
use super::super::peer::{Heard, Peer};
use crate::case::{Case, Stop, Verdict};
use crate::wire::{self, Reply};

pub(super) const CASES: &[Case<Bench>] = &[
    Case::new(
        "queue/first-come-first-served",
        &["OP-9", "OP-3"],
        "A key's queue is served in order of arrival.",
        fifo,
    ),
    Case::new(
        "queue/one-connection-in-order",
        &["OP-8", "OP-9"],
        "Several waiters of one connection are served in order of arrival, too.",
        one_connection_in_order,
    ),
    Case::new(
        "queue/no-overtaking",
        &["OP-9", "OP-8"],
        "A holder that releases and asks again in one write goes to the end of the queue.",
        no_overtaking,
    ),
    Case::new(
        "queue/no-overtaking-at-expiry",
        &["OP-9", "OP-6"],
        "A new acquire does not overtake a waiter, also not at the instant of an expiry.",
        no_overtaking_at_expiry,
    ),
    Case::new(
        "queue/half-closed-waiter-leaves",
        &["OP-7", "TR-10"],
        "A waiter whose stream ends leaves its queue at once and gets no reply; then the server closes.",
        half_closed_waiter_leaves,
    ),
    Case::new(
        "queue/closed-waiter-leaves",
        &["OP-7", "TR-10"],
        "A waiter whose connection is closed leaves its queue.",
        closed_waiter_leaves,
    ),
    Case::new(
        "queue/reset-waiter-leaves",
        &["OP-7"],
        "A waiter whose connection is reset leaves its queue, and no grant is lost on it.",
        reset_waiter_leaves,
    ),
    Case::new(
        "queue/middle-leaves",
        &["OP-7", "OP-9"],
        "When waiters in the middle leave, the others keep their order and nobody is granted early.",
        middle_leaves,
    ),
    Case::new(
        "queue/timed-out-waiter-leaves",
        &["OP-3", "OP-4", "OP-9"],
        "When the first waiter times out, the second one is served next.",
        timed_out_waiter_leaves,
    ),
    Case::new(
        "queue/each-wait-by-itself",
        &["OP-3", "OP-7"],
        "Each waiter of a queue gets `T` at its own time, whoever else leaves.",
        each_wait_by_itself,
    )
    .slow(),
    Case::new(
        "queue/long-queue",
        &["OP-3", "OP-9"],
        "A hundred waiters are served one after the other.",
        long_queue,
    ),
];

/// A connection whose acquire stands in the queue.
fn waiter(bench: &mut Bench, wait: u8, owner: u64, key: &[u8]) -> Result<Peer, Stop> {
    let mut peer = bench.peer()?;
    enqueue(bench, &mut peer, wait, owner, key)?;
    Ok(peer)
}

/// Both in one write, so that nothing can come between them, be the wait ever so short.
fn enqueue(bench: &Bench, peer: &mut Peer, wait: u8, owner: u64, key: &[u8]) -> Verdict {
    let sentinel = bench.key("queued");
    peer.send(&[wire::acquire(wait, 60, owner, key), wire::release(1, &sentinel)].concat())?;
    peer.expect(&Reply::NotHeld { token: 1, key: sentinel })
}

/// Each in turn is granted, and releases.
fn expect_turns(peers: &mut [Peer], owner: impl Fn(usize) -> u64, key: &[u8]) -> Verdict {
    for (index, peer) in peers.iter_mut().enumerate() {
        let token = peer.granted(owner(index), key)?;
        peer.give_back(token, key)?;
    }
    Ok(())
}

fn fifo(bench: &mut Bench) -> Verdict {
    let key = bench.key("k");
    let mut holder = bench.peer()?;
    let token = holder.take(60, 1, &key)?;
    let mut waiters = Vec::new();
    for owner in 2..7 {
        waiters.push(waiter(bench, 60, owner, &key)?);
    }
    holder.give_back(token, &key)?;
    expect_turns(&mut waiters, |index| index as u64 + 2, &key)
}

fn one_connection_in_order(bench: &mut Bench) -> Verdict {
    let key = bench.key("k");
    let [mut holder, mut peer] = [bench.peer()?, bench.peer()?];
    let token = holder.take(60, 1, &key)?;
    let frames: Vec<u8> = (2..7).flat_map(|owner| wire::acquire(60, 60, owner, &key)).collect();
    peer.send(&frames)?;
    peer.sentinel(&bench.key("queued"))?;
    holder.give_back(token, &key)?;
    for owner in 2..7 {
        let token = peer.granted(owner, &key)?;
        peer.give_back(token, &key)?;
    }
    Ok(())
}

/// L18
fn no_overtaking(bench: &mut Bench) -> Verdict {
    let key = bench.key("k");
    let mut first = bench.peer()?;
    let mut token = first.take(60, 1, &key)?;
    let mut second = waiter(bench, 60, 2, &key)?;
    for _ in 0..3 {
        first.send(&[wire::release(token, &key), wire::acquire(60, 60, 1, &key)].concat())?;
        first.expect(&Reply::Released { token, key: key.clone() })?;
        let other = second.granted(2, &key)?;
        second.send(&[wire::release(other, &key), wire::acquire(60, 60, 2, &key)].concat())?;
        second.expect(&Reply::Released { token: other, key: key.clone() })?;
        token = first.granted(1, &key)?;
    }
    first.give_back(token, &key)?;
    let token = second.granted(2, &key)?;
    second.give_back(token, &key)
}

fn no_overtaking_at_expiry(bench: &mut Bench) -> Verdict {
    let key = bench.key("k");
    let [mut holder, mut queued, mut intruder] = [bench.peer()?, bench.peer()?, bench.peer()?];
    let start = Instant::now();
    holder.take(2, 1, &key)?;
    let queueing = enqueue(bench, &mut queued, 60, 2, &key);
    bench.not_later_than(start, Duration::from_millis(1900))?;
    queueing?;
    // From before the expiry until after it, somebody asks for the key all the time.
    while start.elapsed() < Duration::from_millis(2500) {
        intruder.acquire(0, 60, 3, &key)?;
        match intruder.hear("T")? {
            Heard::Reply(Reply::TimedOut { owner: 3, .. }) => {}
            other => return Err(Stop::failed(other.to_string(), "T: somebody waits for the key")),
        }
    }
    let token = queued.granted(2, &key)?;
    queued.give_back(token, &key)
}

/// F20
fn half_closed_waiter_leaves(bench: &mut Bench) -> Verdict {
    let key = bench.key("k");
    let mut holder = bench.peer()?;
    let token = holder.take(60, 1, &key)?;
    let mut leaver = waiter(bench, 60, 2, &key)?;
    leaver.end_writing()?;
    leaver.expect_closed()?;
    // Likewise where the end comes right behind the acquire.
    let mut leaver = bench.peer()?;
    leaver.acquire(60, 60, 3, &key)?;
    leaver.end_writing()?;
    leaver.expect_closed()?;
    let mut next = waiter(bench, 60, 4, &key)?;
    holder.give_back(token, &key)?;
    let token = next.granted(4, &key)?;
    next.give_back(token, &key)
}

/// L01
fn closed_waiter_leaves(bench: &mut Bench) -> Verdict {
    leavers_are_passed_over(bench, |leaver| {
        drop(leaver);
        Ok(())
    })
}

/// L01
fn reset_waiter_leaves(bench: &mut Bench) -> Verdict {
    leavers_are_passed_over(bench, Peer::reset)
}

/// Nothing tells when the server has seen the end of a connection, and what it granted before that is delivered. So
/// there is more than one try, each with more time between the end and the release.
fn leavers_are_passed_over(bench: &mut Bench, leave: fn(Peer) -> Verdict) -> Verdict {
    const PAUSES: [u64; 3] = [200, 1000, 2000];
    let mut last = Ok(());
    for pause in PAUSES {
        let key = bench.key(&pause.to_string());
        let mut holder = bench.peer()?;
        let token = holder.take(60, 1, &key)?;
        let leavers = [waiter(bench, 60, 2, &key)?, waiter(bench, 60, 3, &key)?];
        let mut next = waiter(bench, 60, 4, &key)?;
        leavers.into_iter().try_for_each(leave)?;
        sleep(Duration::from_millis(pause));
        holder.give_back(token, &key)?;
        let right = "A for owner 4, whom nobody is in front of any more";
        match next.hear_within(bench.settings().tolerance, right) {
            Ok(Heard::Reply(Reply::Acquired { token, owner: 4, .. })) => return next.give_back(token, &key),
            Ok(other) => return Err(Stop::failed(other.to_string(), right)),
            Err(stop) => last = Err(stop),
        }
    }
    last
}

/// L10
fn middle_leaves(bench: &mut Bench) -> Verdict {
    let key = bench.key("k");
    let mut holder = bench.peer()?;
    let token = holder.take(60, 1, &key)?;
    let mut waiters = Vec::new();
    for owner in 2..7 {
        waiters.push(waiter(bench, 60, owner, &key)?);
    }
    for index in [1, 1] {
        let mut leaver = waiters.remove(index);
        leaver.end_writing()?;
        leaver.expect_closed()?;
    }
    for waiter in &mut waiters {
        waiter.sentinel(&bench.key("not-granted-yet"))?;
    }
    holder.give_back(token, &key)?;
    expect_turns(&mut waiters, |index| [2, 5, 6][index], &key)
}

fn timed_out_waiter_leaves(bench: &mut Bench) -> Verdict {
    let key = bench.key("k");
    let mut holder = bench.peer()?;
    let token = holder.take(60, 1, &key)?;
    let mut short = waiter(bench, 1, 2, &key)?;
    let mut long = waiter(bench, 60, 3, &key)?;
    short.expect(&Reply::TimedOut { owner: 2, key: key.clone() })?;
    long.sentinel(&bench.key("not-granted-yet"))?;
    holder.give_back(token, &key)?;
    let token = long.granted(3, &key)?;
    long.give_back(token, &key)?;
    short.sentinel(&bench.key("nothing-more"))
}

/// T07
fn each_wait_by_itself(bench: &mut Bench) -> Verdict {
    let key = bench.key("k");
    let mut holder = bench.peer()?;
    holder.take(60, 1, &key)?;
    let mut waiters = Vec::new();
    for wait in [6, 1, 4, 2, 8] {
        let start = Instant::now();
        let staying = waiter(bench, wait, 2, &key)?;
        let leaving = waiter(bench, wait, 3, &key)?;
        waiters.push((staying, wait, start));
        drop(leaving);
    }
    waiters.sort_by_key(|&(_, wait, _)| wait);
    for (mut waiter, wait, start) in waiters {
        waiter.expect(&Reply::TimedOut { owner: 2, key: key.clone() })?;
        bench.in_time("`T`", start, Duration::from_secs(wait.into()), waiter.heard_at())?;
    }
    Ok(())
}

/// L14
fn long_queue(bench: &mut Bench) -> Verdict {
    const CONNECTIONS: usize = 10;
    const WAITERS: usize = 100;
    let key = bench.key("k");
    let mut holder = bench.peer()?;
    let token = holder.take(250, 1, &key)?;
    let mut peers = Vec::new();
    for _ in 0..CONNECTIONS {
        peers.push(bench.peer()?);
    }
    for index in 0..WAITERS {
        let peer = &mut peers[index % CONNECTIONS];
        peer.acquire(255, 60, index as u64 + 100, &key)?;
        peer.sentinel(&bench.key("queued"))?;
    }
    holder.give_back(token, &key)?;
    for index in 0..WAITERS {
        let peer = &mut peers[index % CONNECTIONS];
        let token = peer.granted(index as u64 + 100, &key)?;
        peer.give_back(token, &key)?;
    }
    Ok(())
}
