//! What `run` asks for, and which wishes can never be granted.

use std::time::Duration;

use ticketing_proto::key::KeyRef;
use ticketing_proto::limits::{Lease, MAX_LEASE, Wait, WorkBudget};

use super::lease::kill_ahead;
use crate::cli::RunArgs;
use crate::exit::Failure;

/// What the default lease has beyond wait and budget.
const SPARE: Duration = Duration::from_secs(30);
/// The budget where none is given and the lease allows it.
const DEFAULT_BUDGET: Duration = Duration::from_secs(10);
/// The grace where none is given and the lease allows it.
const DEFAULT_GRACE: Duration = Duration::from_secs(5);

/// The durations of one run, checked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Plan {
    /// How long to wait for the lock; zero tries once.
    pub(crate) wait: Duration,
    /// How long it is taken for: whole seconds.
    pub(crate) lease: Duration,
    /// What must be left of it when the command starts: with less than the grace, TERM would come at once.
    pub(crate) budget: Duration,
    /// How long before its end the command gets TERM.
    pub(crate) grace: Duration,
}

impl Plan {
    /// Checks the key and the durations.
    pub(crate) fn new(args: &RunArgs) -> Result<Self, Failure> {
        KeyRef::for_client(&args.key).map_err(Failure::usage)?;
        let wait = if args.no_wait { Duration::ZERO } else { args.wait };
        Self::of(wait, args.lease, args.budget, args.grace).map_err(Failure::usage)
    }

    fn of(
        wait: Duration,
        lease: Option<Duration>,
        budget: Option<Duration>,
        grace: Option<Duration>,
    ) -> Result<Self, String> {
        let wait = Wait::new(wait).map_err(|error| error.to_string())?.duration();
        if let Some(budget) = budget {
            WorkBudget::new(budget).map_err(|error| error.to_string())?;
        }
        let lease = match lease {
            Some(lease) => Lease::new(lease).map_err(|error| error.to_string())?.duration(),
            None => default_lease(wait, budget.unwrap_or(DEFAULT_BUDGET)),
        };
        let grace = grace.unwrap_or(DEFAULT_GRACE.min(lease / 10));
        let needed_for_grace = grace.saturating_add(kill_ahead(lease));
        let budget = budget.unwrap_or(DEFAULT_BUDGET.min(lease / 2));
        // A client vouches for a thousandth less than the lease: clocks differ (`CD-3`).
        let usable = lease - lease / 1000;
        for (name, needed) in [("budget", budget), ("grace", needed_for_grace)] {
            if needed > usable {
                return Err(format!(
                    "the {name} never fits the lease: it needs {} s, and a lease of {} s can be relied on for {} s",
                    needed.as_secs_f64(),
                    lease.as_secs(),
                    usable.as_secs_f64()
                ));
            }
        }
        let budget = budget.max(needed_for_grace);
        Ok(Self { wait, lease, budget, grace })
    }
}

/// A lease that leaves room for the whole wait, the budget, and something to spare, as far as there is room.
fn default_lease(wait: Duration, budget: Duration) -> Duration {
    let sum = wait + budget + SPARE;
    let whole = if sum.subsec_nanos() == 0 { sum.as_secs() } else { sum.as_secs() + 1 };
    Duration::from_secs(whole).min(MAX_LEASE)
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn s(secs: u64) -> Duration {
        Duration::from_secs(secs)
    }

    #[test]
    fn the_default_lease_is_wait_budget_and_30_seconds() {
        let plan = Plan::of(s(10), None, None, None).expect("the defaults");
        assert_eq!(plan, Plan { wait: s(10), lease: s(50), budget: s(10), grace: s(5) });
        let plan = Plan::of(Duration::from_millis(1500), None, Some(Duration::from_millis(100)), None)
            .expect("good");
        assert_eq!((plan.wait, plan.lease), (s(2), s(33)));
        let plan = Plan::of(s(255), None, Some(s(200)), None).expect("good");
        assert_eq!(plan.lease, s(250));
    }

    #[test]
    fn a_short_lease_shortens_what_was_not_given() {
        let plan = Plan::of(s(0), Some(s(1)), None, None).expect("good");
        assert_eq!((plan.budget, plan.grace), (Duration::from_millis(500), Duration::from_millis(100)));
    }

    #[test]
    fn a_command_does_not_start_into_its_grace() {
        let plan = Plan::of(s(0), Some(s(20)), Some(s(1)), Some(s(7))).expect("good");
        assert_eq!(plan.budget, Duration::from_millis(7100));
        let plan = Plan::of(s(0), Some(s(20)), Some(s(9)), Some(s(7))).expect("good");
        assert_eq!(plan.budget, s(9));
    }

    #[test]
    fn what_can_never_succeed_is_refused() {
        assert!(Plan::of(s(256), None, None, None).is_err());
        assert!(Plan::of(s(1), Some(s(0)), None, None).is_err());
        assert!(Plan::of(s(1), Some(s(251)), None, None).is_err());
        assert!(Plan::of(s(1), None, Some(s(251)), None).is_err());
        assert!(Plan::of(s(1), Some(s(5)), Some(s(6)), None).is_err());
        assert!(Plan::of(s(1), Some(s(5)), Some(s(5)), None).is_err(), "a thousandth is missing");
        assert!(Plan::of(s(1), None, Some(s(250)), None).is_err(), "a thousandth is missing");
        assert!(Plan::of(s(1), Some(s(5)), None, Some(s(5))).is_err());
        assert!(Plan::of(s(1), Some(s(5)), Some(s(0)), Some(s(0))).is_ok());
        assert!(
            Plan::of(s(1), Some(s(1)), None, Some(Duration::from_millis(980))).is_err(),
            "no time to work"
        );
        let huge = Duration::MAX;
        assert!(Plan::of(huge, None, None, None).is_err());
        assert!(Plan::of(s(1), Some(huge), None, None).is_err());
        assert!(Plan::of(s(1), None, Some(huge), None).is_err());
        assert!(Plan::of(s(1), None, None, Some(huge)).is_err());
    }
}
