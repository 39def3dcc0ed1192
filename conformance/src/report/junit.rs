//! For CI: JUnit's XML. What does not fail the run is no failure there either.

use std::fmt::{self, Write as _};

use super::{CaseReport, Report};
use crate::case::{Failure, Level, Outcome};

/// One test suite; its test cases have the rooms for classes and the ids for names.
#[must_use]
pub fn junit(report: &Report) -> String {
    let mut xml = String::new();
    // Writing to a `String` never fails.
    _ = write(&mut xml, report);
    xml
}

fn write(out: &mut String, report: &Report) -> fmt::Result {
    let errors = usize::from(report.setup_error.is_some()) + report.stale_gaps.len();
    let failures = report.cases.iter().filter(|case| is_failure(case)).count();
    let skipped =
        report.cases.iter().filter(|case| !is_failure(case) && case.outcome != Outcome::Passed).count();
    let tests = report.cases.len() + errors;
    let time: f64 = report.cases.iter().map(|case| case.duration.as_secs_f64()).sum();
    let name = Escaped(&report.subject);
    writeln!(out, r#"<?xml version="1.0" encoding="UTF-8"?>"#)?;
    writeln!(out, r#"<testsuites name="ticketing-conformance">"#)?;
    writeln!(
        out,
        r#"<testsuite name="{name}" tests="{tests}" failures="{failures}" errors="{errors}" skipped="{skipped}" time="{time:.3}">"#
    )?;
    if let Some(error) = &report.setup_error {
        write_error(out, "set-up", error)?;
    }
    for glob in &report.stale_gaps {
        write_error(out, &format!("known-gap {glob}"), "stale: no case that fits it failed")?;
    }
    report.cases.iter().try_for_each(|case| write_case(out, case))?;
    writeln!(out, "</testsuite>\n</testsuites>")
}

fn is_failure(case: &CaseReport) -> bool {
    case.info.level == Level::Must && case.is_failed()
}

fn write_error(out: &mut String, name: &str, message: &str) -> fmt::Result {
    let (name, message) = (Escaped(name), Escaped(message));
    writeln!(out, r#"<testcase classname="run" name="{name}"><error message="{message}"/></testcase>"#)
}

fn write_case(out: &mut String, case: &CaseReport) -> fmt::Result {
    let id = case.info.id;
    let room = id.split('/').next().unwrap_or(id);
    let time = case.duration.as_secs_f64();
    write!(out, r#"<testcase classname="{room}" name="{id}" time="{time:.3}">"#)?;
    match &case.outcome {
        Outcome::Passed => {}
        Outcome::NotRun(reason) => write_skipped(out, &format!("not run: {reason}"))?,
        Outcome::KnownGap { reason, .. } => write_skipped(out, &format!("known gap: {reason}"))?,
        Outcome::Failed(failure) | Outcome::Inconclusive(failure) if !is_failure(case) => {
            write_skipped(out, &format!("SHOULD, and is not: {}", failure.got))?;
        }
        Outcome::Failed(failure) => write_failure(out, case, "failed", failure)?,
        Outcome::Inconclusive(failure) => write_failure(out, case, "inconclusive", failure)?,
    }
    writeln!(out, "</testcase>")
}

fn write_skipped(out: &mut String, message: &str) -> fmt::Result {
    write!(out, r#"<skipped message="{}"/>"#, Escaped(message))
}

fn write_failure(out: &mut String, case: &CaseReport, kind: &str, failure: &Failure) -> fmt::Result {
    let right = failure.right.join(" or: ");
    write!(out, r#"<failure type="{kind}" message="{}">"#, Escaped(&failure.got))?;
    writeln!(out, "{}: {}", case.info.clauses.join(", "), Escaped(case.info.requirement))?;
    writeln!(out, "right: {}", Escaped(&right))?;
    for line in &case.transcript {
        writeln!(out, "{}", Escaped(&line.to_string()))?;
    }
    write!(out, "</failure>")
}

/// Text inside of XML. What XML has no way to write becomes U+FFFD.
struct Escaped<'a>(&'a str);

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.chars().try_for_each(|character| match character {
            '&' => f.write_str("&amp;"),
            '<' => f.write_str("&lt;"),
            '>' => f.write_str("&gt;"),
            '"' => f.write_str("&quot;"),
            '\t' | '\n' | '\r' => write!(f, "&#{};", u32::from(character)),
            '\0'..='\x1f' | '\u{fffe}' | '\u{ffff}' => f.write_char('\u{fffd}'),
            _ => f.write_char(character),
        })
    }
}
