use alloc::boxed::Box;
use core::time::Duration;

use super::error::Failure;
use super::session::{Reader, Sender};
use crate::id::ConnectionId;
use crate::time::Instant;
use crate::tls::Stage;

/// The pause before the first reconnect (`CC-3`).
const FIRST_BACKOFF: Duration = Duration::from_millis(100);
/// The longest pause (`CC-3`), before jitter.
const LONGEST_BACKOFF: Duration = Duration::from_millis(3200);
/// A session that lived less counts as failed (`CC-3`).
const PROVEN_AFTER: Duration = Duration::from_secs(1);

/// One of the client's connections, through all its sessions.
#[derive(Debug)]
pub(super) struct Link {
    /// Index of its address.
    pub(super) address: usize,
    pub(super) phase: Phase,
    /// Where [`Timers`](super::timers::Timers) remembers its deadline.
    pub(super) timer: Option<Instant>,
    pub(super) sender: Sender,
    /// What stands between the transport and everything here, if there is TLS. Taken out while it is read from.
    pub(super) tls: Option<Box<Stage>>,
    /// Taken out while it is read from.
    pub(super) reader: Option<Box<Reader>>,
    /// Failed sessions in a row.
    pub(super) failures: u32,
    /// Why the latest session ended; `None` before the first one did, and while one is usable.
    pub(super) failure: Option<Failure>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Phase {
    /// No connection until then.
    Waiting { until: Instant },
    /// The adapter connects; the handshake's time runs (`CC-4`).
    Connecting { id: ConnectionId, until: Instant },
    /// Connected; no challenge yet.
    Greeting { id: ConnectionId, until: Instant },
    /// The response is on its way, and requests may follow it (`AU-3`).
    Ready { id: ConnectionId, since: Instant },
    /// Nothing goes out any more; what the server had under way is read (`CA-5`).
    Draining { id: ConnectionId, until: Instant, failure: Failure, is_failed: bool },
    /// All is over but the last bytes of TLS: an alert, or close_notify.
    Parting { id: ConnectionId, until: Instant, failure: Failure, is_failed: bool },
    /// The client is closed.
    Stopped,
}

impl Phase {
    pub(super) const fn connection(self) -> Option<ConnectionId> {
        match self {
            Self::Waiting { .. } | Self::Stopped => None,
            Self::Connecting { id, .. }
            | Self::Greeting { id, .. }
            | Self::Ready { id, .. }
            | Self::Draining { id, .. }
            | Self::Parting { id, .. } => Some(id),
        }
    }

    pub(super) const fn deadline(self) -> Option<Instant> {
        match self {
            Self::Waiting { until }
            | Self::Connecting { until, .. }
            | Self::Greeting { until, .. }
            | Self::Draining { until, .. }
            | Self::Parting { until, .. } => Some(until),
            Self::Ready { .. } | Self::Stopped => None,
        }
    }
}

impl Link {
    pub(super) fn new(address: usize, now: Instant) -> Self {
        Self {
            address,
            phase: Phase::Waiting { until: now },
            timer: None,
            sender: Sender::new(now),
            tls: None,
            reader: None,
            failures: 0,
            failure: None,
        }
    }

    pub(super) const fn is_ready(&self) -> bool {
        matches!(self.phase, Phase::Ready { .. })
    }

    /// Whether it is on its way to a first or a healthy session, so that waiting for it makes sense.
    pub(super) const fn is_coming(&self) -> bool {
        self.failures == 0 && matches!(self.phase, Phase::Connecting { .. } | Phase::Greeting { .. })
    }

    /// Whether its latest session ended because the token was refused, and none has got further since.
    pub(super) fn is_refused(&self) -> bool {
        self.failure == Some(Failure::Auth)
    }

    /// Whether the session that ends now counts as failed (`CC-3`).
    pub(super) fn counts_as_failed(&self, now: Instant, failure: Failure) -> bool {
        match (failure, self.phase) {
            (Failure::Redirected | Failure::Overdue, _) => false,
            (Failure::Auth, _) => true,
            (_, Phase::Ready { since, .. }) => now.saturating_since(since) < PROVEN_AFTER,
            (_, Phase::Draining { is_failed, .. } | Phase::Parting { is_failed, .. }) => is_failed,
            _ => true,
        }
    }

    /// The pause after a session that ended so. `jitter` lies in 0..1024 and adds up to half of it.
    pub(super) fn backoff(&self, failure: Failure, jitter: u32) -> Duration {
        let pause = match failure {
            Failure::Overdue => return Duration::ZERO,
            Failure::Auth => LONGEST_BACKOFF,
            _ => {
                FIRST_BACKOFF.saturating_mul(1 << self.failures.saturating_sub(1).min(5)).min(LONGEST_BACKOFF)
            }
        };
        pause + pause.saturating_mul(jitter) / 2048
    }
}

/// SplitMix64: enough to spread reconnects.
#[derive(Clone, Debug)]
pub(super) struct Jitter(u64);

impl Jitter {
    pub(super) const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// A number in 0..1024.
    pub(super) const fn next(&mut self) -> u32 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed >> 54) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn backoff_doubles_from_100_ms_to_3_2_s_and_jitter_only_adds() {
        let mut link = Link::new(0, Instant::ORIGIN);
        let mut pauses = alloc::vec::Vec::new();
        for failures in 1..=8 {
            link.failures = failures;
            pauses.push(link.backoff(Failure::Lost, 0).as_millis());
        }
        assert_eq!(pauses, [100, 200, 400, 800, 1600, 3200, 3200, 3200]);
        assert!(link.backoff(Failure::Lost, 1023) < Duration::from_millis(4800));
        link.failures = 1;
        assert_eq!(link.backoff(Failure::Auth, 0), LONGEST_BACKOFF);
        assert_eq!(link.backoff(Failure::Redirected, 0), FIRST_BACKOFF);
        assert_eq!(link.backoff(Failure::Overdue, 1023), Duration::ZERO);
    }

    #[test]
    fn jitter_follows_the_seed_and_spreads() {
        let numbers = |seed| {
            let mut jitter = Jitter::new(seed);
            core::array::from_fn::<u32, 64, _>(|_| jitter.next())
        };
        assert_eq!(numbers(1), numbers(1));
        assert_ne!(numbers(1), numbers(2));
        let below_half = numbers(3).iter().filter(|&&number| number < 512).count();
        assert!((16..48).contains(&below_half));
        assert!(numbers(4).iter().all(|&number| number < 1024));
    }
}
