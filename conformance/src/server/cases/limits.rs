//! Gates and limits of a server whose limits are known. These cases have the server to themselves.

use std::thread::sleep;
use std::time::{Duration, Instant};

use super::super::bench::Bench;
use super::super::peer::{Heard, Peer};
use crate::case::{Case, Stop, Verdict};
use crate::wire::{self, Reply};

pub(super) const CASES: &[Case<Bench>] = &[
    Case::new(
        "limits/keys",
        &["AD-1", "AD-2", "OP-10"],
        "The gate for new keys closes at 90 % of the keys and opens below 75 %. While it is closed a new key gets `B`, a \
         held key `T` or a place in its queue, a release `R`.",
        keys,
    )
    .alone(),
    Case::new(
        "limits/expired-keys-do-not-count",
        &["AD-1", "EX-2"],
        "A hold past its deadline does not count, swept or not: the gate opens by itself.",
        expired_keys_do_not_count,
    )
    .alone(),
    Case::new(
        "limits/waiters",
        &["AD-1", "OP-10"],
        "The gate for waiters closes at 90 % and opens below 75 %. While it is closed, who would wait gets `B`, and a free \
         key is granted.",
        waiters,
    )
    .alone(),
    Case::new(
        "limits/in-flight",
        &["AD-1", "AD-2", "OP-10"],
        "The gate for all acquires closes at 90 % of those in flight and opens below 75 %. While it is closed every \
         acquire gets `B`, also for a held key with wait 0; releases are answered.",
        in_flight,
    )
    .alone(),
    Case::new(
        "limits/waiters-of-one-key",
        &["AD-3"],
        "An acquire that finds its key's queue full gets `B`; whoever leaves makes room for exactly one.",
        waiters_of_one_key,
    )
    .alone(),
    Case::new(
        "limits/in-flight-on-one-connection",
        &["AD-4"],
        "An acquire beyond the limit in flight on its connection gets `B`, and others are not concerned.",
        in_flight_on_one_connection,
    )
    .alone(),
    Case::new(
        "limits/connections",
        &["AD-4"],
        "A connection beyond the limit is closed right after accept; when one has gone, another is let in.",
        connections,
    )
    .alone(),
    Case::new(
        "limits/unauthenticated",
        &["AU-8", "TR-7"],
        "An unauthenticated connection beyond their limit is closed right after accept; authentication makes room.",
        unauthenticated,
    )
    .alone(),
];

fn known(limit: Option<u32>, name: &str) -> Result<u32, Stop> {
    limit.ok_or_else(|| Stop::not_run(format!("needs --limits {name}=N")))
}

/// The least usage at which a gate is closed.
const fn closing(limit: u32) -> u32 {
    (limit * 9).div_ceil(10)
}

/// The greatest usage at which a gate that was closed is open again.
const fn opening(limit: u32) -> u32 {
    (limit * 3).div_ceil(4) - 1
}

fn busy(owner: u64, key: &[u8]) -> Reply {
    Reply::Busy { owner, key: key.to_vec() }
}

/// An acquire that gets `B`. A grant is given back: what comes next must find room.
fn expect_busy(peer: &mut Peer, wait: u8, owner: u64, key: &[u8]) -> Verdict {
    peer.acquire(wait, 20, owner, key)?;
    let right = busy(owner, key);
    match peer.hear(&right.to_string())? {
        Heard::Reply(reply) if reply == right => Ok(()),
        Heard::Reply(granted @ Reply::Acquired { token, .. }) => {
            peer.give_back(token, key)?;
            Err(Stop::failed(granted.to_string(), right.to_string()))
        }
        other => Err(Stop::failed(other.to_string(), right.to_string())),
    }
}

/// An acquire that is granted as soon as there is room: who has a reply may know of it a moment before the server has
/// noted that it is handed over.
fn take_soon(bench: &Bench, peer: &mut Peer, owner: u64, key: &[u8]) -> Result<u64, Stop> {
    const RIGHT: &str = "A: there is room again";
    let start = Instant::now();
    loop {
        peer.acquire(0, 20, owner, key)?;
        match peer.hear(RIGHT)? {
            Heard::Reply(Reply::Acquired { token, owner: echoed, key: name })
                if echoed == owner && name == key =>
            {
                return Ok(token);
            }
            Heard::Reply(reply)
                if reply == busy(owner, key) && start.elapsed() < bench.settings().tolerance =>
            {
                sleep(Duration::from_millis(20));
            }
            other => return Err(Stop::failed(other.to_string(), RIGHT)),
        }
    }
}

