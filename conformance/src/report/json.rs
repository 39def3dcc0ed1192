//! For programs.

use serde::Serialize;
use serde_json::{Value, json};

use super::{CaseReport, Report};
use crate::case::Outcome;
use crate::transcript::{Line, hex};

#[derive(Serialize)]
struct LineJson<'a> {
    at_ms: u64,
    who: &'a str,
    direction: crate::transcript::Direction,
    /// The beginning, if `len` says that there were more.
    hex: String,
    len: usize,
    meaning: &'a str,
}

/// Everything in the report, as one JSON object.
#[must_use]
pub fn json(report: &Report) -> String {
    let object = json!({
        "subject": report.subject,
        "seed": report.seed,
        "success": report.is_success(),
        "setup_error": report.setup_error,
        "stale_known_gaps": report.stale_gaps,
        "cases": report.cases.iter().map(case).collect::<Vec<_>>(),
    });
    format!("{object:#}\n")
}

fn case(case: &CaseReport) -> Value {
    let (outcome, reason, failure) = match &case.outcome {
        Outcome::Passed => ("passed", None, None),
        Outcome::Failed(failure) => ("failed", None, Some(failure)),
        Outcome::Inconclusive(failure) => ("inconclusive", None, Some(failure)),
        Outcome::NotRun(reason) => ("not_run", Some(reason), None),
        Outcome::KnownGap { reason, failure } => ("known_gap", Some(reason), Some(failure)),
    };
    json!({
        "id": case.info.id,
        "level": case.info.level,
        "pace": case.info.pace,
        "clauses": case.info.clauses,
        "requirement": case.info.requirement,
        "outcome": outcome,
        "reason": reason,
        "failure": failure,
        "duration_ms": millis(case.duration),
        "transcript": case.transcript.iter().map(line).collect::<Vec<_>>(),
    })
}

fn line(line: &Line) -> LineJson<'_> {
    LineJson {
        at_ms: millis(line.at),
        who: &line.who,
        direction: line.direction,
        hex: hex(&line.bytes),
        len: line.len,
        meaning: &line.meaning,
    }
}

fn millis(span: std::time::Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}
