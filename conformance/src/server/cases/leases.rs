//! When a hold ends by itself.

use std::thread::sleep;
use std::time::{Duration, Instant};

use super::super::bench::Bench;
use super::super::peer::{Heard, Peer};
use crate::case::{Case, Stop, Verdict};
use crate::transcript::readable;
use crate::wire::Reply;

/// How often a key is asked for that should become free.
const POLL: Duration = Duration::from_millis(100);

pub(super) const CASES: &[Case<Bench>] = &[
    Case::new(
        "leases/end-for-waiters",
        &["OP-6", "EX-2", "OP-1"],
        "A lease ends at its deadline and the first waiter is granted then, not earlier and not with some sweep.",
        end_for_waiters,
    )
    .slow(),
    Case::new(
        "leases/end-when-touched",
        &["OP-6", "EX-2"],
        "Whoever asks for a key after the lease's end finds it free, and before it held, whatever housekeeping has run.",
        end_when_touched,
    )
    .slow(),
    Case::new(
        "leases/run-from-the-grant",
        &["OP-1", "OP-6"],
        "A waiter's lease runs from the moment at which its turn comes, not from its request.",
        run_from_the_grant,
    )
    .slow(),
    Case::new(
        "leases/no-renewal",
        &["FI-3", "OP-6"],
        "The holder's owner in another request does not renew its lease.",
        no_renewal,
    )
    .slow(),
    Case::new(
        "leases/release-too-late",
        &["OP-5", "OP-6"],
        "A release after the lease's end gets `N`, and the next hold is not touched by it.",
        release_too_late,
    ),
    Case::new(
        "leases/earlier-deadline-is-forgotten",
        &["OP-6", "OP-5"],
        "The deadline of a hold that was released does not end a later hold of the key.",
        earlier_deadline_is_forgotten,
    )
    .slow(),
    Case::new(
        "leases/outlive-their-connection",
        &["OP-7"],
        "A grant that was delivered outlives its connection, until it is released or its lease ends.",
        outlive_their_connection,
    ),
    Case::new(
        "leases/not-ended-by-a-close",
        &["OP-6", "OP-7"],
        "When the holder's connection closes, a waiter is not granted before the lease's end, and then at once.",
        not_ended_by_a_close,
    )
    .slow(),
    Case::new(
        "leases/end-together-with-a-wait",
        &["OP-3", "OP-4", "OP-6"],
        "Where a lease and a wait end together the waiter gets one answer, and after a `T` the key is free.",
        end_together_with_a_wait,
    ),
];

/// How many holds end at spread moments: each phase of a sweep of 5 s is hit.
const PHASES: u64 = 4;

/// T13
fn end_for_waiters(bench: &mut Bench) -> Verdict {
    const LEASE: Duration = Duration::from_secs(2);
    let mut rows = Vec::new();
    for phase in 0..PHASES {
        let key = bench.key(&phase.to_string());
        let [mut holder, mut waiter] = [bench.peer()?, bench.peer()?];
        let start = Instant::now();
        holder.take(2, 1, &key)?;
        waiter.acquire(30, 30, 2, &key)?;
        rows.push((holder, waiter, key, start));
        sleep(Duration::from_millis(1250));
    }
    for (_holder, mut waiter, key, start) in rows {
        let token = waiter.granted(2, &key)?;
        bench.in_time("the waiter's grant", start, LEASE, waiter.heard_at())?;
        waiter.give_back(token, &key)?;
    }
    Ok(())
}

fn end_when_touched(bench: &mut Bench) -> Verdict {
    const LEASE: Duration = Duration::from_secs(2);
    let mut holder = bench.peer()?;
    let mut asker = bench.peer()?;
    let mut held = Vec::new();
    for phase in 0..PHASES {
        let key = bench.key(&phase.to_string());
        let start = Instant::now();
        holder.take(2, 1, &key)?;
        held.push((key, start));
        let until = Instant::now() + Duration::from_millis(1250);
        while Instant::now() < until {
            ask_all(bench, &mut asker, &mut held, LEASE)?;
            sleep(POLL);
        }
    }
    while !held.is_empty() {
        ask_all(bench, &mut asker, &mut held, LEASE)?;
        sleep(POLL);
    }
    Ok(())
}

/// Asks for each key; those that are free are given back and need no more.
fn ask_all(
    bench: &mut Bench,
    asker: &mut Peer,
    held: &mut Vec<(Vec<u8>, Instant)>,
    lease: Duration,
) -> Verdict {
    let mut kept = Vec::new();
    for (key, start) in held.drain(..) {
        if try_take(asker, &key)? {
            bench.in_time("the key's becoming free", start, lease, asker.heard_at())?;
        } else {
            bench.not_overdue(start, lease)?;
            kept.push((key, start));
        }
    }
    *held = kept;
    Ok(())
}

/// Asks without waiting, and gives back what it gets.
fn try_take(peer: &mut Peer, key: &[u8]) -> Result<bool, Stop> {
    peer.acquire(0, 1, 9, key)?;
    match peer.hear("A or T for owner 9")? {
        Heard::Reply(Reply::Acquired { token, owner: 9, key: name }) if name == key => {
            let at = peer.heard_at();
            peer.give_back(token, key)?;
            peer.set_heard_at(at);
            Ok(true)
        }
        Heard::Reply(Reply::TimedOut { owner: 9, key: name }) if name == key => Ok(false),
        other => Err(Stop::failed(other.to_string(), "A or T for owner 9")),
    }
}

