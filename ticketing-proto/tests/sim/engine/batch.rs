//! Many seeds, and what to tell of those that fail.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::ops::{ControlFlow, Range};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use super::app::OUTCOMES;
use super::marks::MARKS;
use super::oracle::{Violation, Watch};
use super::plan::{Fault, LEAST_CLIENTS, LEAST_FAULTS, LEAST_OPERATIONS, Plan};
use super::run::{Report, run};
use super::shrink::shrink;
use super::world::Transport;

/// Runs that are spent on making a failing plan smaller.
const SHRINKING_TRIES: usize = 600;

pub(crate) type Tally = BTreeMap<&'static str, u64>;

/// Runs a plan; a panic of a machine is a violation like any other.
pub(crate) fn judge(plan: &Plan, transport: &Transport, watch: Watch) -> Report {
    catch_unwind(AssertUnwindSafe(|| run(plan, transport.clone(), watch))).unwrap_or_else(|panic| {
        let texts = (panic.downcast_ref::<String>().cloned(), panic.downcast_ref::<&str>().copied());
        let what = texts.0.unwrap_or_else(|| texts.1.unwrap_or("a panic without a text").into());
        Report {
            violation: Some(Violation { at: plan.setting.end, invariant: "no panic", what }),
            tally: Tally::new(),
            trace: String::new(),
        }
    })
}

/// Runs these seeds on all processors, in no order, until `see` has seen enough.
pub(crate) fn run_each(
    seeds: Range<u64>,
    transport: &Transport,
    watch: Watch,
    see: impl Fn(&Plan, Report) -> ControlFlow<()> + Sync,
) {
    let next = AtomicU64::new(seeds.start);
    let work = || {
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if !seeds.contains(&seed) {
                return;
            }
            let plan = Plan::new(seed);
            if see(&plan, judge(&plan, transport, watch)).is_break() {
                next.store(seeds.end, Ordering::Relaxed);
            }
        }
    };
    thread::scope(|scope| {
        let threads = thread::available_parallelism().map_or(1, usize::from);
        (0..threads).for_each(|_| _ = scope.spawn(work));
    });
}

/// Runs all of these seeds. Counts what occurred.
///
/// # Panics
/// At the first seed that breaks a promise, with the smallest plan found that does, and the command that repeats it.
pub(crate) fn run_all(seeds: Range<u64>, transport: &Transport) -> Tally {
    let results = Mutex::new((Tally::new(), None));
    run_each(seeds, transport, Watch::default(), |plan, Report { violation, tally, .. }| {
        let failure = match violation {
            Some(violation) => Some(describe(plan, &violation, transport)),
            None => emptiness(plan, &tally).map(|what| format!("seed {} is too empty: {what}", plan.seed)),
        };
        let mut results = results.lock().expect("nobody panics with it");
        for (what, count) in tally {
            *results.0.entry(what).or_default() += count;
        }
        let Some(failure) = failure else { return ControlFlow::Continue(()) };
        results.1.get_or_insert(failure);
        ControlFlow::Break(())
    });
    let (tally, failure) = results.into_inner().expect("nobody panics with it");
    if let Some(failure) = failure {
        panic!("{failure}");
    }
    tally
}

/// Every outcome, every kind of fault and every marked situation must have occurred.
pub(crate) fn assert_rich(tally: &Tally) {
    let kinds = OUTCOMES.iter().chain(&Fault::KINDS).chain(&MARKS);
    let missing: Vec<_> = kinds.filter(|kind| !tally.contains_key(**kind)).collect();
    assert!(missing.is_empty(), "these never occurred: {missing:?}, in {tally:#?}");
}

/// What a run has too little of, if anything.
fn emptiness(plan: &Plan, tally: &Tally) -> Option<String> {
    let of = |kinds: &[&str]| kinds.iter().filter_map(|kind| tally.get(kind)).sum::<u64>() as usize;
    let counts = [plan.setting.clients.len(), of(&["operations"]), of(&Fault::KINDS)];
    let least = [LEAST_CLIENTS, LEAST_OPERATIONS, LEAST_FAULTS];
    let is_rich = counts.iter().zip(&least).all(|(count, least)| count >= least);
    (!is_rich).then(|| format!("clients, operations, faults: {counts:?}, at least {least:?}"))
}

/// A violation, the least that leads to it, and how to see it again.
fn describe(plan: &Plan, violation: &Violation, transport: &Transport) -> String {
    let fails = |smaller: &Plan| {
        judge(smaller, transport, Watch::default())
            .violation
            .is_some_and(|found| found.invariant == violation.invariant)
    };
    let kept = shrink(plan, SHRINKING_TRIES, fails);
    let smallest = plan.only(&kept);
    let found = judge(&smallest, transport, Watch::default()).violation;
    let mut text = format!("seed {} broke a promise: {violation:#?}\n", plan.seed);
    writeln!(text, "{} of its {} actions are enough:", kept.len(), plan.actions.len()).expect("a string");
    for (number, (at, action)) in kept.iter().zip(&smallest.actions) {
        writeln!(text, "{number:>5} {:>12.6} {action:?}", at.as_secs_f64()).expect("a string");
    }
    let only = kept.iter().map(usize::to_string).collect::<Vec<_>>().join(",");
    let (seed, tls) = (plan.seed, if transport.is_tls() { "SIM_TLS=1 " } else { "" });
    write!(
        text,
        "they lead to: {found:#?}\nagain, with a trace:\n\
         {tls}SIM_SEED={seed} SIM_ONLY={only} cargo test -p ticketing-proto --test sim -- --nocapture chosen_seed"
    )
    .expect("a string");
    text
}
