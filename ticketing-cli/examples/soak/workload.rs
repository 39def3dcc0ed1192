//! What the clients do, and what is asked of the outcomes.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use fastrand::Rng;
use ticketing_tokio::{AcquireError, AcquireOptions, ReleaseError, Released};
use tokio::time::{sleep, timeout};

use crate::client::{Client, Ticket};
use crate::register::{Access, Registers};
use crate::tally::Tally;

/// How much later than promised a call may end: the machine may be busy with other things.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);
/// In seconds.
pub(crate) const LONGEST_LEASE: u64 = 6;
/// One key of so many is hot: these are asked for as often as all others together.
const COLD_KEYS_PER_HOT_KEY: usize = 16;
const MIN_WORK_BUDGET: Duration = Duration::from_millis(100);
/// What an acquire without a wait has (`CA-6`), and a release (`CR-1`).
const TRANSPORT: Duration = Duration::from_secs(5);
const THINK_MILLIS: std::ops::Range<u64> = 0..400;
const WORK_MILLIS: std::ops::Range<u64> = 0..20;
const CANCEL_MILLIS: std::ops::Range<u64> = 0..1000;

/// What must have occurred, or the run shows little.
pub(crate) const OUTCOMES: [&str; 7] =
    ["granted", "timed out", "busy", "indeterminate", "cancelled", "released", "dropped"];
/// What must have occurred besides if the run was long.
pub(crate) const RARE_OUTCOMES: [&str; 4] = ["too little lease", "not held", "unconfirmed", "outlived"];

pub(crate) struct World {
    pub(crate) registers: Registers,
    pub(crate) outcomes: Tally,
    keys: usize,
    violations: AtomicUsize,
    is_over: AtomicBool,
}

impl World {
    /// The registers judge tickets as if they were valid for `overstay` longer.
    pub(crate) fn new(keys: usize, overstay: Duration) -> Self {
        Self {
            registers: Registers::new(keys, overstay),
            outcomes: Tally::default(),
            keys,
            violations: AtomicUsize::new(0),
            is_over: AtomicBool::new(false),
        }
    }

    pub(crate) fn violation(&self, what: impl fmt::Display) {
        println!("VIOLATION: {what}");
        self.violations.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn violations(&self) -> usize {
        self.violations.load(Ordering::Relaxed)
    }

    /// Has everybody finish what is under way.
    pub(crate) fn end(&self) {
        self.is_over.store(true, Ordering::Relaxed);
    }

    fn pick(&self, chance: &mut Rng) -> usize {
        let keys = if chance.bool() { self.keys.div_ceil(COLD_KEYS_PER_HOT_KEY) } else { self.keys };
        chance.usize(..keys)
    }

    fn access(&self, access: Result<Access, impl fmt::Display>) -> bool {
        match access {
            Ok(access) => access == Access::Granted,
            Err(violation) => {
                self.violation(violation);
                false
            }
        }
    }
}

pub(crate) fn key_name(key: usize) -> String {
    format!("soak-{key}")
}

/// Takes one lock after the other until the world ends.
pub(crate) async fn work(world: Arc<World>, client: Client, mut chance: Rng) {
    while !world.is_over.load(Ordering::Relaxed) {
        let key = world.pick(&mut chance);
        if let Some(ticket) = acquire(&world, &client, key, &mut chance).await {
            hold(&world, key, ticket, &mut chance).await;
        }
        sleep(Duration::from_millis(chance.u64(THINK_MILLIS))).await;
    }
}

async fn acquire(world: &World, client: &Client, key: usize, chance: &mut Rng) -> Option<Ticket> {
    let seconds = |of: &[u64], chance: &mut Rng| Duration::from_secs(of[chance.usize(..of.len())]);
    let wait = seconds(&[0, 1, 2, 5], chance);
    let grace = seconds(&[0, 2], chance);
    let options = AcquireOptions::new(MIN_WORK_BUDGET)
        .wait(wait)
        .lease(seconds(&[1, 2, 3, LONGEST_LEASE], chance))
        .response_grace(grace);
    let is_cancelled = chance.u8(..10) == 0;
    let bound = match is_cancelled {
        true => Duration::from_millis(chance.u64(CANCEL_MILLIS)),
        false => wait.max(TRANSPORT) + grace + PATIENCE,
    };
    let outcome = match timeout(bound, client.acquire(&key_name(key), options)).await {
        Ok(Ok(ticket)) => {
            world.outcomes.count("granted");
            return Some(ticket);
        }
        Ok(Err(error)) => outcome(world, &error),
        Err(_) if is_cancelled => "cancelled",
        Err(_) => {
            world.violation(format_args!("an acquire with a wait of {wait:?} has not ended in {bound:?}"));
            return None;
        }
    };
    world.outcomes.count(outcome);
    None
}

fn outcome(world: &World, error: &AcquireError) -> &'static str {
    match error {
        AcquireError::Timeout => "timed out",
        AcquireError::Busy => "busy",
        AcquireError::Indeterminate => "indeterminate",
        AcquireError::InsufficientLease { .. } => "too little lease",
        error => {
            world.violation(format_args!("an acquire ended with: {error}"));
            "unexpected"
        }
    }
}