fn run_from_the_grant(bench: &mut Bench) -> Verdict {
    const LEASE: Duration = Duration::from_secs(4);
    let key = bench.key("k");
    let [mut first, mut second, mut third] = [bench.peer()?, bench.peer()?, bench.peer()?];
    let token = first.take(60, 1, &key)?;
    second.acquire(60, 4, 2, &key)?;
    second.sentinel(&bench.key("queued"))?;
    third.acquire(60, 60, 3, &key)?;
    third.sentinel(&bench.key("queued"))?;
    sleep(Duration::from_secs(3));
    let released = Instant::now();
    first.give_back(token, &key)?;
    second.granted(2, &key)?;
    let token = third.granted(3, &key)?;
    bench.in_time("the next waiter's grant", released, LEASE, third.heard_at())?;
    third.give_back(token, &key)
}

fn no_renewal(bench: &mut Bench) -> Verdict {
    const LEASE: Duration = Duration::from_secs(6);
    let key = bench.key("k");
    let [mut holder, mut waiter] = [bench.peer()?, bench.peer()?];
    let owner = bench.owner();
    let start = Instant::now();
    holder.take(6, owner, &key)?;
    sleep(Duration::from_secs(4));
    bench.not_later_than(start, Duration::from_millis(5500))?;
    holder.acquire(0, 6, owner, &key)?;
    holder.expect(&Reply::TimedOut { owner, key: key.clone() })?;
    waiter.acquire(60, 60, owner, &key)?;
    let token = waiter.granted(owner, &key)?;
    bench.in_time("the waiter's grant", start, LEASE, waiter.heard_at())?;
    waiter.give_back(token, &key)
}

/// L06, L19
fn release_too_late(bench: &mut Bench) -> Verdict {
    let key = bench.key("k");
    let [mut holder, mut next] = [bench.peer()?, bench.peer()?];
    let old = holder.take(1, 1, &key)?;
    next.acquire(30, 60, 1, &key)?;
    let new = next.granted(1, &key)?;
    holder.release(old, &key)?;
    holder.expect(&Reply::NotHeld { token: old, key: key.clone() })?;
    bench.expect_held(&key, "a late release does not end the next hold")?;
    next.give_back(new, &key)?;
    // Likewise where nobody waited, and the key was not touched since.
    let old = holder.take(1, 1, &key)?;
    sleep(Duration::from_millis(1200));
    holder.release(old, &key)?;
    holder.expect(&Reply::NotHeld { token: old, key })
}

/// T14
fn earlier_deadline_is_forgotten(bench: &mut Bench) -> Verdict {
    let key = bench.key("k");
    let mut holder = bench.peer()?;
    let token = holder.take(3, 1, &key)?;
    holder.give_back(token, &key)?;
    let token = holder.take(60, 1, &key)?;
    // Past the first deadline, and past a sweep of every 5 s.
    sleep(Duration::from_secs(9));
    bench.expect_held(&key, "only the lease that runs ends the hold")?;
    holder.give_back(token, &key)
}

fn outlive_their_connection(bench: &mut Bench) -> Verdict {
    let key = bench.key("k");
    let mut holder = bench.peer()?;
    let token = holder.take(60, 1, &key)?;
    holder.end_writing()?;
    holder.expect_closed()?;
    bench.expect_held(&key, "a delivered grant outlives its connection")?;
    bench.peer()?.give_back(token, &key)
}

fn not_ended_by_a_close(bench: &mut Bench) -> Verdict {
    const LEASE: Duration = Duration::from_secs(5);
    let key = bench.key("k");
    let [mut holder, mut waiter] = [bench.peer()?, bench.peer()?];
    let start = Instant::now();
    holder.take(5, 1, &key)?;
    waiter.acquire(60, 60, 2, &key)?;
    waiter.sentinel(&bench.key("queued"))?;
    drop(holder);
    let token = waiter.granted(2, &key)?;
    bench.in_time("the waiter's grant", start, LEASE, waiter.heard_at())?;
    waiter.give_back(token, &key)
}

/// T12
fn end_together_with_a_wait(bench: &mut Bench) -> Verdict {
    const ROUNDS: usize = 20;
    let [mut holder, mut waiter] = [bench.peer()?, bench.peer()?];
    let keys: Vec<_> = (0..ROUNDS).map(|round| bench.key(&round.to_string())).collect();
    for key in &keys {
        holder.take(2, 1, key)?;
        waiter.acquire(2, 60, 2, key)?;
    }
    let mut answers: Vec<(Vec<u8>, Option<u64>)> = Vec::new();
    for _ in &keys {
        let (key, token) = match waiter.hear("A or T for each key")? {
            Heard::Reply(Reply::Acquired { token, owner: 2, key }) => (key, Some(token)),
            Heard::Reply(Reply::TimedOut { owner: 2, key }) => (key, None),
            other => return Err(Stop::failed(other.to_string(), "A or T for each key")),
        };
        if !keys.contains(&key) || answers.iter().any(|(known, _)| *known == key) {
            return Err(Stop::failed(
                format!("a second answer for {}", readable(&key)),
                "one A or one T for each key",
            ));
        }
        answers.push((key, token));
    }
    waiter.sentinel(&bench.key("nothing-more"))?;
    for (key, token) in &answers {
        match token {
            Some(token) => waiter.give_back(*token, key)?,
            None => bench.expect_free(key, "after `T` the key is free")?,
        }
    }
    Ok(())
}
