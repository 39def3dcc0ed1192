//! Acquires and releases.

use std::time::{Duration, Instant};

use super::super::bench::Bench;
use super::super::peer::Heard;
use crate::case::{Case, Stop, Verdict};
use crate::wire::{self, Reply};

pub(super) const CASES: &[Case<Bench>] = &[
    Case::new("locks/free-key", &["OP-1"], "An acquire of a free key makes a hold and gets `A`.", free_key),
    Case::new(
        "locks/held-key-wait-0",
        &["OP-2", "OP-10"],
        "An acquire of a held key with wait 0 gets `T` at once, and is not queued.",
        held_key_wait_0,
    ),
    Case::new(
        "locks/release",
        &["OP-5"],
        "A release with the current token ends the hold and gets `R`; the same once more gets `N`.",
        release,
    ),
    Case::new(
        "locks/grant-on-release",
        &["OP-3", "OP-5"],
        "The first waiter is granted when the holder releases, with a token of its own.",
        grant_on_release,
    ),
    Case::new("locks/wait-runs-out", &["OP-3"], "A waiter gets `T` when its wait is over.", wait_runs_out),
    Case::new(
        "locks/nothing-after-t",
        &["OP-4"],
        "An acquire that got `T` is never granted.",
        nothing_after_t,
    ),
    Case::new(
        "locks/wrong-releases",
        &["OP-5"],
        "A release of an unknown key, with token 0, or with another token than the key's gets `N` and changes nothing.",
        wrong_releases,
    ),
    Case::new(
        "locks/release-elsewhere",
        &["OP-5"],
        "Any authenticated connection may release with the token.",
        release_elsewhere,
    ),
    Case::new(
        "locks/release-twice-in-one-write",
        &["OP-5", "OP-8"],
        "Of two equal releases one gets `R`, one `N`, and the next holder keeps the lock.",
        release_twice_in_one_write,
    ),
    Case::new(
        "locks/in-order",
        &["OP-8"],
        "Requests of one connection take effect in the order in which they were received.",
        in_order,
    ),
    Case::new(
        "locks/waiting-blocks-nobody",
        &["TR-6"],
        "While an acquire waits, later requests of its connection are answered.",
        waiting_blocks_nobody,
    ),
    Case::new(
        "locks/two-owners-two-answers",
        &["FI-3", "TR-6", "OP-8"],
        "Each of several acquires in flight gets an answer with its own owner and key.",
        two_owners_two_answers,
    ),
];

fn free_key(bench: &mut Bench) -> Verdict {
    let mut peer = bench.peer()?;
    for (wait, name) in [(0, "now"), (30, "with-a-wait")] {
        let (key, owner) = (bench.key(name), bench.owner());
        peer.acquire(wait, 30, owner, &key)?;
        let token = peer.granted(owner, &key)?;
        bench.expect_held(&key, "a grant makes a hold")?;
        peer.give_back(token, &key)?;
    }
    Ok(())
}

fn held_key_wait_0(bench: &mut Bench) -> Verdict {
    let [mut holder, mut peer] = [bench.peer()?, bench.peer()?];
    let (key, owner) = (bench.key("k"), bench.owner());
    let token = holder.take(60, 1, &key)?;
    peer.acquire(0, 60, owner, &key)?;
    // Replies may come in any order, but once the second one is there, the acquire has taken effect.
    let timed_out = Reply::TimedOut { owner, key: key.clone() };
    let sentinel = Reply::NotHeld { token: 1, key: bench.key("sentinel") };
    peer.release(1, &bench.key("sentinel"))?;
    let mut is_answered = false;
    loop {
        match peer.hear("T, and N for the release behind it")? {
            Heard::Reply(reply) if reply == sentinel => break,
            Heard::Reply(reply) if reply == timed_out && !is_answered => is_answered = true,
            other => return Err(Stop::failed(other.to_string(), "T, and N for the release behind it")),
        }
    }
    holder.give_back(token, &key)?;
    if !is_answered {
        peer.expect(&timed_out)?;
    }
    bench.expect_free(&key, "an acquire with wait 0 is not queued")
}

fn release(bench: &mut Bench) -> Verdict {
    let mut peer = bench.peer()?;
    let key = bench.key("k");
    let token = peer.take(60, 1, &key)?;
    peer.give_back(token, &key)?;
    bench.expect_free(&key, "a release ends the hold")?;
    peer.release(token, &key)?;
    peer.expect(&Reply::NotHeld { token, key })
}

fn grant_on_release(bench: &mut Bench) -> Verdict {
    let [mut holder, mut waiter] = [bench.peer()?, bench.peer()?];
    let key = bench.key("k");
    let first = holder.take(60, 1, &key)?;
    waiter.acquire(60, 60, 2, &key)?;
    waiter.sentinel(&bench.key("queued"))?;
    holder.give_back(first, &key)?;
    let second = waiter.granted(2, &key)?;
    if second <= first {
        return Err(Stop::failed(format!("token {second} after {first}"), "a greater token"));
    }
    bench.expect_held(&key, "the waiter holds the key")?;
    waiter.give_back(second, &key)
}

fn wait_runs_out(bench: &mut Bench) -> Verdict {
    let [mut holder, mut waiter] = [bench.peer()?, bench.peer()?];
    let (key, owner) = (bench.key("k"), bench.owner());
    holder.take(60, 1, &key)?;
    let start = Instant::now();
    waiter.acquire(2, 60, owner, &key)?;
    waiter.expect(&Reply::TimedOut { owner, key })?;
    bench.in_time("`T`", start, Duration::from_secs(2), waiter.heard_at())
}