/// A connection that holds keys, and gives them back in any case: what comes next must find room.
struct Holder {
    peer: Peer,
    held: Vec<(u64, Vec<u8>)>,
}

impl Holder {
    /// Takes so many keys, each of which must be granted.
    fn take(bench: &mut Bench, count: u32, lease: u8) -> Result<Self, Stop> {
        let mut holder = Self { peer: bench.peer()?, held: Vec::new() };
        holder.take_more(bench, count, lease)?;
        Ok(holder)
    }

    fn take_more(&mut self, bench: &Bench, count: u32, lease: u8) -> Verdict {
        for _ in 0..count {
            let key = bench.key(&format!("held-{}", self.held.len()));
            let token = self.peer.take(lease, 1, &key)?;
            self.held.push((token, key));
        }
        Ok(())
    }

    fn key(&self, index: usize) -> Vec<u8> {
        self.held[index].1.clone()
    }

    /// Gives the first one back.
    fn give_back(&mut self) -> Verdict {
        let (token, key) = self.held.remove(0);
        self.peer.give_back(token, &key)
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        let frames: Vec<u8> = self.held.iter().flat_map(|(token, key)| wire::release(*token, key)).collect();
        // If the connection has failed, so has the case.
        _ = self.peer.send(&frames);
        _ = self.peer.end_writing();
        _ = self.peer.expect_closed_after_replies();
    }
}

/// R06, R11
fn keys(bench: &mut Bench) -> Verdict {
    let limit = known(bench.settings().limits.keys, "keys")?;
    let mut holder = Holder::take(bench, closing(limit), 120)?;
    let mut other = bench.peer()?;
    let (new, taken) = (bench.key("new"), holder.key(0));
    expect_busy(&mut other, 0, 2, &new)?;
    expect_busy(&mut other, 60, 2, &new)?;
    other.acquire(0, 20, 3, &taken)?;
    other.expect(&Reply::TimedOut { owner: 3, key: taken.clone() })?;
    other.acquire(60, 20, 4, &taken)?;
    other.sentinel(&bench.key("queued"))?;
    holder.give_back()?;
    // An admitted waiter passes no gate.
    let token = other.granted(4, &taken)?;
    other.give_back(token, &taken)?;
    while holder.held.len() > opening(limit) as usize {
        expect_busy(&mut other, 0, 5, &new)?;
        holder.give_back()?;
    }
    let token = take_soon(bench, &mut other, 6, &new)?;
    other.give_back(token, &new)
}

/// R06
fn expired_keys_do_not_count(bench: &mut Bench) -> Verdict {
    const LEASE: u8 = 3;
    let limit = known(bench.settings().limits.keys, "keys")?;
    // When so many of them are over, the others are too few to keep the gate closed.
    let enough = closing(limit) - opening(limit);
    let mut holder = Holder::take(bench, enough, LEASE)?;
    let start = Instant::now();
    holder.take_more(bench, opening(limit), LEASE)?;
    let mut peer = bench.peer()?;
    let new = bench.key("new");
    loop {
        peer.acquire(0, 20, 2, &new)?;
        match peer.hear("B while the leases run, then A")? {
            Heard::Reply(Reply::Acquired { token, .. }) => break peer.give_back(token, &new),
            Heard::Reply(reply) if reply == busy(2, &new) => {
                bench.not_overdue(start, Duration::from_secs(LEASE.into()))?;
                sleep(Duration::from_millis(50));
            }
            other => return Err(Stop::failed(other.to_string(), "B while the leases run, then A")),
        }
    }
}

/// A row of waiters on one held key each, so that no bound per key is met, over connections of which none is full.
struct Crowd {
    peers: Vec<Peer>,
    holder: Holder,
    /// Which peer waits for the key of the same number, with which owner.
    waiting: Vec<(usize, u64)>,
}

/// The owners of a connection are this and those behind it.
const FIRST_OWNER: u64 = 100;
/// How many waiters one key and one connection get.
const PER_KEY: u32 = 25;

