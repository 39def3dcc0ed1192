//! Servers that are wrong in one way each: exactly the cases that are about it fail. One that is right passes them all.

mod expected;
mod fault;
mod model;

use std::io::{self, Read};
use std::net::TcpStream;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use expected::EXPECTED;
use fault::Fault;
use model::{Running, SECRET};
use ticketing_conformance::case::Outcome;
use ticketing_conformance::report::Report;
use ticketing_conformance::select::Selection;
use ticketing_conformance::server::{Limits, Link, Suite, tcp};

const LIMITS: Limits = Limits {
    keys: Some(400),
    waiters: Some(400),
    per_key: Some(120),
    in_flight: Some(1000),
    per_connection: Some(40),
    connections: Some(200),
    unauthenticated: Some(80),
};

fn judge(fault: Option<Fault>) -> Report {
    let server = Running::start(fault, LIMITS);
    let address = server.address;
    Suite::new(move || tcp(address))
        .subject(format!("{fault:?}"))
        .secret(SECRET)
        .limits(LIMITS)
        .timeout(Duration::from_secs(10))
        .tolerance(Duration::from_secs(3))
        .run()
}

#[test]
fn a_server_that_is_right_fails_no_case() {
    let report = judge(None);
    assert_eq!(report.failed_ids(), [""; 0], "{report}");
    assert!(report.is_success());
}

#[test]
fn any_pair_will_do_and_what_it_cannot_do_is_not_run() {
    let server = Running::start(None, Limits::default());
    let address = server.address;
    let connect = move || {
        let stream = TcpStream::connect(address)?;
        Ok(Link::new(stream.try_clone()?, stream))
    };
    let prefixes = ["handshake/end", "locks/", "queue/reset"].map(str::to_owned).to_vec();
    let selection = Selection { prefixes, ..Selection::default() };
    let report = Suite::new(connect).secret(SECRET).select(selection).run();
    assert!(report.is_success(), "{report}");
    let not_run = report.cases.iter().filter(|case| matches!(case.outcome, Outcome::NotRun(_)));
    let not_run: Vec<_> = not_run.map(|case| case.info.id).collect();
    assert_eq!(not_run, ["handshake/end-inside", "queue/reset-waiter-leaves"]);
}

/// U08
#[test]
fn two_runs_at_once_do_not_disturb_each_other() {
    let server = Running::start(None, Limits::default());
    let address = server.address;
    let run = || {
        let selection = Selection { quick: true, ..Selection::default() };
        Suite::new(move || tcp(address)).secret(SECRET).select(selection).run()
    };
    thread::scope(|scope| {
        for run in [scope.spawn(run), scope.spawn(run)] {
            let report = run.join().unwrap();
            assert!(report.is_success(), "{report}");
        }
    });
}

/// What comes from the server comes 50 ms late.
struct Distant(TcpStream);

impl Read for Distant {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let len = self.0.read(buffer)?;
        thread::sleep(Duration::from_millis(50));
        Ok(len)
    }
}

/// U06
#[test]
fn a_network_that_takes_its_time_is_not_the_servers_fault() {
    let server = Running::start(None, Limits::default());
    let address = server.address;
    let connect = move || {
        let stream = tcp(address)?;
        let (reader, end) = (Distant(stream.try_clone()?), stream.try_clone()?);
        Ok(Link::new(reader, stream).with_shutdown(move |how| end.shutdown(how)))
    };
    let prefixes = ["leases/", "locks/"].map(str::to_owned).to_vec();
    let selection = Selection { prefixes, ..Selection::default() };
    let report = Suite::new(connect).secret(SECRET).select(selection).run();
    assert!(report.is_success(), "{report}");
}

/// How many servers are judged at once.
const AT_ONCE: usize = 8;

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
                        surprises.lock().unwrap().push(surprise(*fault, expected, report));
                    }
                }
            });
        }
    });
    let surprises = surprises.into_inner().unwrap();
    assert!(surprises.is_empty(), "{}", surprises.join("\n"));
}

/// Which cases failed, and why those that should not have.
fn surprise(fault: Fault, expected: &[&str], mut report: Report) -> String {
    let failed = report.failed_ids();
    report.cases.retain(|case| case.is_failed() && !expected.contains(&case.info.id));
    format!("{fault:?} failed {failed:#?}\n{report}")
}
