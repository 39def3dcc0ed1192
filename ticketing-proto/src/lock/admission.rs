//! Gates: what closes before a hard limit is reached, and opens well below it (`AD-1`).

/// How full something is, and its gate (`AD-1`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct GateUsage {
    /// How many there are.
    pub used: u64,
    /// The hard limit.
    pub limit: u32,
    /// Whether the gate is closed.
    pub is_closed: bool,
}

/// A usage and its gate. It closes when `usage * 10 >= limit * 9` and opens when `usage * 4 < limit * 3`,
/// judged at every change of the usage.
#[derive(Clone, Debug)]
pub(super) struct Gate {
    used: u64,
    limit: u32,
    is_closed: bool,
    /// The least usage that closes it.
    closes_at: u64,
    /// The least usage that does not open it.
    opens_below: u64,
}

impl Gate {
    pub(super) const fn new(limit: u32) -> Self {
        let closes_at = (limit as u64 * 9).div_ceil(10);
        let opens_below = (limit as u64 * 3).div_ceil(4);
        Self { used: 0, limit, is_closed: false, closes_at, opens_below }
    }

    /// One more.
    #[inline]
    pub(super) const fn raise(&mut self) {
        self.used += 1;
        self.is_closed |= self.used >= self.closes_at;
    }

    /// So many less.
    ///
    /// # Panics
    /// If there are not so many.
    #[inline]
    pub(super) const fn lower(&mut self, count: u64) {
        self.used = self.used.checked_sub(count).expect("nothing leaves that has not come");
        self.is_closed &= self.used >= self.opens_below;
    }

    pub(super) const fn used(&self) -> u64 {
        self.used
    }

    pub(super) const fn is_closed(&self) -> bool {
        self.is_closed
    }

    pub(super) const fn usage(&self) -> GateUsage {
        GateUsage { used: self.used, limit: self.limit, is_closed: self.is_closed }
    }

    /// Whether the gate is closed, or one more would close it.
    #[inline]
    pub(super) const fn is_tight(&self) -> bool {
        self.is_closed || self.used + 1 >= self.closes_at
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(limit: u32, used: u64) -> Gate {
        let mut gate = Gate::new(limit);
        for _ in 0..used {
            gate.raise();
        }
        gate
    }

    #[test]
    fn it_closes_at_nine_tenths_and_opens_below_three_quarters() {
        let mut gate = filled(100, 89);
        assert!(!gate.is_closed() && gate.is_tight());
        gate.raise();
        assert!(gate.is_closed());
        gate.lower(15);
        assert!(gate.is_closed(), "75 is not below 75");
        gate.lower(1);
        assert!(!gate.is_closed());
        assert_eq!(gate.used(), 74);
    }

    #[test]
    fn the_bounds_are_exact_for_every_limit() {
        for limit in 1..=1000_u32 {
            let mut gate = Gate::new(limit);
            while !gate.is_closed() {
                gate.raise();
                assert_eq!(gate.is_closed(), gate.used() * 10 >= u64::from(limit) * 9);
            }
            assert!(gate.used() <= u64::from(limit), "it closes before or at the limit");
            while gate.is_closed() {
                gate.lower(1);
                assert_eq!(gate.is_closed(), gate.used() * 4 >= u64::from(limit) * 3);
            }
        }
    }

    #[test]
    fn the_greatest_limit_does_not_overflow() {
        let mut gate = Gate { used: u64::from(u32::MAX) * 9 / 10, ..Gate::new(u32::MAX) };
        assert!(!gate.is_closed() && gate.is_tight());
        gate.raise();
        assert!(gate.is_closed());
        gate.lower(u64::from(u32::MAX) / 2);
        assert!(!gate.is_closed());
    }

    #[test]
    #[should_panic(expected = "nothing leaves")]
    fn a_count_below_zero_is_a_fault_of_the_caller() {
        filled(10, 1).lower(2);
    }
}
