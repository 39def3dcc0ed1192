//! For people: what failed, and why.

use std::fmt::Write as _;

use super::{CaseReport, Report};
use crate::case::{Failure, Level, Outcome};

/// How many lines of a transcript are shown: its end.
const MAX_LINES: usize = 24;

/// Only what did not pass: the requirement, what would have been right, what was seen, and the bytes both ways.
#[must_use]
pub fn text(report: &Report) -> String {
    let mut text = String::new();
    // Writing to a `String` never fails.
    _ = write(&mut text, report);
    text
}

fn write(out: &mut String, report: &Report) -> std::fmt::Result {
    if let Some(error) = &report.setup_error {
        return writeln!(out, "{} cannot be judged: {error}", report.subject);
    }
    for case in report.failed() {
        write_failure(out, case)?;
    }
    write_others(out, report)?;
    write_summary(out, report)
}

fn write_summary(out: &mut String, report: &Report) -> std::fmt::Result {
    let count = |is: fn(&CaseReport) -> bool| report.cases.iter().filter(|case| is(case)).count();
    let passed = count(|case| matches!(case.outcome, Outcome::Passed));
    let failed = count(|case| matches!(case.outcome, Outcome::Failed(_)));
    write!(out, "{}: {passed} passed, {failed} failed", report.subject)?;
    let weak = count(|case| matches!(case.outcome, Outcome::Failed(_)) && case.info.level == Level::Should);
    if weak > 0 {
        write!(out, " ({weak} of them only SHOULD)")?;
    }
    for (count, what) in [
        (count(|case| matches!(case.outcome, Outcome::Inconclusive(_))), "inconclusive"),
        (count(|case| matches!(case.outcome, Outcome::NotRun(_))), "not run"),
        (count(|case| matches!(case.outcome, Outcome::KnownGap { .. })), "known gaps"),
    ] {
        if count > 0 {
            write!(out, ", {count} {what}")?;
        }
    }
    writeln!(out, " (seed {})", report.seed)
}

fn write_failure(out: &mut String, case: &CaseReport) -> std::fmt::Result {
    let (word, Failure { got, right }) = match &case.outcome {
        Outcome::Failed(failure) => ("FAILED", failure),
        Outcome::Inconclusive(failure) => ("INCONCLUSIVE (this machine was late itself)", failure),
        _ => return Ok(()),
    };
    let level = match case.info.level {
        Level::Must => "MUST",
        Level::Should => "SHOULD",
    };
    writeln!(out, "{word} {} ({level}, {})", case.info.id, case.info.clauses.join(", "))?;
    writeln!(out, "    {}", case.info.requirement)?;
    writeln!(out, "  right: {}", right.join("\n     or: "))?;
    writeln!(out, "    got: {got}")?;
    let left_out = case.transcript.len().saturating_sub(MAX_LINES);
    if left_out > 0 {
        writeln!(out, "              ... {left_out} earlier lines, which are in the JSON")?;
    }
    for line in &case.transcript[left_out..] {
        writeln!(out, "  {line}")?;
    }
    writeln!(out)
}

fn write_others(out: &mut String, report: &Report) -> std::fmt::Result {
    for case in &report.cases {
        match &case.outcome {
            Outcome::NotRun(reason) => writeln!(out, "not run: {}: {reason}", case.info.id)?,
            Outcome::KnownGap { reason, .. } => writeln!(out, "known gap: {}: {reason}", case.info.id)?,
            _ => {}
        }
    }
    for glob in &report.stale_gaps {
        writeln!(out, "STALE known gap `{glob}`: no case that fits it failed")?;
    }
    Ok(())
}
