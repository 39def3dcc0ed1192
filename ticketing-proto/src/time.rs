//! Injected time: an instant with an opaque origin.

use core::fmt;
use core::ops::Add;
use core::time::Duration;

/// A point in time, as the caller's clock shows it.
///
/// The origin is the caller's choice; it only has to be the same for everything that one machine is
/// told. Servers use a monotonic clock (`OP-11`); clients one that also goes on while the host sleeps
/// (`CD-5`). The range is 584 years from the origin, to the nanosecond; arithmetic saturates.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "arbitrary", derive(arbitrary::Arbitrary))]
pub struct Instant(u64);

impl Instant {
    /// The origin of the caller's clock.
    pub const ORIGIN: Self = Self(0);

    /// The instant that lies `since_origin` after the origin, or the last one there is.
    #[must_use]
    pub const fn from_origin(since_origin: Duration) -> Self {
        Self(saturating_nanos(since_origin))
    }

    /// The span from the origin to this instant.
    #[must_use]
    pub const fn since_origin(self) -> Duration {
        Duration::from_nanos(self.0)
    }

    /// The span from `earlier` to this instant; zero where `earlier` is the later one.
    #[must_use]
    pub const fn saturating_since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }

    /// The instant so many whole seconds later, as waits and leases have them.
    pub(crate) const fn plus_secs(self, secs: u8) -> Self {
        Self(self.0.saturating_add(secs as u64 * 1_000_000_000))
    }

    /// The instant so many nanoseconds after the origin.
    pub(crate) const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// Nanoseconds since the origin.
    pub(crate) const fn nanos(self) -> u64 {
        self.0
    }
}

impl Add<Duration> for Instant {
    type Output = Self;

    fn add(self, span: Duration) -> Self {
        Self(self.0.saturating_add(saturating_nanos(span)))
    }
}

impl fmt::Debug for Instant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Instant({:?})", self.since_origin())
    }
}

const fn saturating_nanos(span: Duration) -> u64 {
    let nanos = span.as_nanos();
    if nanos > u64::MAX as u128 { u64::MAX } else { nanos as u64 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arithmetic_saturates_at_both_ends() {
        let last = Instant::ORIGIN + Duration::MAX;
        assert_eq!(last + Duration::from_secs(1), last);
        assert_eq!(Instant::ORIGIN.saturating_since(last), Duration::ZERO);
        assert_eq!(Instant::from_origin(Duration::from_secs(3)).since_origin(), Duration::from_secs(3));
    }
}
