use super::*;
use crate::case::{Case, Failure};
use crate::transcript::Transcript;

fn report(outcomes: &[(Level, Outcome)]) -> Report {
    let case = |(index, (level, outcome)): (usize, &(Level, Outcome))| {
        let id = ["a/first", "a/second", "b/third"][index];
        let case = Case::<()>::new(id, &["FR-1"], "It is <right>.", |()| Ok(()));
        let case = if *level == Level::Should { case.should() } else { case };
        let transcript = Transcript::new();
        transcript.sent("C1", b"A\n", "half an \x1b acquire");
        CaseReport { transcript: transcript.lines(), ..CaseReport::new(case.info(), outcome.clone()) }
    };
    Report {
        subject: "a \"server\"".to_owned(),
        setup_error: None,
        cases: outcomes.iter().enumerate().map(case).collect(),
        stale_gaps: Vec::new(),
        seed: 1,
    }
}

fn failure() -> Failure {
    Failure { got: "this & that".to_owned(), right: vec!["one".to_owned(), "two".to_owned()] }
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
    let down = Report { setup_error: Some("down".to_owned()), ..report(&[]) };
    assert!(!down.is_success());
    assert_eq!(down.exit_code(), 3);
    let stale = Report { stale_gaps: vec!["a/*".to_owned()], ..report(&[passed]) };
    assert!(!stale.is_success());
    assert_eq!(stale.exit_code(), 1);
}

fn three() -> Report {
    report(&[
        (Level::Must, Outcome::Passed),
        (Level::Must, Outcome::Failed(failure())),
        (Level::Should, Outcome::Failed(failure())),
    ])
}

/// U05
#[test]
fn the_json_has_every_case_and_agrees_with_the_exit_code() {
    let value: serde_json::Value = serde_json::from_str(&json(&three())).unwrap();
    assert_eq!(value["success"], false);
    assert_eq!(value["cases"][0]["outcome"], "passed");
    assert_eq!(value["cases"][1]["id"], "a/second");
    assert_eq!(value["cases"][1]["failure"]["right"][1], "two");
    assert_eq!(value["cases"][1]["transcript"][0]["hex"], "41 0a");
    assert_eq!(value["cases"][2]["level"], "should");
}

/// U01, U05
#[test]
fn the_junit_has_a_failure_only_for_what_fails_the_run() {
    let xml = junit(&three());
    assert!(
        xml.contains(
            r#"<testsuite name="a &quot;server&quot;" tests="3" failures="1" errors="0" skipped="1""#
        )
    );
    assert!(xml.contains(r#"<failure type="failed" message="this &amp; that">FR-1: It is &lt;right&gt;."#));
    assert!(xml.contains("half an \u{fffd} acquire"));
    assert!(xml.contains(r#"<testcase classname="b" name="b/third" time="0.000"><skipped message="SHOULD"#));
}

#[test]
fn the_text_has_what_failed_with_all_that_is_needed_to_see_why() {
    let text = text(&three());
    assert!(!text.contains("a/first"));
    for part in [
        "FAILED a/second (MUST, FR-1)",
        "It is <right>.",
        "right: one",
        "or: two",
        "got: this & that",
        "41 0a",
    ] {
        assert!(text.contains(part), "no `{part}` in:\n{text}");
    }
    assert!(text.ends_with("1 passed, 2 failed (1 of them only SHOULD) (seed 1)\n"), "{text}");
}

#[test]
fn the_text_has_the_end_of_a_long_transcript() {
    let mut report = three();
    let transcript = Transcript::new();
    (0..100).for_each(|number| transcript.event("C1", format!("event {number}")));
    report.cases[1].transcript = transcript.lines();
    let text = text(&report);
    assert!(
        text.contains("... 76 earlier lines") && !text.contains("event 75\n") && text.contains("event 76\n")
    );
}

#[test]
fn a_server_that_is_down_is_one_error_everywhere() {
    let report = Report { setup_error: Some("connection refused".to_owned()), ..report(&[]) };
    assert_eq!(text(&report), "a \"server\" cannot be judged: connection refused\n");
    assert!(
        junit(&report)
            .contains(r#"<testcase classname="run" name="set-up"><error message="connection refused"/>"#)
    );
    assert!(json(&report).contains(r#""setup_error": "connection refused""#));
}
