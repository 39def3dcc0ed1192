//! Deadlines: set and cancelled in O(1), the earliest one always at hand (`OP-6`, `EX-1`).

use alloc::boxed::Box;

use super::list::{Links, List};
use super::slab::Slab;
use crate::time::Instant;

/// Durations there are: leases have 1 to 250 s, waits 1 to 255.
const DURATIONS: usize = 256;
/// No deadline. The instant itself is out of reach: a deadline there counts as one nanosecond earlier.
const NEVER: u64 = u64::MAX;

/// A value with a deadline.
pub(super) trait Timed {
    fn deadline(&self) -> Instant;
    fn links(&mut self) -> &mut Links;
}

/// The deadlines of a slab's values.
///
/// A list for each duration: as time never goes back, each list is in the order of its deadlines, and in the
/// order of arrival. A tournament of the lists' heads has the earliest at its root. Of equal deadlines the
/// longer duration wins, as it was set earlier.
#[derive(Debug)]
pub(super) struct Deadlines {
    /// The longest duration first.
    lists: Box<[List; DURATIONS]>,
    /// The deadlines of the lists' heads from `DURATIONS` on, each pair's winner at half its place: the
    /// earliest of all at 1.
    heads: Box<[u64; 2 * DURATIONS]>,
}

impl Deadlines {
    pub(super) fn new() -> Self {
        Self { lists: Box::new([List::EMPTY; DURATIONS]), heads: Box::new([NEVER; 2 * DURATIONS]) }
    }

    /// The earliest deadline.
    pub(super) fn earliest(&self) -> Option<Instant> {
        (self.heads[1] != NEVER).then(|| Instant::from_nanos(self.heads[1]))
    }

    /// The value with the earliest deadline, if that has come.
    #[inline]
    pub(super) fn first_due(&self, now: Instant) -> Option<u32> {
        if self.heads[1] <= now.nanos() { self.first() } else { None }
    }

    /// Whether no deadline there is earlier than the earliest one here.
    #[inline]
    pub(super) fn is_first(&self, other: &Self) -> bool {
        self.heads[1] <= other.heads[1]
    }

    /// The value with the earliest deadline.
    pub(super) fn first(&self) -> Option<u32> {
        self.first_list().and_then(|list| self.lists[list].first())
    }

    /// Sets a value's deadline, which is so many whole seconds away.
    #[inline]
    pub(super) fn set<T: Timed>(&mut self, slab: &mut Slab<T>, index: u32, secs: u8) {
        let at = list_of(secs);
        let list = &mut self.lists[at];
        let was_empty = list.is_empty();
        debug_assert!(list.last().is_none_or(|last| slab[last].deadline() <= slab[index].deadline()));
        list.push(slab, index, T::links);
        if was_empty {
            self.play(at, head(slab[index].deadline()));
        }
    }

    /// Cancels the deadline that was set to so many seconds on the value with these links.
    #[inline]
    pub(super) fn cancel<T: Timed>(&mut self, slab: &mut Slab<T>, secs: u8, links: Links) {
        let at = list_of(secs);
        let list = &mut self.lists[at];
        list.remove(slab, links, T::links);
        if links.is_first() {
            let deadline = list.first().map_or(NEVER, |first| head(slab[first].deadline()));
            self.play(at, deadline);
        }
    }

    /// The list whose head comes first.
    fn first_list(&self) -> Option<usize> {
        let earliest = self.heads[1];
        if earliest == NEVER {
            return None;
        }
        let mut at = 1;
        while at < DURATIONS {
            at *= 2;
            if self.heads[at] != earliest {
                at += 1;
            }
        }
        Some(at - DURATIONS)
    }

    /// Gives a list a new head and plays its games again, as far as their results change.
    fn play(&mut self, list: usize, deadline: u64) {
        let mut at = DURATIONS + list;
        self.heads[at] = deadline;
        while at > 1 {
            let winner = self.heads[at].min(self.heads[at ^ 1]);
            at /= 2;
            if self.heads[at] == winner {
                break;
            }
            self.heads[at] = winner;
        }
    }
}

