//! Runs cases: first those that want to be alone, then the quick ones a few at a time and all slow ones beside them, then
//! those that have to be last.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use crate::case::{Case, CaseInfo, Failure, Outcome, Pace, Stop, Verdict};
use crate::gaps::Gaps;
use crate::report::{CaseReport, Report};
use crate::select::Selection;
use crate::transcript::Transcript;
use crate::watch::Watch;

/// How often a case runs again in which something was late: once may be a hiccup.
const MORE_TRIES: usize = 1;

/// Between the starts of two slow cases.
const STAGGER: Duration = Duration::from_millis(10);

/// A case and what it takes to run it.
struct Job {
    info: CaseInfo,
    /// May run several times; each time it gets an empty transcript.
    body: Box<dyn Fn(&Transcript) -> Verdict + Send + Sync>,
}

/// How jobs are run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    /// How many quick cases run at once.
    pub(crate) quick_at_once: usize,
    /// After this long a case that has not ended is given up.
    pub(crate) limit: Duration,
    /// What the cases allow for lateness.
    pub(crate) tolerance: Duration,
}

/// What is judged, by which cases.
#[derive(Debug, Default)]
pub(crate) struct Course {
    pub(crate) subject: String,
    pub(crate) selection: Selection,
    pub(crate) gaps: Gaps,
}

impl Course {
    /// Runs those of `cases` that are selected, each by `body`, if `set_up` finds something that can be judged.
    pub(crate) fn run<C: 'static>(
        self,
        seed: u64,
        cases: impl Iterator<Item = Case<C>>,
        plan: Plan,
        set_up: impl FnOnce() -> Result<(), String>,
        body: impl Fn(Case<C>, &Transcript) -> Verdict + Send + Sync + 'static,
    ) -> Report {
        let Self { subject, selection, gaps } = self;
        let mut report =
            Report { subject, setup_error: None, cases: Vec::new(), stale_gaps: Vec::new(), seed };
        let selected = selection.apply(cases, Case::info).map_err(|error| error.to_string());
        let cases = match selected.and_then(|cases| set_up().map(|()| cases)) {
            Ok(cases) => cases,
            Err(reason) => return Report { setup_error: Some(reason), ..report },
        };
        let body = Arc::new(body);
        let jobs = cases.into_iter().map(|case| {
            let body = Arc::clone(&body);
            Job { info: case.info(), body: Box::new(move |transcript| body(case, transcript)) }
        });
        report.cases = run(jobs.collect(), plan);
        report.stale_gaps = gaps.apply(&mut report.cases);
        report
    }
}

/// Runs all; the reports are in the order of the jobs.
fn run(jobs: Vec<Job>, plan: Plan) -> Vec<CaseReport> {
    let watch = Watch::start();
    let mut jobs: Vec<_> = jobs.into_iter().enumerate().collect();
    let mut of = |pace| jobs.extract_if(.., |(_, job)| job.info.pace == pace).collect::<Vec<_>>();
    let [alone, quick, slow, last] = [Pace::Alone, Pace::Quick, Pace::Slow, Pace::Last].map(&mut of);
    let quick = Mutex::new(quick.into_iter());
    let reports = Mutex::new(Vec::new());
    let run_one = |(index, job): (usize, Job)| {
        let report = run_job(job, plan, &watch);
        reports.lock().unwrap_or_else(PoisonError::into_inner).push((index, report));
    };
    alone.into_iter().for_each(run_one);
    thread::scope(|scope| {
        for job in slow {
            scope.spawn(|| run_one(job));
            // All at once they would overrun a short backlog.
            thread::sleep(STAGGER);
        }
        for _ in 0..plan.quick_at_once {
            scope.spawn(|| {
                loop {
                    let next = quick.lock().unwrap_or_else(PoisonError::into_inner).next();
                    let Some(job) = next else { break };
                    run_one(job);
                }
            });
        }
    });
    last.into_iter().for_each(run_one);
    let mut reports = reports.into_inner().unwrap_or_else(PoisonError::into_inner);
    reports.sort_by_key(|&(index, _)| index);
    reports.into_iter().map(|(_, report)| report).collect()
}

fn run_job(job: Job, plan: Plan, watch: &Watch) -> CaseReport {
    let job = Arc::new(job);
    let mut tries = 0;
    loop {
        let start = Instant::now();
        let (verdict, transcript) = run_once(&job, plan.limit);
        let outcome = match verdict {
            Ok(()) => Outcome::Passed,
            Err(Stop::Failed(failure)) => Outcome::Failed(failure),
            Err(Stop::NotRun(reason)) => Outcome::NotRun(reason),
            Err(Stop::Late(_) | Stop::Disturbed(_)) if tries < MORE_TRIES => {
                tries += 1;
                continue;
            }
            Err(Stop::Late(failure)) if watch.lateness_since(start) < plan.tolerance / 4 => {
                Outcome::Failed(failure)
            }
            Err(Stop::Late(failure) | Stop::Disturbed(failure)) => Outcome::Inconclusive(failure),
        };
        return CaseReport {
            transcript: transcript.lines(),
            duration: start.elapsed(),
            ..CaseReport::new(job.info, outcome)
        };
    }
}

