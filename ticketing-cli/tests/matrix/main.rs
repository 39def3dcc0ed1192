//! Each client against each server: what one adapter writes, each other one understands.
//!
//! A case is written once and runs with every client, every server and every way to secure the connection between
//! them, all at once.

mod cases;
mod clients;
mod servers;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::LazyLock;
use std::thread;
use std::time::{Duration, Instant};

use clients::ClientKind;
use servers::ServerKind;

/// How long anything may take that should be quick.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// Where tokio's tasks run, and where tests wait for futures.
pub(crate) static RUNTIME: LazyLock<tokio::runtime::Runtime> =
    LazyLock::new(|| tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime"));

/// How the connections of a client and its server are secured.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Security {
    Plain,
    Token,
}

impl Security {
    pub(crate) const ALL: [Self; 2] = [Self::Plain, Self::Token];

    /// What the server wants to be known, and the client knows.
    pub(crate) const fn secret(self) -> &'static str {
        match self {
            Self::Plain => "",
            Self::Token => "correct-horse-battery",
        }
    }
}

/// One combination.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pair {
    pub(crate) client: ClientKind,
    pub(crate) server: ServerKind,
    pub(crate) security: Security,
}

impl Pair {
    pub(crate) fn all() -> Vec<Self> {
        let of_server = |server| {
            let of_client = move |client| Security::ALL.map(|security| Self { client, server, security });
            ClientKind::ALL.into_iter().flat_map(of_client)
        };
        ServerKind::ALL.into_iter().flat_map(of_server).collect()
    }
}

/// Runs a case with each of these, all at once, and tells with which of them it fails.
pub(crate) fn with_each<P: std::fmt::Debug + Copy + Send>(of: Vec<P>, case: impl Fn(P) + Sync) {
    let case = &case;
    let failed: Vec<P> = thread::scope(|scope| {
        let run =
            |one| scope.spawn(move || catch_unwind(AssertUnwindSafe(|| case(one))).is_err().then_some(one));
        let running: Vec<_> = of.into_iter().map(run).collect();
        running.into_iter().filter_map(|one| one.join().expect("its panic is caught")).collect()
    });
    assert!(failed.is_empty(), "with {failed:?}");
}

/// Waits until something is so.
pub(crate) fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < PATIENCE, "it never came: {what}");
        thread::sleep(Duration::from_millis(2));
    }
}
