//! Judges a client: scripted servers play slow, silent, hostile, late, half-dead and redirecting nodes, and a *shim*
//! around the client tells what its callers get to see.
//!
//! A shim is a program, or a thread, that reads one JSON object per line and writes one per answer. The README of this
//! package describes the lines; `examples/shim.py` is one to begin with.

mod cases;
mod line;
mod play;
mod shim;
mod stage;
mod timeline;

use std::sync::Arc;
use std::time::Duration;

use crate::case::{CaseInfo, Stop, Verdict};
use crate::gaps::Gaps;
use crate::report::Report;
use crate::run::{Course, Plan};
use crate::select::Selection;
use crate::transcript::Transcript;

use play::Play;
pub use shim::{Launch, Program, Shim};
use stage::Greeting;

/// How many quick cases run at once, unless something else is said. They wait more than they work.
const QUICK_AT_ONCE: usize = 24;
/// What a case may take besides its patience.
const CASE_LIMIT: Duration = Duration::from_secs(60);

/// What is known of each case, in the order in which they are reported.
#[must_use]
pub fn cases() -> Vec<CaseInfo> {
    cases::all().map(|case| case.info()).collect()
}

/// What cases go by.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Settings {
    pub(crate) timeout: Duration,
    pub(crate) tolerance: Duration,
    pub(crate) seed: u64,
}

/// All cases for clients, to be run against one.
pub struct Suite {
    launcher: Arc<dyn Launch>,
    settings: Settings,
    at_once: usize,
    course: Course,
}

impl Suite {
    /// All cases, with a patience of 10 s and a tolerance of 2 s.
    pub fn new(launcher: impl Launch + 'static) -> Self {
        Self {
            launcher: Arc::new(launcher),
            settings: Settings {
                timeout: Duration::from_secs(10),
                tolerance: Duration::from_secs(2),
                seed: fastrand::u64(..),
            },
            at_once: QUICK_AT_ONCE,
            course: Course { subject: "the client".to_owned(), ..Course::default() },
        }
    }

    /// What the report calls the client.
    #[must_use]
    pub fn subject(mut self, subject: impl Into<String>) -> Self {
        self.course.subject = subject.into();
        self
    }

    /// How long a case waits for what has to come, besides the time that it may take.
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

    /// How many clients may be under test at once, those of slow cases not counted. By default 24, as each may be a
    /// program that has to start; where they are cheap, more make the run shorter.
    #[must_use]
    pub const fn at_once(mut self, at_once: usize) -> Self {
        self.at_once = at_once;
        self
    }

    /// Where the tokens come from that are granted.
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

    /// Runs the cases. It blocks until the last one has ended; that takes less than a minute if the client is right.
    #[must_use]
    pub fn run(self) -> Report {
        let Self { launcher, settings, at_once, course } = self;
        let plan = Plan {
            quick_at_once: at_once,
            limit: CASE_LIMIT + settings.timeout,
            tolerance: settings.tolerance,
        };
        let play = move |transcript: &Transcript| Play::new(Arc::clone(&launcher), transcript, settings);
        let for_cases = play.clone();
        course.run(
            settings.seed,
            cases::all(),
            plan,
            || set_up(&mut play(&Transcript::new())).map_err(set_up_error),
            move |case, transcript| case.run(&mut for_cases(transcript)).map_err(perhaps_late),
        )
    }
}

impl std::fmt::Debug for Suite {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Suite").field("subject", &self.course.subject).finish_non_exhaustive()
    }
}

/// The client runs on this machine, and nearly every case is about time: what went wrong while the machine was late is
/// looked at again.
fn perhaps_late(stop: Stop) -> Stop {
    match stop {
        Stop::Failed(failure) => Stop::Late(failure),
        stop => stop,
    }
}

/// Whether there is anything to judge at all: a shim that makes a client which connects and says a line.
fn set_up(play: &mut Play) -> Verdict {
    play.open(&[Greeting::Challenge])?;
    play.responded().map(drop)
}

fn set_up_error(stop: Stop) -> String {
    match stop {
        Stop::Failed(failure) | Stop::Late(failure) | Stop::Disturbed(failure) => {
            format!("{}, where there should have been {}", failure.got, failure.right.join(" or "))
        }
        Stop::NotRun(reason) => reason,
    }
}
