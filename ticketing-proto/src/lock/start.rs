//! Where the counter of tokens starts when no earlier life of the server says where (`FI-8`).

use core::time::Duration;

use super::TokenRange;
use crate::id::Token;

/// What a second of the clock is worth in tokens: more than a server is likely to give in it.
const TOKENS_PER_SECOND: u64 = 1 << 20;

impl TokenRange {
    /// All tokens from a point made of the time and randomness (`FI-8`): practically never the same token in two
    /// lives of a server, and no promise of order (`FI-7`).
    ///
    /// `since_1970` is the host's clock, `random` comes from the system's secure random source. The point stays
    /// below 2^53 for some 270 years, so that languages that count in floating point keep it exact.
    #[must_use]
    pub fn fresh(since_1970: Duration, random: u64) -> Self {
        let second = since_1970.as_secs().saturating_mul(TOKENS_PER_SECOND);
        let next = second.saturating_add(random % TOKENS_PER_SECOND).max(1);
        let token = |value| Token::new(value).expect("at least 1");
        Self { next: token(next), last: token(u64::MAX) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn start(secs: u64, random: u64) -> u64 {
        TokenRange::fresh(Duration::from_secs(secs), random).next.value()
    }

    #[test]
    fn a_fresh_counter_starts_at_its_second_and_somewhere_in_it() {
        assert_eq!(start(1_700_000_000, 5), 1_700_000_000 * 1_048_576 + 5);
        assert_eq!(start(1_700_000_000, u64::MAX), 1_700_000_001 * 1_048_576 - 1);
        assert!(start(8_500_000_000, u64::MAX) < 1 << 53);
        assert_eq!(TokenRange::fresh(Duration::from_secs(1), 0).last.value(), u64::MAX);
    }

    #[test]
    fn no_clock_makes_it_panic_or_start_at_0() {
        assert_eq!(start(0, 0), 1);
        assert_eq!(start(u64::MAX, u64::MAX), u64::MAX);
    }
}
