//! Servers that are wrong in one way each: exactly the cases that are about it fail. One that is right passes them all.

mod expected;
mod fault;
mod model;

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use expected::EXPECTED;
use fault::Fault;
use model::{Running, SECRET};
use ticketing_conformance::report::Report;
use ticketing_conformance::server::{Limits, Suite, tcp};

const LIMITS: Limits = Limits {
    keys: Some(400),
    waiters: Some(400),
    per_key: Some(120),
    in_flight: Some(1000),
    per_connection: Some(40),
    connections: Some(250),
    unauthenticated: Some(80),
};

fn judge(fault: Option<Fault>) -> Report {
    let server = Running::start(fault, LIMITS);
    let address = server.address;
    Suite::new(move || tcp(address))
        .subject(format!("{fault:?}"))
        .secret(SECRET)
        .limits(LIMITS)
        .timeout(Duration::from_secs(8))
        .tolerance(Duration::from_secs(3))
        .run()
}

#[test]
fn a_server_that_is_right_fails_no_case() {
    let report = judge(None);
    assert_eq!(report.failed_ids(), [""; 0], "{report}");
    assert!(report.is_success());
}

/// How many servers are judged at once.
const AT_ONCE: usize = 12;

#[test]
fn each_broken_server_fails_exactly_the_cases_about_its_fault() {
    let next = AtomicUsize::new(0);
    let surprises = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                while let Some((fault, expected)) = EXPECTED.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let report = judge(Some(*fault));
                    if report.failed_ids() != *expected || report.is_success() {
                        surprises
                            .lock()
                            .unwrap()
                            .push(format!("{fault:?} failed {:#?}", report.failed_ids()));
                    }
                }
            });
        }
    });
    let surprises = surprises.into_inner().unwrap();
    assert!(surprises.is_empty(), "{}", surprises.join("\n"));
}
