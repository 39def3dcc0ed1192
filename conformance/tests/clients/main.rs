//! The suite for clients, tested: a client that is right passes every case, and each of many that are broken in one way
//! fails exactly the cases named for it.

mod client;
mod faults;
mod shim;
mod wire;

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::thread;
use std::time::Duration;

use faults::{FAULTS, Fault};
use ticketing_conformance::client::Suite;
use ticketing_conformance::report;

/// How many clients are judged at once.
const AT_ONCE: usize = 14;
/// Of each, so many cases at once besides the slow ones: they are threads, which wait nearly all the time.
const CASES_AT_ONCE: usize = 40;
/// How long a case waits for what has to come: here it often does not.
const PATIENCE: Duration = Duration::from_secs(4);

#[test]
fn each_fault_is_failed_by_exactly_its_cases() {
    let next = Mutex::new(FAULTS.iter());
    let wrong = Mutex::new(Vec::new());
    let judge_all = || {
        loop {
            let entry = next.lock().expect("no panic").next();
            let Some(&(fault, cases)) = entry else { break };
            let what = judge(fault, cases);
            wrong.lock().expect("no panic").extend(what);
        }
    };
    thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(judge_all);
        }
    });
    let wrong = wrong.into_inner().expect("no panic");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// What is wrong about the suite's judgement of a client, if anything.
fn judge(fault: Fault, cases: &[&str]) -> Option<String> {
    let suite = Suite::new(move || shim::launch(fault)).timeout(PATIENCE).at_once(CASES_AT_ONCE);
    let report = suite.subject(format!("{fault:?}")).run();
    let expected = BTreeSet::from_iter(cases.iter().copied());
    let failed = BTreeSet::from_iter(report.failed_ids());
    if failed == expected && report.setup_error.is_none() {
        return None;
    }
    let unseen: Vec<_> = expected.difference(&failed).collect();
    let unfounded: Vec<_> = failed.difference(&expected).collect();
    let text = report::text(&report);
    Some(format!("{text}{fault:?}: {unseen:?} should have failed, and {unfounded:?} should have passed"))
}
