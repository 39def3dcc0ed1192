//! Known gaps: failures that are expected, each with its reason.
//!
//! One per line, `case id glob = reason`; `*` stands for any characters, `#` begins a comment line.

use std::fmt;

use crate::case::{CaseInfo, Outcome};
use crate::report::CaseReport;
use crate::select::NoMatch;

/// What a file of known gaps says.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Gaps {
    entries: Vec<Gap>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
struct Gap {
    glob: String,
    reason: String,
}

impl Gaps {
    /// Reads the text of such a file.
    ///
    /// # Errors
    /// [`GapsError`] for the first line that is none of the format.
    pub fn parse(text: &str) -> Result<Self, GapsError> {
        let mut entries = Vec::new();
        for (index, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let parts = line.split_once('=').map(|(glob, reason)| (glob.trim(), reason.trim()));
            match parts {
                Some((glob, reason)) if !glob.is_empty() && !reason.is_empty() => {
                    entries.push(Gap { glob: glob.to_owned(), reason: reason.to_owned() });
                }
                _ => return Err(GapsError { line: index + 1 }),
            }
        }
        Ok(Self { entries })
    }

    /// Checks that each entry fits one of a suite's cases.
    ///
    /// # Errors
    /// [`NoMatch`] for the first one that fits none.
    pub fn check(&self, cases: &[CaseInfo]) -> Result<(), NoMatch> {
        match self.entries.iter().find(|gap| !cases.iter().any(|case| fits(&gap.glob, case.id))) {
            Some(gap) => Err(NoMatch { prefix: gap.glob.clone() }),
            None => Ok(()),
        }
    }

    /// Turns failures that are expected into known gaps, and gives the entries that are stale: of the cases that fit
    /// one of them some passed, and none failed.
    #[must_use]
    pub fn apply(&self, cases: &mut [CaseReport]) -> Vec<String> {
        let mut stale = Vec::new();
        for gap in &self.entries {
            let (mut fails, mut passes) = (false, false);
            for case in cases.iter_mut().filter(|case| fits(&gap.glob, case.info.id)) {
                match &case.outcome {
                    Outcome::Failed(failure) => {
                        let (reason, failure) = (gap.reason.clone(), failure.clone());
                        case.outcome = Outcome::KnownGap { reason, failure };
                        fails = true;
                    }
                    Outcome::KnownGap { .. } => fails = true,
                    Outcome::Passed => passes = true,
                    Outcome::NotRun(_) | Outcome::Inconclusive(_) => {}
                }
            }
            if passes && !fails {
                stale.push(gap.glob.clone());
            }
        }
        stale
    }
}

/// A line that is no `case id glob = reason`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct GapsError {
    /// Counted from 1.
    pub line: usize,
}

impl fmt::Display for GapsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {} is not `case id glob = reason`", self.line)
    }
}

impl std::error::Error for GapsError {}

fn fits(glob: &str, id: &str) -> bool {
    match glob.split_once('*') {
        None => glob == id,
        Some((before, behind)) => id.strip_prefix(before).is_some_and(|rest| {
            rest.char_indices().map(|(at, _)| at).chain([rest.len()]).any(|at| fits(behind, &rest[at..]))
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::case::{Case, Failure};

    fn case(id: &'static str, passed: bool) -> CaseReport {
        let info = Case::<()>::new(id, &["FR-1"], "", |()| Ok(())).info();
        let failure = Failure { got: "nothing".to_owned(), right: vec!["something".to_owned()] };
        CaseReport::new(info, if passed { Outcome::Passed } else { Outcome::Failed(failure) })
    }

    #[test]
    fn an_expected_failure_is_a_known_gap_and_an_entry_without_one_is_stale() {
        let text = "# what is missing\nlocks/* = soon\n\nframing/a = never\nqueue/*-z = x = y\n";
        let gaps = Gaps::parse(text).unwrap();
        let mut cases =
            [case("locks/a", false), case("locks/b", true), case("framing/a", true), case("queue/b", false)];
        // Nothing that fits the last one ran, so nobody knows.
        assert_eq!(gaps.apply(&mut cases), ["framing/a"]);
        assert!(matches!(&cases[0].outcome, Outcome::KnownGap { reason, .. } if reason == "soon"));
        assert_eq!(cases[1].outcome, Outcome::Passed);
        assert!(matches!(cases[3].outcome, Outcome::Failed(_)));
        let known = cases.map(|case| case.info);
        assert_eq!(gaps.check(&known), Err(NoMatch { prefix: "queue/*-z".to_owned() }));
    }

    #[test]
    fn globs_fit_whole_ids() {
        assert!(fits("a/*-b", "a/x-y-b"));
        assert!(fits("*", "a/b"));
        assert!(fits("a/b", "a/b"));
        assert!(!fits("a/b", "a/bc"));
        assert!(!fits("a/*-b", "a/x-b-c"));
    }

    #[test]
    fn a_line_without_a_reason_is_refused() {
        assert_eq!(Gaps::parse("# ok\nlocks/a\n"), Err(GapsError { line: 2 }));
        assert_eq!(Gaps::parse("locks/a = "), Err(GapsError { line: 1 }));
    }
}
