//! Judges a server.

mod bench;
mod cases;
mod connector;
mod limits;
mod peer;
#[cfg(feature = "tls")]
mod tls;

use std::io;
use std::sync::Arc;
use std::time::Duration;

use crate::case::{CaseInfo, Stop};
use crate::gaps::Gaps;
use crate::report::Report;
use crate::run::{Course, Plan};
use crate::select::Selection;
use crate::transcript::Transcript;

use bench::Bench;
pub use connector::{Connector, Link, tcp};
pub use limits::{Limits, LimitsError};
use peer::Heard;
#[cfg(feature = "tls")]
pub use tls::TlsConnector;

/// How many quick cases run at once.
const QUICK_AT_ONCE: usize = 8;
/// A case has this long, besides its patience.
const CASE_LIMIT: Duration = Duration::from_secs(45);

/// What is known of each case, in the order in which they are reported.
#[must_use]
pub fn cases() -> Vec<CaseInfo> {
    cases::all().map(|case| case.info()).collect()
}

/// What cases go by.
pub(crate) struct Settings {
    pub(crate) secret: Vec<u8>,
    pub(crate) timeout: Duration,
    pub(crate) tolerance: Duration,
    pub(crate) limits: Limits,
    pub(crate) is_cluster: bool,
    pub(crate) seed: u64,
    pub(crate) stop: Option<Stopper>,
}

/// Has a server shut down.
type Stopper = Box<dyn Fn() -> io::Result<()> + Send + Sync>;

/// All cases for servers, to be run against one.
pub struct Suite {
    connector: Arc<dyn Connector>,
    settings: Settings,
    course: Course,
}

impl Suite {
    /// All cases, with a random seed, a patience of 10 s and a tolerance of 2 s, for a server without a token.
    pub fn new(connector: impl Connector + 'static) -> Self {
        Self {
            connector: Arc::new(connector),
            settings: Settings {
                secret: Vec::new(),
                timeout: Duration::from_secs(10),
                tolerance: Duration::from_secs(2),
                limits: Limits::default(),
                is_cluster: false,
                seed: fastrand::u64(..),
                stop: None,
            },
            course: Course { subject: "the server".to_owned(), ..Course::default() },
        }
    }

    /// What the report calls the server.
    #[must_use]
    pub fn subject(mut self, subject: impl Into<String>) -> Self {
        self.course.subject = subject.into();
        self
    }

    /// The token of the installation (`AU-2`).
    #[must_use]
    pub fn secret(mut self, secret: impl Into<Vec<u8>>) -> Self {
        self.settings.secret = secret.into();
        self
    }

    /// How long a case waits for what has to come.
    #[must_use]
    pub const fn timeout(mut self, timeout: Duration) -> Self {
        self.settings.timeout = timeout;
        self
    }

    /// By how much something may be late that has its time.
    #[must_use]
    pub const fn tolerance(mut self, tolerance: Duration) -> Self {
        self.settings.tolerance = tolerance;
        self
    }

    /// The limits that the server was started with.
    #[must_use]
    pub const fn limits(mut self, limits: Limits) -> Self {
        self.settings.limits = limits;
        self
    }

    /// The server is the leader of a cluster: it may push `L` (`RD-3`).
    #[must_use]
    pub const fn cluster(mut self) -> Self {
        self.settings.is_cluster = true;
        self
    }

    /// How to have the server shut down in good order, which the last case does (`TR-8`). It need not wait for the end.
    #[must_use]
    pub fn stop(mut self, stop: impl Fn() -> io::Result<()> + Send + Sync + 'static) -> Self {
        self.settings.stop = Some(Box::new(stop));
        self
    }

    /// Where the keys and owners come from. While leases of an earlier run with the same seed run, they are in the way.
    #[must_use]
    pub const fn seed(mut self, seed: u64) -> Self {
        self.settings.seed = seed;
        self
    }

    /// Which cases run.
    #[must_use]
    pub fn select(mut self, selection: Selection) -> Self {
        self.course.selection = selection;
        self
    }

    /// Failures that are expected.
    #[must_use]
    pub fn known_gaps(mut self, gaps: Gaps) -> Self {
        self.course.gaps = gaps;
        self
    }

    /// Runs the cases. It blocks until the last one has ended; that takes less than a minute if the server is right.
    #[must_use]
    pub fn run(self) -> Report {
        let Self { connector, settings, course } = self;
        let (seed, settings) = (settings.seed, Arc::new(settings));
        let plan = Plan {
            quick_at_once: QUICK_AT_ONCE,
            limit: CASE_LIMIT + settings.timeout,
            tolerance: settings.tolerance,
        };
        let bench = move |transcript: &Transcript, id| {
            Bench::new(Arc::clone(&connector), Arc::clone(&settings), transcript.clone(), id)
        };
        let for_cases = bench.clone();
        course.run(
            seed,
            cases::all(),
            plan,
            || set_up_error(bench(&Transcript::new(), "set-up")),
            move |case, transcript| case.run(&mut for_cases(transcript, case.info().id)),
        )
    }
}

/// Whether there is anything to judge at all: a server that says a line, takes the response, and answers something.
fn set_up_error(mut bench: Bench) -> Result<(), String> {
    let reason = |stop: Stop| match stop {
        Stop::Failed(failure) | Stop::Late(failure) | Stop::Disturbed(failure) => failure.got,
        Stop::NotRun(reason) => reason,
    };
    let mut peer = bench.stranger().map_err(reason)?;
    let line = peer.challenge_line().map_err(|stop| {
        format!(
            "{}, where it should have said its challenge (is one side TLS and the other not?)",
            reason(stop)
        )
    })?;
    let space = line.iter().position(|&byte| byte == b' ').map_or(line.len(), |space| space + 1);
    let response = peer.response(&line[space..]);
    peer.send_meaning(&response, "the response").map_err(reason)?;
    peer.release(1, &bench.key("set-up")).map_err(reason)?;
    match peer.hear("an answer").map_err(reason)? {
        Heard::Reply(crate::wire::Reply::Error { reason }) if reason == b"auth_failed" => {
            Err("the server refuses this token".to_owned())
        }
        Heard::Reply(_) => Ok(()),
        over => Err(format!("{over} right after the handshake")),
    }
}