/// On a thread of its own, so that a case that hangs can be given up.
fn run_once(job: &Arc<Job>, limit: Duration) -> (Verdict, Transcript) {
    let transcript = Transcript::new();
    let (sender, receiver) = mpsc::channel();
    let (job, written) = (Arc::clone(job), transcript.clone());
    thread::spawn(move || {
        let result = catch_unwind(AssertUnwindSafe(|| (job.body)(&written)));
        let verdict = result.unwrap_or_else(|panic| {
            Err(Stop::failed(format!("the case panicked: {}", panic_text(&*panic)), "no panic"))
        });
        // Nobody listens any more if the case was given up.
        _ = sender.send(verdict);
    });
    let verdict = receiver.recv_timeout(limit).unwrap_or_else(|_| {
        Err(Stop::Failed(Failure {
            got: format!("the case had not ended after {} s", limit.as_secs()),
            right: vec!["an end".to_owned()],
        }))
    });
    (verdict, transcript)
}

fn panic_text(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("without a text")
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;
    use crate::case::Case;

    const PLAN: Plan =
        Plan { quick_at_once: 2, limit: Duration::from_secs(60), tolerance: Duration::from_secs(1) };

    fn job(id: &'static str, body: impl Fn(&Transcript) -> Verdict + Send + Sync + 'static) -> Job {
        Job { info: Case::<()>::new(id, &["FR-1"], "", |()| Ok(())).info(), body: Box::new(body) }
    }

    #[test]
    fn each_outcome_is_reported_in_the_order_of_the_cases() {
        let jobs = vec![
            job("a/passes", |transcript| {
                transcript.event("C1", "seen");
                Ok(())
            }),
            job("a/fails", |_| Err(Stop::failed("this", "that"))),
            job("a/not-run", |_| Err(Stop::not_run("no limits"))),
            job("a/panics", |_| panic!("oh {}", "no")),
        ];
        let reports = run(jobs, PLAN);
        let ids: Vec<_> = reports.iter().map(|report| report.info.id).collect();
        assert_eq!(ids, ["a/passes", "a/fails", "a/not-run", "a/panics"]);
        assert_eq!(reports[0].outcome, Outcome::Passed);
        assert_eq!(reports[0].transcript[0].meaning, "seen");
        assert!(matches!(&reports[1].outcome, Outcome::Failed(failure) if failure.got == "this"));
        assert_eq!(reports[2].outcome, Outcome::NotRun("no limits".to_owned()));
        assert!(matches!(&reports[3].outcome, Outcome::Failed(f) if f.got == "the case panicked: oh no"));
    }

    /// U03
    #[test]
    fn a_case_that_hangs_is_given_up_and_fails() {
        let jobs = vec![job("a/hangs", |_| {
            loop {
                thread::park();
            }
        })];
        let reports = run(jobs, Plan { limit: Duration::from_millis(50), ..PLAN });
        assert!(matches!(&reports[0].outcome, Outcome::Failed(f) if f.got.contains("had not ended")));
    }

    /// U06
    #[test]
    fn a_late_answer_on_a_late_machine_is_inconclusive() {
        let late = || vec![job("a/late", |_| Err(Stop::late("after 9 s", "after 5 s")))];
        // Any lateness at all is too much.
        let reports = run(late(), Plan { tolerance: Duration::ZERO, ..PLAN });
        assert!(matches!(reports[0].outcome, Outcome::Inconclusive(_)));
        // No lateness ever is.
        let reports = run(late(), Plan { tolerance: Duration::from_secs(100_000), ..PLAN });
        assert!(matches!(reports[0].outcome, Outcome::Failed(_)));
    }

    /// U06
    #[test]
    fn a_case_that_was_disturbed_runs_again_and_is_never_a_failure() {
        let tries = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&tries);
        let disturbed = move |_: &Transcript| {
            counted.fetch_add(1, Ordering::Relaxed);
            Err(Stop::disturbed("3 s", "1 s"))
        };
        let reports = run(vec![job("a/disturbed", disturbed)], PLAN);
        assert!(matches!(reports[0].outcome, Outcome::Inconclusive(_)));
        assert_eq!(tries.load(Ordering::Relaxed), 1 + MORE_TRIES);
    }
}
