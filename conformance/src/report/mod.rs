//! What came out of a run, and how it is written down.

mod json;
mod junit;
mod text;

use std::fmt;
use std::time::Duration;

use crate::case::{CaseInfo, Level, Outcome};
use crate::transcript::Line;

pub use json::json;
pub use junit::junit;
pub use text::text;

/// What came out of a run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Report {
    /// What was judged, for people: an address, a command.
    pub subject: String,
    /// Why nothing could be judged at all. Then no case ran.
    pub setup_error: Option<String>,
    /// Each case that was selected.
    pub cases: Vec<CaseReport>,
    /// Entries of the known gaps that fit no failure.
    pub stale_gaps: Vec<String>,
    /// What `--seed` repeats the run.
    pub seed: u64,
}

/// What came out of one case.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CaseReport {
    /// The case.
    pub info: CaseInfo,
    /// How it ended.
    pub outcome: Outcome,
    /// What was sent and received.
    pub transcript: Vec<Line>,
    /// How long it took.
    pub duration: Duration,
}

impl CaseReport {
    /// One that took no time and moved no bytes.
    #[must_use]
    pub const fn new(info: CaseInfo, outcome: Outcome) -> Self {
        Self { info, outcome, transcript: Vec::new(), duration: Duration::ZERO }
    }

    /// Whether it failed, a known gap not counted.
    #[must_use]
    pub const fn is_failed(&self) -> bool {
        matches!(self.outcome, Outcome::Failed(_) | Outcome::Inconclusive(_))
    }
}

impl Report {
    /// Whether all is well: it could be judged, at least one case passed, no case of level MUST failed or was
    /// inconclusive, no known gap is stale.
    #[must_use]
    pub fn is_success(&self) -> bool {
        self.setup_error.is_none()
            && self.stale_gaps.is_empty()
            && self.cases.iter().any(|case| case.outcome == Outcome::Passed)
            && !self.cases.iter().any(|case| case.info.level == Level::Must && case.is_failed())
    }

    /// What a program exits with: 0 for success, 1 for failures and stale gaps, 3 if nothing could be judged.
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        match self.setup_error {
            Some(_) => 3,
            None => u8::from(!self.is_success()),
        }
    }

    /// The cases that failed, of either level.
    pub fn failed(&self) -> impl Iterator<Item = &CaseReport> {
        self.cases.iter().filter(|case| case.is_failed())
    }

    /// The ids of [`failed`](Self::failed).
    #[must_use]
    pub fn failed_ids(&self) -> Vec<&'static str> {
        self.failed().map(|case| case.info.id).collect()
    }
}

/// As [`text`] has it.
impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&text(self))
    }
}

#[cfg(test)]
mod tests;
