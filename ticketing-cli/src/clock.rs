//! Points in time by the client's clock, which goes on while the host sleeps (`CD-5`) and is the same for all
//! processes of the host.

use std::time::Duration;

use ticketing_tokio::Instant;

/// The longest that anything here sleeps without a look at the clock: sleeping itself is measured by clocks that
/// stand still during suspend.
const LONGEST_NAP: Duration = Duration::from_millis(100);

/// The point that lies `span` before another.
pub(crate) fn before(at: Instant, span: Duration) -> Instant {
    Instant::from_origin(at.since_origin().saturating_sub(span))
}

/// How long to sleep at `now` towards a point before the clock is looked at again.
pub(crate) fn nap(now: Instant, towards: Instant) -> Duration {
    towards.saturating_since(now).min(LONGEST_NAP)
}

/// A point as an argument for another process of the host.
pub(crate) fn to_argument(at: Instant) -> String {
    at.since_origin().as_nanos().to_string()
}

/// The point that [`to_argument`] wrote.
pub(crate) fn from_argument(text: &str) -> Option<Instant> {
    text.parse().ok().map(|nanos| Instant::from_origin(Duration::from_nanos(nanos)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_point_survives_as_an_argument() {
        let now = ticketing_tokio::now();
        assert_eq!(from_argument(&to_argument(now)), Some(now));
        assert_eq!(from_argument("-1"), None);
        assert_eq!(from_argument(""), None);
    }

    #[test]
    fn naps_are_short_and_end_with_what_they_wait_for() {
        let now = Instant::from_origin(Duration::from_secs(9));
        assert_eq!(nap(now, now + Duration::from_secs(9)), LONGEST_NAP);
        assert_eq!(nap(now, now + Duration::from_millis(9)), Duration::from_millis(9));
        assert_eq!(nap(now, before(now, Duration::from_secs(1))), Duration::ZERO);
        assert_eq!(before(now, Duration::from_secs(10)), Instant::ORIGIN);
    }
}
