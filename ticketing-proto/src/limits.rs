//! Durations of the protocol, its constants, and the limits that can be configured.

use core::fmt;
use core::num::NonZeroU8;
use core::time::Duration;

/// The default port (`TR-1`).
pub const DEFAULT_PORT: u16 = 5225;
/// The greatest length of a frame or a handshake line in bytes, LF excluded (`FR-5`, `AU-1`).
pub const MAX_FRAME_LEN: usize = 192;
/// The longest wait (`FI-1`).
pub const MAX_WAIT: Duration = Duration::from_secs(255);
/// The longest lease (`FI-2`).
pub const MAX_LEASE: Duration = Duration::from_secs(250);
/// The greatest `min_work_budget` (`CD-2`).
pub const MAX_WORK_BUDGET: Duration = Duration::from_secs(250);
/// How much a server reads at once, in bytes (`FR-11`).
pub const READ_BUFFER_LEN: usize = 4096;
/// How many replies a server writes at once (`FR-11`).
pub const MAX_BATCH: usize = 64;
/// From a client frame's first byte to its LF (`FR-6`).
pub const FRAME_PROGRESS_TIMEOUT: Duration = Duration::from_secs(5);
/// Between two sweeps for expired holds on a single server (`EX-1`).
pub const EXPIRY_SWEEP: Duration = Duration::from_secs(5);
/// From accept to the end of authentication (`TR-7`).
pub const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a closing server flushes (`TR-8`, `TR-10`).
pub const FLUSH_TIMEOUT: Duration = Duration::from_secs(5);
/// How long a closing server reads and discards (`TR-9`).
pub const LINGER_TIMEOUT: Duration = Duration::from_secs(1);
/// How long a connection may owe replies without taking a byte of them (`AD-6`).
pub const WRITE_STALL_TIMEOUT: Duration = Duration::from_secs(10);
/// A server stops reading a connection that owes this many bytes, until it owes less than half (`AD-5`).
pub const MAX_OWED: usize = 64 * 1024;

/// How long an acquire may queue at the server: whole seconds, 0 to 255 (`FI-1`).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[cfg_attr(feature = "arbitrary", derive(arbitrary::Arbitrary))]
pub struct Wait(u8);

impl Wait {
    /// One immediate attempt that never queues.
    pub const NONE: Self = Self(0);

    /// A wait of this many seconds.
    #[must_use]
    pub const fn from_secs(secs: u8) -> Self {
        Self(secs)
    }

    /// Rounds up to whole seconds, then checks the range (`CD-1`). Nothing is clamped.
    ///
    /// # Errors
    /// [`UnsupportedDuration`] above 255 s.
    pub fn new(wait: Duration) -> Result<Self, UnsupportedDuration> {
        match u8::try_from(whole_secs_up(wait)) {
            Ok(secs) => Ok(Self(secs)),
            Err(_) => Err(UnsupportedDuration { field: DurationField::Wait, given: wait }),
        }
    }

    /// The seconds.
    #[must_use]
    pub const fn secs(self) -> u8 {
        self.0
    }

    /// The span.
    #[must_use]
    pub const fn duration(self) -> Duration {
        Duration::from_secs(self.0 as u64)
    }
}

/// How long a hold lasts unless it is released: whole seconds, 1 to 250 (`FI-2`).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Lease(NonZeroU8);

impl Lease {
    /// What clients ask for by default: 30 s (`CD-4`).
    pub const DEFAULT: Self = match Self::from_secs(30) {
        Some(lease) => lease,
        None => panic!("30 lies in 1..=250"),
    };

    /// A lease of this many seconds, or `None` outside 1..=250.
    #[must_use]
    pub const fn from_secs(secs: u8) -> Option<Self> {
        if secs > 250 {
            return None;
        }
        match NonZeroU8::new(secs) {
            Some(secs) => Some(Self(secs)),
            None => None,
        }
    }

    /// Rounds up to whole seconds, then checks the range (`CD-1`). Nothing is clamped.
    ///
    /// # Errors
    /// [`UnsupportedDuration`] for zero and above 250 s.
    pub fn new(lease: Duration) -> Result<Self, UnsupportedDuration> {
        u8::try_from(whole_secs_up(lease))
            .ok()
            .and_then(Self::from_secs)
            .ok_or(UnsupportedDuration { field: DurationField::Lease, given: lease })
    }

    /// The seconds.
    #[must_use]
    pub const fn secs(self) -> u8 {
        self.0.get()
    }

    /// The span.
    #[must_use]
    pub const fn duration(self) -> Duration {
        Duration::from_secs(self.0.get() as u64)
    }
}

impl Default for Lease {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// What a client needs of a lease for its work (`CD-2`): 0 to 250 s, exact, never on the wire.
///
/// It covers the critical work, the pauses to expect, and the commit or rollback of the database.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct WorkBudget(Duration);

impl WorkBudget {
    /// Checks the range.
    ///
    /// # Errors
    /// [`UnsupportedDuration`] above 250 s.
    pub const fn new(budget: Duration) -> Result<Self, UnsupportedDuration> {
        if budget.as_nanos() > MAX_WORK_BUDGET.as_nanos() {
            return Err(UnsupportedDuration { field: DurationField::MinWorkBudget, given: budget });
        }
        Ok(Self(budget))
    }

    /// The span.
    #[must_use]
    pub const fn duration(self) -> Duration {
        self.0
    }
}

/// The argument that an [`UnsupportedDuration`] speaks of.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum DurationField {
    /// How long an acquire may take.
    Wait,
    /// How long the hold lasts.
    Lease,
    /// What must be left of the lease at the grant.
    MinWorkBudget,
    /// How long past its deadline a sent acquire waits for a definite answer (`CA-12`).
    ResponseGrace,
}