impl Crowd {
    /// Lets `count` acquires wait, all of which must be admitted.
    fn gather(bench: &mut Bench, count: u32) -> Result<Self, Stop> {
        let holder = Holder::take(bench, count.div_ceil(PER_KEY), 250)?;
        let mut crowd = Self { peers: Vec::new(), holder, waiting: Vec::new() };
        for index in 0..crowd.holder.held.len() {
            let key = crowd.holder.key(index);
            let mut peer = bench.peer()?;
            let row = PER_KEY.min(count - u32::try_from(crowd.waiting.len()).unwrap_or(count));
            for owner in FIRST_OWNER..FIRST_OWNER + u64::from(row) {
                peer.acquire(255, 60, owner, &key)?;
                crowd.waiting.push((index, owner));
            }
            peer.sentinel(&bench.key("queued"))?;
            crowd.peers.push(peer);
        }
        Ok(crowd)
    }

    /// Serves one waiter, so that there is one less.
    fn serve_one(&mut self) -> Verdict {
        let (index, owner) = self.waiting.remove(0);
        let (token, key) = &mut self.holder.held[index];
        self.holder.peer.give_back(*token, key)?;
        *token = self.peers[index].granted(owner, key)?;
        Ok(())
    }

    /// Serves all that are left.
    fn disperse(mut self) -> Verdict {
        while !self.waiting.is_empty() {
            self.serve_one()?;
        }
        Ok(())
    }
}

fn waiters(bench: &mut Bench) -> Verdict {
    let limits = bench.settings().limits;
    let limit = known(limits.waiters, "waiters")?;
    if limits.in_flight.is_some_and(|in_flight| closing(in_flight) <= closing(limit)) {
        return Err(Stop::not_run("in_flight is not greater than waiters, so its gate closes first"));
    }
    let mut crowd = Crowd::gather(bench, closing(limit))?;
    let mut other = bench.peer()?;
    let (free, taken) = (bench.key("free"), crowd.holder.key(0));
    expect_busy(&mut other, 60, 2, &taken)?;
    other.acquire(0, 20, 3, &taken)?;
    other.expect(&Reply::TimedOut { owner: 3, key: taken.clone() })?;
    let token = other.take(20, 4, &free)?;
    other.give_back(token, &free)?;
    while crowd.waiting.len() > opening(limit) as usize {
        expect_busy(&mut other, 60, 5, &taken)?;
        crowd.serve_one()?;
    }
    let last = crowd.holder.key(crowd.holder.held.len() - 1);
    other.acquire(1, 20, 6, &last)?;
    other.expect(&Reply::TimedOut { owner: 6, key: last })?;
    crowd.disperse()
}

fn in_flight(bench: &mut Bench) -> Verdict {
    let limits = bench.settings().limits;
    let limit = known(limits.in_flight, "in_flight")?;
    if limits.waiters.is_some_and(|waiters| closing(waiters) <= closing(limit)) {
        return Err(Stop::not_run("waiters is not greater than in_flight, so its gate closes first"));
    }
    let mut crowd = Crowd::gather(bench, closing(limit))?;
    let mut other = bench.peer()?;
    let (free, taken) = (bench.key("free"), crowd.holder.key(0));
    while crowd.waiting.len() > opening(limit) as usize {
        for (wait, key) in [(0, &free), (0, &taken), (60, &taken)] {
            expect_busy(&mut other, wait, 2, key)?;
        }
        other.sentinel(&bench.key("releases-pass"))?;
        crowd.serve_one()?;
    }
    let token = take_soon(bench, &mut other, 3, &free)?;
    other.give_back(token, &free)?;
    crowd.disperse()
}

/// R04
fn waiters_of_one_key(bench: &mut Bench) -> Verdict {
    let limit = known(bench.settings().limits.per_key, "per_key")?;
    let key = bench.key("k");
    let mut holder = bench.peer()?;
    let token = holder.take(250, 1, &key)?;
    let mut peers = Vec::new();
    for index in 0..limit {
        let owner = FIRST_OWNER + u64::from(index % PER_KEY);
        if owner == FIRST_OWNER {
            peers.push(bench.peer()?);
        }
        if let Some(peer) = peers.last_mut() {
            peer.acquire(255, 60, owner, &key)?;
            peer.sentinel(&bench.key("queued"))?;
        }
    }
    let mut other = bench.peer()?;
    expect_busy(&mut other, 60, 2, &key)?;
    // Wait 0 asks for no place, and another key has its own queue.
    other.acquire(0, 60, 3, &key)?;
    other.expect(&Reply::TimedOut { owner: 3, key: key.clone() })?;
    holder.give_back(token, &key)?;
    peers[0].granted(FIRST_OWNER, &key)?;
    other.acquire(255, 60, 4, &key)?;
    other.sentinel(&bench.key("queued"))?;
    expect_busy(&mut other, 60, 5, &key)?;
    // One that leaves by its end of stream makes room for all of its waiters.
    let mut leaver = peers.pop().unwrap_or(other);
    leaver.end_writing()?;
    leaver.expect_closed()?;
    let mut other = bench.peer()?;
    other.acquire(255, 60, 6, &key)?;
    other.sentinel(&bench.key("queued"))
}

