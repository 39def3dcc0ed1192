//! The conformance suite against a server of each flavour, plain and inside TLS, with a token and without.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use ticketing_conformance::case::Outcome;
use ticketing_conformance::report::Report;
use ticketing_conformance::server::{self, Limits, Suite, TlsConnector};
use ticketing_proto::limits;
use ticketing_proto::tls::rustls::time_provider::DefaultTimeProvider;
use ticketing_proto::wire::auth::Secret;

use crate::adapter::{self, Flavour, Prepared, ShutdownHandle};
use crate::certificates::Authority;
use ticketing_host::server::{ServerConfig, fresh_tokens};

const SECRET: &[u8] = b"the secret of this test";

/// Limits of which one gate closes before the other: that of all acquires, or that of waiters.
fn small(acquires: u32, waiters: u32) -> limits::Limits {
    limits::Limits {
        connections: 250,
        unauthenticated: 80,
        keys: 400,
        acquires,
        waiters,
        waiters_per_key: 120,
        acquires_per_connection: 40,
    }
}

fn told(limits: &limits::Limits) -> Limits {
    Limits {
        keys: Some(limits.keys),
        waiters: Some(limits.waiters),
        per_key: Some(limits.waiters_per_key),
        in_flight: Some(limits.acquires),
        per_connection: Some(limits.acquires_per_connection),
        connections: Some(limits.connections),
        unauthenticated: Some(limits.unauthenticated),
    }
}

/// A server on a thread of its own, until it is told to end.
struct Running {
    address: SocketAddr,
    shutdown: ShutdownHandle,
    thread: JoinHandle<std::io::Result<()>>,
}

impl Running {
    fn start(flavour: Flavour, config: ServerConfig) -> Self {
        let local = SocketAddr::from(([127, 0, 0, 1], 0));
        let Prepared { addresses, shutdown, serve } = adapter::prepare(flavour, &[local], config).unwrap();
        Self { address: addresses[0], shutdown, thread: thread::spawn(serve) }
    }

    fn judge(self, suite: Suite) -> Report {
        let shutdown = self.shutdown.clone();
        let stop = move || {
            shutdown.shut_down();
            Ok(())
        };
        let report = suite.stop(stop).run();
        self.end();
        report
    }

    fn end(self) {
        self.shutdown.shut_down();
        self.shutdown.shut_down();
        self.thread.join().unwrap().unwrap();
    }
}

fn config(secret: &[u8]) -> ServerConfig {
    ServerConfig::new(Secret::new(secret), fresh_tokens().unwrap())
}

fn judge_plain(flavour: Flavour, limits: Option<limits::Limits>, secret: &[u8]) -> Report {
    let mut config = config(secret);
    config.limits = limits.unwrap_or_default();
    let server = Running::start(flavour, config);
    let address = server.address;
    let suite = Suite::new(move || server::tcp(address)).subject(format!("{flavour:?}")).secret(secret);
    server.judge(suite.limits(limits.as_ref().map(told).unwrap_or_default()))
}

fn judge_tls(flavour: Flavour, limits: limits::Limits) -> Report {
    let authority = Authority::new("an authority");
    let mut config = config(SECRET);
    config.limits = limits;
    config.tls = Some(authority.identity(&["localhost"]).server(Arc::new(DefaultTimeProvider)));
    let server = Running::start(flavour, config);
    let connector = TlsConnector::new(server.address, "localhost", Some(authority.pem().as_bytes())).unwrap();
    let suite = Suite::new(connector).subject(format!("{flavour:?} inside TLS")).secret(SECRET);
    server.judge(suite.limits(told(&limits)))
}

/// F25, T07, T12, T14, L05, L18, N04, N06, A04, U08
#[test]
fn every_requirement_holds() {
    let first = Flavour::ALL[0];
    let reports: Vec<Report> = thread::scope(|scope| {
        let mut suites = vec![
            scope.spawn(move || judge_plain(first, Some(small(400, 1000)), SECRET)),
            scope.spawn(move || judge_tls(first, small(1000, 400))),
        ];
        for flavour in Flavour::ALL {
            suites.push(scope.spawn(move || judge_plain(flavour, None, b"")));
        }
        suites.into_iter().map(|suite| suite.join().unwrap()).collect()
    });
    for report in &reports {
        assert!(report.is_success() && report.failed_ids().is_empty(), "{report}");
    }
    let mut has_passed = BTreeMap::new();
    for case in reports.iter().flat_map(|report| &report.cases) {
        *has_passed.entry(case.info.id).or_insert(false) |= case.outcome == Outcome::Passed;
    }
    let never: Vec<_> = has_passed.iter().filter(|(_, has_passed)| !**has_passed).map(|(id, _)| id).collect();
    assert!(never.is_empty(), "none of the servers was judged by {never:?}");
}
