//! What a case is, and how it can end.

use std::fmt;

/// How strongly a clause asks for what a case looks at.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Level {
    /// Who breaks it does not speak the protocol.
    Must,
    /// SPEC.md says SHOULD.
    Should,
}

/// How long a case takes against an implementation that is right.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Pace {
    /// Less than 5 s.
    Quick,
    /// 5 s or more: it sits out one of the protocol's times.
    Slow,
    /// Nothing else may run meanwhile: it counts.
    Alone,
    /// It runs when all others have: it stops what is judged.
    Last,
}

/// What is known of a case before it runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, serde::Serialize)]
#[non_exhaustive]
pub struct CaseInfo {
    /// Its name, `room/what-it-shows`. It never changes and is never given to another case.
    pub id: &'static str,
    /// How strong the requirement is.
    pub level: Level,
    /// How long it takes.
    pub pace: Pace,
    /// The clauses of SPEC.md that it looks at.
    pub clauses: &'static [&'static str],
    /// What has to hold, in a sentence.
    pub requirement: &'static str,
}

/// A case that runs in a context `C`.
pub struct Case<C> {
    info: CaseInfo,
    run: fn(&mut C) -> Verdict,
}

impl<C> Case<C> {
    /// A quick case of level MUST.
    #[must_use]
    pub const fn new(
        id: &'static str,
        clauses: &'static [&'static str],
        requirement: &'static str,
        run: fn(&mut C) -> Verdict,
    ) -> Self {
        Self { info: CaseInfo { id, level: Level::Must, pace: Pace::Quick, clauses, requirement }, run }
    }

    /// The same, of level SHOULD.
    #[must_use]
    pub const fn should(mut self) -> Self {
        self.info.level = Level::Should;
        self
    }

    /// The same, but it takes 5 s or more.
    #[must_use]
    pub const fn slow(mut self) -> Self {
        self.info.pace = Pace::Slow;
        self
    }

    /// The same, but nothing else may run meanwhile.
    #[must_use]
    pub const fn alone(mut self) -> Self {
        self.info.pace = Pace::Alone;
        self
    }

    /// The same, but it runs when all others have.
    #[must_use]
    pub const fn last(mut self) -> Self {
        self.info.pace = Pace::Last;
        self
    }

    /// What is known of it.
    #[must_use]
    pub const fn info(&self) -> CaseInfo {
        self.info
    }

    /// Runs it.
    ///
    /// # Errors
    /// How it ended, if the requirement was not seen to hold.
    pub fn run(&self, context: &mut C) -> Verdict {
        (self.run)(context)
    }
}

impl<C> Clone for Case<C> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<C> Copy for Case<C> {}

impl<C> fmt::Debug for Case<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Case").field(&self.info).finish()
    }
}

/// How a case's body ends: `Ok` if the requirement holds.
pub type Verdict = Result<(), Stop>;

/// Why a case's body ended before its end.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Stop {
    /// The requirement does not hold.
    Failed(Failure),
    /// Right, but later than the tolerance allows. Once proves nothing, nor if this machine was late itself.
    Late(Failure),
    /// The suite itself was too slow to see.
    Disturbed(Failure),
    /// The case asks for what was not given: limits, a half-close, TLS.
    NotRun(String),
}

impl Stop {
    /// The requirement does not hold: what was seen, and what would have been right.
    pub fn failed(got: impl Into<String>, right: impl Into<String>) -> Self {
        Self::Failed(Failure { got: got.into(), right: vec![right.into()] })
    }

    /// It came too late: what was seen, and what would have been right.
    pub fn late(got: impl Into<String>, right: impl Into<String>) -> Self {
        Self::Late(Failure { got: got.into(), right: vec![right.into()] })
    }

    /// The suite itself was too slow: what happened, and what it takes.
    pub fn disturbed(got: impl Into<String>, right: impl Into<String>) -> Self {
        Self::Disturbed(Failure { got: got.into(), right: vec![right.into()] })
    }

    /// The case asks for something that was not given.
    pub fn not_run(reason: impl Into<String>) -> Self {
        Self::NotRun(reason.into())
    }
}

/// What is wrong.
#[derive(Clone, PartialEq, Eq, Debug, serde::Serialize)]
pub struct Failure {
    /// What was seen.
    pub got: String,
    /// What would have been right: any one of these.
    pub right: Vec<String>,
}

/// How a case ended.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Outcome {
    /// The requirement holds.
    Passed,
    /// It does not.
    Failed(Failure),
    /// It was too late, while this machine was too busy to tell: again, on a quieter one.
    Inconclusive(Failure),
    /// It needs something that was not given.
    NotRun(String),
    /// It fails, and the file of known gaps has a reason for it.
    KnownGap {
        /// The reason in the file.
        reason: String,
        /// What is wrong.
        failure: Failure,
    },
}
