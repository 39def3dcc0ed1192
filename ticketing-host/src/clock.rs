//! The client's clock: it goes on while the host sleeps (`CD-5`).

use ticketing_proto::time::Instant;

/// What the client's clock shows: the time since the host started, sleep included.
///
/// On Linux and Android it is `CLOCK_BOOTTIME`, on Apple's systems `CLOCK_MONOTONIC`: both are the same for all
/// processes of a host and can't be set. Elsewhere it is [`std::time::Instant`], whose origin is of this process
/// alone, and which may stand still while the host sleeps: there a ticket that was held over a sleep may be over
/// although its [`remaining`](crate::client::Ticket::remaining) says otherwise.
#[must_use]
pub fn now() -> Instant {
    system::now()
}

#[cfg(any(target_os = "linux", target_os = "android", target_vendor = "apple"))]
mod system {
    use std::time::Duration;

    use rustix::time::{ClockId, clock_gettime};
    use ticketing_proto::time::Instant;

    #[cfg(target_vendor = "apple")]
    const CLOCK: ClockId = ClockId::Monotonic;
    #[cfg(not(target_vendor = "apple"))]
    const CLOCK: ClockId = ClockId::Boottime;

    pub(super) fn now() -> Instant {
        // A time before the host's start does not exist; were there one, it would be its start.
        Instant::from_origin(Duration::try_from(clock_gettime(CLOCK)).unwrap_or_default())
    }
}

#[cfg(not(any(target_os = "linux", target_os = "android", target_vendor = "apple")))]
mod system {
    use std::sync::OnceLock;

    use ticketing_proto::time::Instant;

    pub(super) fn now() -> Instant {
        static ORIGIN: OnceLock<std::time::Instant> = OnceLock::new();
        Instant::from_origin(ORIGIN.get_or_init(std::time::Instant::now).elapsed())
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::fs;
    use std::time::Duration;

    /// `/proc/uptime` counts sleep, and so must this clock (`CD-5`). That both are one shows without a sleep.
    #[test]
    fn it_is_the_time_since_the_host_started() {
        let before = super::now().since_origin();
        let uptime = fs::read_to_string("/proc/uptime").expect("Linux has it");
        let after = super::now().since_origin();
        let seconds = uptime.split(' ').next().and_then(|text| text.parse().ok()).expect("a number");
        let uptime = Duration::from_secs_f64(seconds);
        let hundredth = Duration::from_millis(10);
        assert!(
            before <= uptime + hundredth && uptime <= after + hundredth,
            "{before:?} {uptime:?} {after:?}"
        );
    }
}
