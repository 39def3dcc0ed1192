//! What came out of a run, and how it is written down.

mod text;

use std::time::Duration;

use crate::case::{CaseInfo, Level, Outcome};
use crate::transcript::Line;

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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::case::{Case, Failure};

    fn report(outcomes: &[(Level, Outcome)]) -> Report {
        let case = |(level, outcome): &(Level, Outcome)| {
            let case = Case::<()>::new("a/b", &["FR-1"], "", |()| Ok(()));
            let case = if *level == Level::Should { case.should() } else { case };
            CaseReport::new(case.info(), outcome.clone())
        };
        Report {
            subject: "a server".to_owned(),
            setup_error: None,
            cases: outcomes.iter().map(case).collect(),
            stale_gaps: Vec::new(),
            seed: 1,
        }
    }

    fn failure() -> Failure {
        Failure { got: "this".to_owned(), right: vec!["that".to_owned()] }
    }

    /// U01
    #[test]
    fn success_is_that_something_passed_and_no_must_failed() {
        use Level::{Must, Should};
        let passed = (Must, Outcome::Passed);
        let not_run = (Must, Outcome::NotRun("no limits".to_owned()));
        let gap = (Must, Outcome::KnownGap { reason: "soon".to_owned(), failure: failure() });
        assert!(report(&[passed.clone(), not_run.clone(), gap.clone()]).is_success());
        assert!(report(&[passed.clone(), (Should, Outcome::Failed(failure()))]).is_success());
        assert!(!report(&[passed.clone(), (Must, Outcome::Failed(failure()))]).is_success());
        assert!(!report(&[passed.clone(), (Must, Outcome::Inconclusive(failure()))]).is_success());
        assert!(!report(&[]).is_success());
        assert!(!report(&[not_run, gap]).is_success());
        assert!(!Report { setup_error: Some("down".to_owned()), ..report(&[]) }.is_success());
        assert!(!Report { stale_gaps: vec!["a/*".to_owned()], ..report(&[passed]) }.is_success());
    }
}
