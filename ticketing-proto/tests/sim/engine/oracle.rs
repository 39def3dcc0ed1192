use std::fmt::Write;

use super::clock::Time;
use super::facts::{Event, Facts};
use super::invariants::{self, Invariant};

/// A promise that was broken.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Violation {
    pub(crate) at: Time,
    pub(crate) invariant: &'static str,
    pub(crate) what: String,
}

/// How a run is watched.
#[derive(Clone, Copy, Default)]
pub(crate) struct Watch {
    /// What happens is written down.
    pub(crate) is_traced: bool,
    /// Until its end the server's own counters are not looked at: the wire and the callers' results must do.
    pub(crate) hides_counters: bool,
}

/// Sees everything that happens, and judges it.
pub(crate) struct Oracle {
    pub(crate) facts: Facts,
    invariants: Vec<Box<dyn Invariant>>,
    pub(crate) violation: Option<Violation>,
    pub(crate) hides_counters: bool,
    trace: Option<String>,
}

impl Oracle {
    pub(crate) fn new(sees_wire: bool, watch: Watch) -> Self {
        Self {
            facts: Facts::new(sees_wire),
            invariants: invariants::all(),
            violation: None,
            hides_counters: watch.hides_counters,
            trace: watch.is_traced.then(String::new),
        }
    }

    /// Each invariant sees an event before it becomes a fact. The first violation ends the run.
    pub(crate) fn see(&mut self, at: Time, event: &Event) {
        self.note(at, || format!("{event:?}"));
        if self.violation.is_some() {
            return;
        }
        for invariant in &mut self.invariants {
            if let Err(what) = invariant.check(&self.facts, event) {
                self.violation = Some(Violation { at, invariant: invariant.name(), what });
                return;
            }
        }
        self.facts.apply(event);
    }

    pub(crate) fn fail(&mut self, at: Time, what: String) {
        self.violation.get_or_insert(Violation { at, invariant: "the run itself", what });
    }

    /// Adds a line to the trace, if there is one.
    pub(crate) fn note(&mut self, at: Time, line: impl FnOnce() -> String) {
        if let Some(trace) = &mut self.trace {
            let line = line();
            writeln!(trace, "{:>13.6} {line}", at.as_secs_f64()).expect("a string takes everything");
        }
    }

    pub(crate) fn into_trace(self) -> (Option<Violation>, String) {
        (self.violation, self.trace.unwrap_or_default())
    }
}
