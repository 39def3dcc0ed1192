use std::time::Duration;

use ticketing_proto::time::Instant;

/// Time as the world has it, since the run began.
pub(crate) type Time = Duration;

/// What one host takes for the time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    /// What it shows when the run begins.
    pub(crate) origin: Duration,
    /// By how many parts in a million it is fast.
    pub(crate) ppm: i64,
    /// How long it has stood still (`OP-11`).
    pub(crate) slept: Duration,
}

impl Clock {
    pub(crate) fn read(&self, time: Time) -> Instant {
        Instant::from_origin(self.origin + Duration::from_nanos(self.scaled((time - self.slept).as_nanos())))
    }

    /// The first moment of the world at which this clock shows at least `at`.
    pub(crate) fn when(&self, at: Instant) -> Time {
        let shown = at.since_origin().saturating_sub(self.origin).as_nanos();
        let rate = (1_000_000 + self.ppm) as u128;
        let mut nanos = shown * 1_000_000 / rate;
        while u128::from(self.scaled(nanos)) < shown {
            nanos += 1;
        }
        Duration::from_nanos(nanos as u64) + self.slept
    }

    fn scaled(&self, nanos: u128) -> u64 {
        (nanos * (1_000_000 + self.ppm) as u128 / 1_000_000) as u64
    }
}

#[test]
fn a_clock_tells_when_it_will_show_a_time() {
    for ppm in [-499, 0, 3, 499] {
        let clock = Clock { origin: Duration::from_secs(77), ppm, slept: Duration::from_millis(1) };
        for nanos in [1, 999, 1_000_001, 59_999_999_999] {
            let at = Instant::from_origin(clock.origin + Duration::from_nanos(nanos));
            let time = clock.when(at);
            assert!(clock.read(time) >= at);
            assert!(clock.read(time - Duration::from_nanos(1)) < at);
        }
    }
}
