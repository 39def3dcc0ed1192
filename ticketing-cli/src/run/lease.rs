//! When the command is stopped: the points in time that `run`, its guard and the command's start share.

use std::time::Duration;

use ticketing_tokio::Instant;

use crate::clock::before;

/// How long before the lease's end KILL is sent: a busy host takes a moment to wake the guard, and a signal to act.
pub(super) fn kill_ahead(lease: Duration) -> Duration {
    (lease / 20).min(Duration::from_millis(100))
}

/// The end of a lease, as it acts on the command.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Ends {
    /// TERM is sent.
    pub(crate) term_at: Instant,
    /// KILL is sent.
    pub(crate) kill_at: Instant,
    /// How long a command that is stopped for another reason has between TERM and KILL, at most.
    pub(crate) grace: Duration,
}

impl Ends {
    /// The points for a lease that can be relied on until `valid_until`.
    pub(crate) fn of(valid_until: Instant, lease: Duration, grace: Duration) -> Self {
        let kill_at = before(valid_until, kill_ahead(lease));
        Self { term_at: before(kill_at, grace), kill_at, grace }
    }
}

/// What to do to the process group.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Act {
    /// Ask it to end.
    Term,
    /// End it. The last act.
    Kill,
}

/// Decides when to stop the group. Asked again and again, it gives each act once.
#[derive(Debug)]
pub(crate) struct Watch {
    ends: Ends,
    term_due: Option<Instant>,
}

impl Watch {
    pub(crate) fn new(ends: Ends) -> Self {
        Self { ends, term_due: Some(ends.term_at) }
    }

    /// The group is to end now: TERM at once, KILL after the grace or at the lease's end.
    pub(crate) fn end_now(&mut self, now: Instant) {
        self.term_due = Some(now);
        self.ends.kill_at = self.ends.kill_at.min(now + self.ends.grace);
    }

    /// What is due.
    pub(crate) fn act(&mut self, now: Instant) -> Option<Act> {
        if now >= self.ends.kill_at {
            return Some(Act::Kill);
        }
        self.term_due.take_if(|due| now >= *due).map(|_| Act::Term)
    }

    /// When something is due next.
    pub(crate) fn next(&self) -> Instant {
        self.term_due.map_or(self.ends.kill_at, |due| due.min(self.ends.kill_at))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Instant {
        Instant::from_origin(Duration::from_millis(millis))
    }

    fn ends() -> Ends {
        Ends::of(at(10_100), Duration::from_secs(20), Duration::from_secs(2))
    }

    #[test]
    fn term_comes_a_grace_before_kill_and_once() {
        let mut watch = Watch::new(ends());
        assert_eq!((watch.act(at(7999)), watch.next()), (None, at(8000)));
        assert_eq!(watch.act(at(8000)), Some(Act::Term));
        assert_eq!((watch.act(at(8001)), watch.next()), (None, at(10_000)));
        assert_eq!(watch.act(at(10_000)), Some(Act::Kill));
    }

    #[test]
    fn after_a_long_pause_it_is_kill_at_once() {
        assert_eq!(Watch::new(ends()).act(at(60_000)), Some(Act::Kill));
    }

    #[test]
    fn an_early_end_has_the_grace_but_never_outlives_the_lease() {
        let mut watch = Watch::new(ends());
        watch.end_now(at(1000));
        assert_eq!((watch.act(at(1000)), watch.next()), (Some(Act::Term), at(3000)));
        assert_eq!(watch.act(at(3000)), Some(Act::Kill));

        let mut watch = Watch::new(ends());
        assert_eq!(watch.act(at(9000)), Some(Act::Term));
        watch.end_now(at(9500));
        assert_eq!((watch.act(at(9500)), watch.next()), (Some(Act::Term), at(10_000)));
    }

    #[test]
    fn without_grace_there_is_only_kill() {
        let mut watch = Watch::new(Ends::of(at(1050), Duration::from_secs(1), Duration::ZERO));
        assert_eq!(watch.act(at(999)), None);
        assert_eq!(watch.act(at(1000)), Some(Act::Kill));
    }
}
