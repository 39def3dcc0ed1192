//! The simulation finds each bug that is planted into the core, within as many seeds as the list says.

extern crate ticketing_planted as ticketing_proto;

#[path = "../../tests/sim/engine/mod.rs"]
#[expect(dead_code, unused_imports, reason = "the tests of the core use all of it")]
mod engine;

use std::ops::ControlFlow;
use std::panic;
use std::sync::Mutex;

use engine::batch::run_each;
use engine::{Transport, Watch};
use ticketing_planted::MISFITS;
use ticketing_planted::bugs::{BUGS, Bug};
use ticketing_planted::planted::plant;

/// Without a bug so many seeds find none.
const CONTROL_SEEDS: u64 = 100;

#[test]
fn each_bug_has_its_place_in_the_core() {
    assert!(MISFITS.is_empty(), "the core has changed, and planted/src/bugs.rs must follow: {MISFITS:#?}");
}

/// Of so many seeds one that breaks a promise, and how. Nobody looks at the server's own counters before the end.
fn find(bug: Option<usize>, seeds: u64) -> Option<String> {
    let found = Mutex::new(None);
    plant(bug);
    let watch = Watch { is_traced: false, hides_counters: true };
    run_each(0..seeds, &Transport::default(), watch, |plan, report| {
        let Some(violation) = report.violation else { return ControlFlow::Continue(()) };
        let text = format!("seed {}, {}: {}", plan.seed, violation.invariant, violation.what);
        *found.lock().expect("nobody panics with it") = Some(text);
        ControlFlow::Break(())
    });
    plant(None);
    found.into_inner().expect("nobody panics with it")
}

#[test]
fn every_planted_bug_is_found() {
    assert!(BUGS.len() >= 12);
    // Some end in a panic, which is told as a violation.
    panic::set_hook(Box::new(|_| {}));
    let found = BUGS.iter().enumerate().map(|(number, bug)| (bug, find(Some(number), bug.within)));
    let found: Vec<(&Bug, _)> = found.collect();
    let none = find(None, CONTROL_SEEDS);
    let _ = panic::take_hook();
    for (bug, found) in &found {
        println!("{}: {}", bug.name, found.as_deref().unwrap_or("not found"));
    }
    let missed: Vec<_> = found.iter().filter(|(_, found)| found.is_none()).map(|(bug, _)| bug.name).collect();
    assert!(missed.is_empty(), "the simulation does not see when {missed:#?}");
    assert_eq!(none, None, "there is no bug");
}