/// L13
fn nothing_after_t(bench: &mut Bench) -> Verdict {
    let [mut holder, mut waiter] = [bench.peer()?, bench.peer()?];
    let (key, owner) = (bench.key("k"), bench.owner());
    let token = holder.take(60, 1, &key)?;
    waiter.acquire(1, 60, owner, &key)?;
    waiter.expect(&Reply::TimedOut { owner, key: key.clone() })?;
    holder.give_back(token, &key)?;
    waiter.sentinel(&bench.key("nothing-more"))?;
    bench.expect_free(&key, "the key is not granted to a request that has timed out")
}

/// L08
fn wrong_releases(bench: &mut Bench) -> Verdict {
    let mut peer = bench.peer()?;
    let [a, b, unknown] = [bench.key("a"), bench.key("b"), bench.key("unknown")];
    let token_a = peer.take(60, 1, &a)?;
    let token_b = peer.take(60, 2, &b)?;
    for (token, key) in [
        (token_a, &b),
        (token_b, &a),
        (0, &a),
        (u64::MAX, &a),
        (token_a + 1_000_000, &a),
        (token_a, &unknown),
        (0, &unknown),
    ] {
        peer.release(token, key)?;
        peer.expect(&Reply::NotHeld { token, key: key.clone() })?;
    }
    for (token, key) in [(token_a, &a), (token_b, &b)] {
        bench.expect_held(key, "a release with another token changes nothing")?;
        peer.give_back(token, key)?;
    }
    Ok(())
}

fn release_elsewhere(bench: &mut Bench) -> Verdict {
    let [mut holder, mut other] = [bench.peer()?, bench.peer()?];
    let key = bench.key("k");
    let token = holder.take(60, 1, &key)?;
    other.give_back(token, &key)?;
    bench.expect_free(&key, "the token is the only authority")
}

/// L05
fn release_twice_in_one_write(bench: &mut Bench) -> Verdict {
    let [mut holder, mut waiter] = [bench.peer()?, bench.peer()?];
    let key = bench.key("k");
    let token = holder.take(60, 1, &key)?;
    waiter.acquire(60, 60, 2, &key)?;
    waiter.sentinel(&bench.key("queued"))?;
    holder.send(&wire::release(token, &key).repeat(2))?;
    super::expect_in_any_order(
        &mut holder,
        [Reply::Released { token, key: key.clone() }, Reply::NotHeld { token, key: key.clone() }],
    )?;
    let token = waiter.granted(2, &key)?;
    bench.expect_held(&key, "the second release does not end the next hold")?;
    waiter.give_back(token, &key)
}

fn in_order(bench: &mut Bench) -> Verdict {
    let mut peer = bench.peer()?;
    let key = bench.key("k");
    let old = peer.take(60, 1, &key)?;
    // Whatever the order of the answers: only in the order of the requests each of them is right.
    let frames = [
        wire::acquire(0, 60, 2, &key),
        wire::release(old, &key),
        wire::acquire(0, 60, 3, &key),
        wire::acquire(0, 60, 4, &key),
    ];
    peer.send(&frames.concat())?;
    let mut token = None;
    let mut others = Vec::new();
    for _ in 0..4 {
        match peer.hear("T for owner 2, R, A for owner 3, T for owner 4")? {
            Heard::Reply(Reply::Acquired { token: new, owner: 3, key: name }) if name == key => {
                token = Some(new);
            }
            Heard::Reply(reply) => others.push(reply),
            over => return Err(Stop::failed(over.to_string(), "four answers")),
        }
    }
    for right in [
        Reply::TimedOut { owner: 2, key: key.clone() },
        Reply::Released { token: old, key: key.clone() },
        Reply::TimedOut { owner: 4, key: key.clone() },
    ] {
        if !others.contains(&right) {
            return Err(Stop::failed(
                format!("no {right}"),
                "T for owner 2, R, A for owner 3, T for owner 4",
            ));
        }
    }
    match token {
        Some(token) => peer.give_back(token, &key),
        None => Err(Stop::failed("no A for owner 3", "T for owner 2, R, A for owner 3, T for owner 4")),
    }
}

fn waiting_blocks_nobody(bench: &mut Bench) -> Verdict {
    let [mut holder, mut peer] = [bench.peer()?, bench.peer()?];
    let [contended, free] = [bench.key("contended"), bench.key("free")];
    let token = holder.take(60, 1, &contended)?;
    peer.send(&[wire::acquire(60, 60, 2, &contended), wire::acquire(60, 60, 3, &free)].concat())?;
    let other = peer.granted(3, &free)?;
    peer.give_back(other, &free)?;
    holder.give_back(token, &contended)?;
    let token = peer.granted(2, &contended)?;
    peer.give_back(token, &contended)
}

fn two_owners_two_answers(bench: &mut Bench) -> Verdict {
    let mut peer = bench.peer()?;
    let owners: Vec<u64> = (0..8).map(|_| bench.owner()).collect();
    let key = |owner: &u64| bench.key(&format!("{owner:x}"));
    let frames: Vec<u8> = owners.iter().flat_map(|owner| wire::acquire(0, 30, *owner, key(owner))).collect();
    peer.send(&frames)?;
    let mut tokens = Vec::new();
    for _ in &owners {
        match peer.hear("one A for each request")? {
            Heard::Reply(Reply::Acquired { token, owner, key: name })
                if owners.contains(&owner)
                    && name == key(&owner)
                    && !tokens.iter().any(|&(other, known)| other == owner || known == token) =>
            {
                tokens.push((owner, token));
            }
            other => {
                return Err(Stop::failed(
                    other.to_string(),
                    "one A for each request, with its own key and token",
                ));
            }
        }
    }
    tokens.iter().try_for_each(|(owner, token)| peer.give_back(*token, &key(owner)))
}
