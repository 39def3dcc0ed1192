//! Each client against each server: what one adapter writes, each other one understands.
//!
//! A case is written once and runs with every client, every server and every way to secure the connection between
//! them, all at once. Cargo builds a program for the tests of its own package alone, so each package with a program
//! runs this suite; what it brings is in its `crate::adapter`.

mod cases;
#[expect(dead_code, reason = "other tests need more of it")]
#[path = "../../../ticketing-proto/tests/support/certificates.rs"]
mod certificates;
mod changes;
mod clients;
mod foreign;
#[path = "../openssl.rs"]
mod openssl;
mod raw;
mod refusals;
pub(crate) mod servers;
mod wrong_protocol;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, LazyLock};
use std::thread;
use std::time::{Duration, Instant};

use ticketing_tokio::AcquireOptions;
use ticketing_tokio::tls::{ClientTls, system_time};

use certificates::{Authority, Identity};
use clients::{Client, ClientKind};
use servers::{Server, ServerKind, Terms};

/// How long anything may take that should be quick.
const PATIENCE: Duration = Duration::from_secs(60);
const SECOND: Duration = Duration::from_secs(1);
pub(crate) const OPTIONS: AcquireOptions = AcquireOptions::new(SECOND).wait(PATIENCE);

/// Where tokio's tasks run, and where tests wait for futures.
static RUNTIME: LazyLock<tokio::runtime::Runtime> =
    LazyLock::new(|| tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime"));

/// The authority that clients trust.
static AUTHORITY: LazyLock<Authority> = LazyLock::new(|| Authority::new("own"));
/// What servers show.
static IDENTITY: LazyLock<Identity> = LazyLock::new(|| AUTHORITY.identity(&["127.0.0.1"]));

/// A server that is a program.
pub(crate) struct Program {
    pub(crate) path: &'static str,
    /// As it calls itself where it says that it is ready.
    pub(crate) name: &'static str,
    /// What comes before its flags.
    pub(crate) arguments: &'static [&'static str],
}

/// How the connections of a client and its server are secured.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Security {
    Plain,
    Token,
    Tls,
    TlsAndToken,
}

impl Security {
    pub(crate) const ALL: [Self; 4] = [Self::Plain, Self::Token, Self::Tls, Self::TlsAndToken];

    const fn has_tls(self) -> bool {
        matches!(self, Self::Tls | Self::TlsAndToken)
    }

    /// What the server wants to be known, and the client knows.
    const fn secret(self) -> &'static str {
        match self {
            Self::Plain | Self::Tls => "",
            Self::Token | Self::TlsAndToken => "correct-horse-battery",
        }
    }

    pub(crate) fn terms(self) -> Terms<'static> {
        Terms { secret: self.secret(), identity: self.has_tls().then(|| &*IDENTITY) }
    }

    fn trust(self) -> Option<ClientTls> {
        self.has_tls().then(trust)
    }
}

/// A client's TLS.
fn trust() -> ClientTls {
    AUTHORITY.trust(system_time())
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
        ServerKind::all().into_iter().flat_map(of_server).collect()
    }

    fn with(is_so: impl Fn(Security) -> bool) -> Vec<Self> {
        Self::all().into_iter().filter(|pair| is_so(pair.security)).collect()
    }

    fn start(self) -> (Server, Arc<dyn Client>) {
        let server = self.server.start(self.security.terms());
        let client = self.connect(&server);
        (server, client)
    }

    pub(crate) fn connect(self, server: &Server) -> Arc<dyn Client> {
        self.client.connect(server.address(), self.security.secret(), self.security.trust())
    }
}

/// Each server with each way to secure connections.
fn secured_servers() -> Vec<(ServerKind, Security)> {
    let of_server = |server| Security::ALL.map(|security| (server, security));
    ServerKind::all().into_iter().flat_map(of_server).collect()
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
fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < PATIENCE, "it never came: {what}");
        thread::sleep(Duration::from_millis(2));
    }
}
