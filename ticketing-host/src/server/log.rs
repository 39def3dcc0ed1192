//! What a server tells of its peers, at a bounded rate: peers decide how often it happens.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use ticketing_proto::server::{CloseReason, Refused};
use tracing::{debug, error, info, warn};

/// Events of one kind in one second.
const EVENTS_PER_SECOND: u32 = 10;

/// The events of a server that peers cause. No key and no secret is part of any of them.
#[derive(Debug, Default)]
pub struct Log {
    accept_failed: Limiter,
    refused: Limiter,
    faults: Limiter,
    ends: Limiter,
}

impl Log {
    /// With nothing told yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// It serves, on these addresses.
    pub fn serving(&self, addresses: &[SocketAddr]) {
        info!(?addresses, "serving");
    }

    /// The shutdown has begun.
    pub fn shutting_down(&self) {
        info!("shutting down");
    }

    /// More tokens could not be reserved, and so many are left. At most once a second.
    pub fn not_reserved(&self, error: &io::Error, left: u64) {
        error!(%error, left, "cannot reserve tokens; grants end with those that are left");
    }

    /// A connection could not be accepted.
    pub fn accept_failed(&self, error: &io::Error) {
        if let Some(suppressed) = self.accept_failed.admit(Instant::now()) {
            warn!(%error, suppressed, "cannot accept connections");
        }
    }

    /// A connection was closed right after accept.
    pub fn refused(&self, peer: SocketAddr, reason: Refused) {
        if let Some(suppressed) = self.refused.admit(Instant::now()) {
            warn!(%peer, %reason, suppressed, "connection refused");
        }
    }

    /// A connection could not be set up.
    pub fn not_set_up(&self, peer: SocketAddr, error: &io::Error) {
        if let Some(suppressed) = self.faults.admit(Instant::now()) {
            warn!(%peer, %error, suppressed, "connection not set up");
        }
    }

    /// A connection has ended. An `error` is the transport's.
    pub fn ended(&self, peer: SocketAddr, reason: Option<CloseReason>, error: Option<&io::Error>) {
        let reason = reason.unwrap_or(CloseReason::Disconnected);
        let (limiter, weight) = match reason {
            CloseReason::AuthFailed => (&self.faults, tracing::Level::WARN),
            CloseReason::Ended | CloseReason::Disconnected | CloseReason::NotActive => {
                (&self.ends, tracing::Level::DEBUG)
            }
            _ => (&self.faults, tracing::Level::INFO),
        };
        let Some(suppressed) = limiter.admit(Instant::now()) else { return };
        let error = error.map(tracing::field::display);
        match weight {
            tracing::Level::WARN => warn!(%peer, %reason, error, suppressed, "connection closed"),
            tracing::Level::INFO => info!(%peer, %reason, error, suppressed, "connection closed"),
            _ => debug!(%peer, %reason, error, suppressed, "connection closed"),
        }
    }
}

/// Admits a number of events in each second, and counts the others.
#[derive(Default)]
struct Limiter(Mutex<Window>);

#[derive(Default)]
struct Window {
    start: Option<Instant>,
    admitted: u32,
    suppressed: u64,
}

impl Limiter {
    /// Whether an event may be told: with how many were not, since the last one that was.
    fn admit(&self, now: Instant) -> Option<u64> {
        let mut window = self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let is_over =
            window.start.is_none_or(|start| now.saturating_duration_since(start) >= Duration::from_secs(1));
        if is_over {
            window.start = Some(now);
            window.admitted = 0;
        }
        if window.admitted == EVENTS_PER_SECOND {
            window.suppressed += 1;
            return None;
        }
        window.admitted += 1;
        Some(std::mem::take(&mut window.suppressed))
    }
}

impl fmt::Debug for Limiter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Limiter")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn so_many_events_a_second_are_told_and_the_others_counted() {
        let limiter = Limiter::default();
        let start = Instant::now();
        for _ in 0..EVENTS_PER_SECOND {
            assert_eq!(limiter.admit(start), Some(0));
        }
        for _ in 0..1000 {
            assert_eq!(limiter.admit(start + Duration::from_millis(999)), None);
        }
        assert_eq!(limiter.admit(start + Duration::from_secs(1)), Some(1000));
        assert_eq!(limiter.admit(start + Duration::from_secs(1)), Some(0));
    }
}