/// Uses a ticket in one way or another. Whatever it is used for happens at the register, which judges.
async fn hold(world: &World, key: usize, ticket: Ticket, chance: &mut Rng) {
    let (token, valid_until) = (ticket.token(), ticket.valid_until());
    if !world.access(world.registers.enter(key, token, valid_until)) {
        world.outcomes.count("late for its use");
    }
    let style = chance.u8(..40);
    let is_outlived = style == 0;
    loop {
        sleep(Duration::from_millis(chance.u64(WORK_MILLIS))).await;
        let is_valid = world.access(world.registers.write(key, token, valid_until));
        if !is_outlived {
            break;
        }
        if !is_valid {
            world.outcomes.count("outlived");
            break;
        }
    }
    world.registers.leave(key, token);
    if matches!(style, 1 | 2) {
        drop(ticket);
        world.outcomes.count("dropped");
        return;
    }
    let outcome = match timeout(TRANSPORT + PATIENCE, ticket.release()).await {
        Ok(Ok(Released::Released)) => "released",
        Ok(Ok(Released::NotHeld)) => "not held",
        Ok(Err(ReleaseError::Unconfirmed)) => "unconfirmed",
        Ok(Err(error)) => {
            world.violation(format_args!("a release ended with: {error}"));
            "unexpected"
        }
        Err(_) => {
            world.violation(format_args!("the release of {token} has not ended"));
            "unexpected"
        }
    };
    world.outcomes.count(outcome);
}

/// Shows that a client is of use once there are no faults: it gets a lock that nobody else wants.
pub(crate) async fn prove_liveness(world: Arc<World>, client: Client, number: usize) {
    let options = AcquireOptions::new(MIN_WORK_BUDGET).wait(PATIENCE).lease(2 * PATIENCE);
    match client.acquire(&format!("alone-{number}"), options).await {
        Ok(ticket) => _ = ticket.release().await,
        Err(error) => world.violation(format_args!("client {number} is alone and gets no lock: {error}")),
    }
}

/// Shows that a key has neither a hold nor a waiter once everybody has finished and all leases are over: it is
/// granted at once, and after its release it is free again.
pub(crate) async fn prove_drained(world: Arc<World>, client: Client, key: usize) {
    for turn in ["before", "after"] {
        match client.acquire(&key_name(key), AcquireOptions::new(MIN_WORK_BUDGET)).await {
            Ok(ticket) => _ = ticket.release().await,
            Err(error) => world.violation(format_args!("key {key} is not free {turn} a release: {error}")),
        }
    }
}