fn in_flight_on_one_connection(bench: &mut Bench) -> Verdict {
    let limit = known(bench.settings().limits.per_connection, "per_connection")?;
    let mut holder = Holder::take(bench, limit.div_ceil(PER_KEY), 250)?;
    let [mut full, mut other] = [bench.peer()?, bench.peer()?];
    for index in 0..limit {
        let key = holder.key((index / PER_KEY) as usize);
        full.acquire(255, 60, FIRST_OWNER + u64::from(index), &key)?;
    }
    full.sentinel(&bench.key("queued"))?;
    let free = bench.key("free");
    expect_busy(&mut full, 0, 1, &free)?;
    let token = other.take(20, 1, &free)?;
    other.give_back(token, &free)?;
    let key = holder.key(0);
    holder.give_back()?;
    let token = full.granted(FIRST_OWNER, &key)?;
    let free_token = take_soon(bench, &mut full, 1, &free)?;
    full.give_back(free_token, &free)?;
    full.give_back(token, &key)
}

/// Whether a fresh connection is let in: a challenge, or a close.
fn is_let_in(peer: &mut Peer) -> Result<bool, Stop> {
    match peer.challenge() {
        Ok(_) => Ok(true),
        Err(_) if peer.is_over() => Ok(false),
        Err(stop) => Err(stop),
    }
}

/// Until the server has seen that others have gone.
fn expect_let_in(bench: &mut Bench) -> Verdict {
    let deadline = Instant::now() + bench.settings().timeout;
    loop {
        if is_let_in(&mut bench.stranger()?)? {
            return Ok(());
        }
        if Instant::now() > deadline {
            return Err(Stop::failed("no connection is let in", "one that has gone makes room for another"));
        }
        sleep(Duration::from_millis(50));
    }
}

fn connections(bench: &mut Bench) -> Verdict {
    let limit = known(bench.settings().limits.connections, "connections")?;
    // The server may not have seen the end of what was before.
    sleep(Duration::from_millis(500));
    let mut peers = Vec::new();
    for _ in 0..limit {
        let mut peer = bench.peer()?;
        peer.sentinel(&bench.key("in"))?;
        peers.push(peer);
    }
    for _ in 0..3 {
        if is_let_in(&mut bench.stranger()?)? {
            return Err(Stop::failed(
                format!("connection {} is let in", limit + 1),
                "it is closed right after accept",
            ));
        }
    }
    peers[0].sentinel(&bench.key("still-in"))?;
    peers.truncate(peers.len() - 5);
    expect_let_in(bench)
}

/// A09
fn unauthenticated(bench: &mut Bench) -> Verdict {
    let limit = known(bench.settings().limits.unauthenticated, "unauthenticated")?;
    sleep(Duration::from_millis(500));
    let mut old = bench.peer()?;
    old.sentinel(&bench.key("in"))?;
    let mut strangers = Vec::new();
    for _ in 0..limit {
        let mut stranger = bench.stranger()?;
        let nonce = stranger.challenge()?;
        strangers.push((stranger, nonce));
    }
    if is_let_in(&mut bench.stranger()?)? {
        let got = format!("unauthenticated connection {} is let in", limit + 1);
        return Err(Stop::failed(got, "it is closed right after accept"));
    }
    old.sentinel(&bench.key("still-in"))?;
    if let Some((mut stranger, nonce)) = strangers.pop() {
        let response = stranger.response(&nonce);
        stranger.send_meaning(&response, "the response")?;
        stranger.sentinel(&bench.key("in"))?;
        expect_let_in(bench)?;
    }
    Ok(())
}