/// The longest duration first.
#[inline]
const fn list_of(secs: u8) -> usize {
    (u8::MAX - secs) as usize
}

#[inline]
const fn head(deadline: Instant) -> u64 {
    let nanos = deadline.nanos();
    if nanos == NEVER { NEVER - 1 } else { nanos }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    struct Value {
        deadline: Instant,
        secs: u8,
        links: Links,
    }

    impl Timed for Value {
        fn deadline(&self) -> Instant {
            self.deadline
        }

        fn links(&mut self) -> &mut Links {
            &mut self.links
        }
    }

    #[derive(Default)]
    struct Bench {
        now: u64,
        random: u64,
        order: Vec<(u64, u64, u32)>,
    }

    impl Bench {
        fn random(&mut self, below: u64) -> u64 {
            self.random = self.random.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
            (self.random >> 33) % below
        }
    }

    fn set(deadlines: &mut Deadlines, slab: &mut Slab<Value>, now: Instant, secs: u8) -> u32 {
        let index = slab.insert(Value { deadline: now.plus_secs(secs), secs, links: Links::NONE });
        deadlines.set(slab, index, secs);
        index
    }

    fn cancel(deadlines: &mut Deadlines, slab: &mut Slab<Value>, index: u32) {
        let Value { secs, links, .. } = slab[index];
        deadlines.cancel(slab, secs, links);
        slab.remove(index);
    }

    #[test]
    fn the_earliest_comes_first_whatever_is_set_and_cancelled() {
        let (mut deadlines, mut slab, mut bench) = (Deadlines::new(), Slab::new(), Bench::default());
        for arrival in 0..3000 {
            // Coarse steps, so that many deadlines are equal.
            bench.now += bench.random(3) / 2 * 1_000_000_000;
            let secs = bench.random(256) as u8;
            let now = Instant::from_nanos(bench.now);
            let index = set(&mut deadlines, &mut slab, now, secs);
            bench.order.push((now.plus_secs(secs).nanos(), arrival, index));
            for _ in 0..bench.random(3) {
                if bench.random(2) == 0 && !bench.order.is_empty() {
                    let at = bench.random(bench.order.len() as u64) as usize;
                    let (_, _, index) = bench.order.swap_remove(at);
                    cancel(&mut deadlines, &mut slab, index);
                }
                let first = bench.order.iter().min().copied();
                assert_eq!(deadlines.first(), first.map(|(_, _, index)| index));
                assert_eq!(deadlines.earliest().map(Instant::nanos), first.map(|(deadline, ..)| deadline));
            }
        }
    }

    #[test]
    fn the_last_one_leaves_and_the_next_one_is_seen() {
        let (mut deadlines, mut slab) = (Deadlines::new(), Slab::new());
        let far = set(&mut deadlines, &mut slab, Instant::ORIGIN, 255);
        assert_eq!(deadlines.first(), Some(far));
        let near = set(&mut deadlines, &mut slab, Instant::ORIGIN, 1);
        assert_eq!(deadlines.first(), Some(near));
        cancel(&mut deadlines, &mut slab, near);
        cancel(&mut deadlines, &mut slab, far);
        assert_eq!((deadlines.first(), deadlines.earliest()), (None, None));
        assert_eq!(deadlines.first_due(Instant::from_nanos(u64::MAX)), None);
        let next = set(&mut deadlines, &mut slab, Instant::ORIGIN, 3);
        assert_eq!(deadlines.first(), Some(next));
        assert_eq!(deadlines.first_due(Instant::ORIGIN.plus_secs(3)), Some(next));
        assert_eq!(deadlines.first_due(Instant::from_nanos(2_999_999_999)), None);
    }

    #[test]
    fn a_deadline_behind_the_end_of_time_is_one_all_the_same() {
        let (mut deadlines, mut slab) = (Deadlines::new(), Slab::new());
        let end = Instant::from_nanos(u64::MAX);
        let index = set(&mut deadlines, &mut slab, end, 9);
        assert_eq!(deadlines.first(), Some(index));
        assert_eq!(deadlines.first_due(end), Some(index));
    }
}