impl DurationField {
    const fn name(self) -> &'static str {
        match self {
            Self::Wait => "wait",
            Self::Lease => "lease",
            Self::MinWorkBudget => "min_work_budget",
            Self::ResponseGrace => "response_grace",
        }
    }

    const fn allowed(self) -> (&'static str, Duration) {
        match self {
            Self::Wait => ("0 s", MAX_WAIT),
            Self::Lease => ("1 s", MAX_LEASE),
            Self::MinWorkBudget => ("0 s", MAX_WORK_BUDGET),
            Self::ResponseGrace => ("0 s", Duration::from_secs(10)),
        }
    }
}

/// A duration outside the range that the protocol can express (`CD-1`, `CD-2`). Nothing was sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UnsupportedDuration {
    /// Which argument.
    pub field: DurationField,
    /// What was given.
    pub given: Duration,
}

impl UnsupportedDuration {
    /// The greatest value that the field takes.
    #[must_use]
    pub const fn max(&self) -> Duration {
        self.field.allowed().1
    }
}

impl fmt::Display for UnsupportedDuration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (min, max) = self.field.allowed();
        write!(f, "{} is {:?}; allowed are {min} to {} s", self.field.name(), self.given, max.as_secs())
    }
}

impl core::error::Error for UnsupportedDuration {}

/// Whole seconds, rounded up, never wrapping.
pub(crate) const fn whole_secs_up(span: Duration) -> u64 {
    if span.subsec_nanos() == 0 { span.as_secs() } else { span.as_secs().saturating_add(1) }
}

/// What one server admits (`AD-3`, `AD-4`, `AU-8`). Each is at least 1.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "arbitrary", derive(arbitrary::Arbitrary))]
pub struct Limits {
    /// Connections; one beyond is closed right after accept.
    pub connections: u32,
    /// Connections that are not authenticated yet; one beyond is closed right after accept.
    pub unauthenticated: u32,
    /// Keys held. Its gate closes at 90 % and opens below 75 % (`AD-1`), as do the next two.
    pub keys: u32,
    /// Acquires in flight: from receipt until the final reply is handed over.
    pub acquires: u32,
    /// Waiters in all queues.
    pub waiters: u32,
    /// Waiters in one key's queue.
    pub waiters_per_key: u32,
    /// Acquires in flight on one connection.
    pub acquires_per_connection: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 10_000,
            unauthenticated: 1024,
            keys: 1_000_000,
            acquires: 200_000,
            waiters: 100_000,
            waiters_per_key: 10_000,
            acquires_per_connection: 4096,
        }
    }
}

impl Limits {
    /// Each limit with the name that programs and errors use for it.
    #[must_use]
    pub const fn named(&self) -> [(&'static str, u32); 7] {
        [
            ("connections", self.connections),
            ("unauthenticated", self.unauthenticated),
            ("keys", self.keys),
            ("acquires", self.acquires),
            ("waiters", self.waiters),
            ("waiters_per_key", self.waiters_per_key),
            ("acquires_per_connection", self.acquires_per_connection),
        ]
    }

    /// Checks that no limit is 0 (`AD-1`).
    ///
    /// # Errors
    /// [`ZeroLimit`] with the first one that is.
    pub fn check(&self) -> Result<(), ZeroLimit> {
        match self.named().into_iter().find(|&(_, limit)| limit == 0) {
            Some((name, _)) => Err(ZeroLimit { name }),
            None => Ok(()),
        }
    }
}

/// A limit of 0 would refuse everything.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("the limit `{name}` is 0; a limit is at least 1")]
pub struct ZeroLimit {
    /// The limit's name, as in [`Limits::named`].
    pub name: &'static str,
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn fractions_round_up_and_nothing_is_clamped() {
        assert_eq!(Wait::new(Duration::ZERO).map(Wait::secs), Ok(0));
        assert_eq!(Wait::new(Duration::from_nanos(1)).map(Wait::secs), Ok(1));
        assert_eq!(Wait::new(Duration::from_secs(255)).map(Wait::secs), Ok(255));
        assert!(Wait::new(Duration::from_millis(255_001)).is_err());
        assert_eq!(Lease::new(Duration::from_millis(249_500)).map(Lease::secs), Ok(250));
        assert!(Lease::new(Duration::from_millis(250_001)).is_err());
        assert!(Lease::new(Duration::ZERO).is_err());
        assert!(WorkBudget::new(Duration::from_secs(250)).is_ok());
        assert!(WorkBudget::new(Duration::from_nanos(250_000_000_001)).is_err());
    }

    #[test]
    fn huge_durations_are_refused_without_a_panic() {
        for huge in [Duration::MAX, Duration::from_secs(u64::MAX), Duration::from_millis(1 << 36)] {
            assert_eq!(Wait::new(huge), Err(UnsupportedDuration { field: DurationField::Wait, given: huge }));
            assert_eq!(
                Lease::new(huge),
                Err(UnsupportedDuration { field: DurationField::Lease, given: huge })
            );
            assert!(WorkBudget::new(huge).is_err());
        }
    }

    #[test]
    fn the_message_names_the_field_the_value_and_the_range() {
        let error = Lease::new(Duration::from_secs(300)).expect_err("above 250 s");
        assert_eq!(error.to_string(), "lease is 300s; allowed are 1 s to 250 s");
        assert_eq!(error.max(), MAX_LEASE);
    }

    #[test]
    fn a_limit_of_zero_is_named() {
        assert_eq!(Limits::default().check(), Ok(()));
        let limits = Limits { waiters_per_key: 0, ..Limits::default() };
        assert_eq!(limits.check(), Err(ZeroLimit { name: "waiters_per_key" }));
    }
}
