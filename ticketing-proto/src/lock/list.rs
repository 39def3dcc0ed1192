//! Doubly linked lists through the values of a slab.

use super::slab::{NONE, Slab};

/// A value's place in one list.
#[derive(Clone, Copy, Debug)]
pub(super) struct Links {
    prev: u32,
    next: u32,
}

impl Links {
    /// In no list.
    pub(super) const NONE: Self = Self { prev: NONE, next: NONE };

    /// Whether these are the links of a list's first value.
    pub(super) const fn is_first(self) -> bool {
        self.prev == NONE
    }
}

/// First in, first out; and out from anywhere. All is O(1), however long the list.
///
/// `links` picks, of the links in a value, those of this list.
#[derive(Clone, Copy, Debug)]
pub(super) struct List {
    head: u32,
    tail: u32,
}

impl List {
    pub(super) const EMPTY: Self = Self { head: NONE, tail: NONE };

    pub(super) const fn first(&self) -> Option<u32> {
        if self.head == NONE { None } else { Some(self.head) }
    }

    pub(super) const fn last(&self) -> Option<u32> {
        if self.tail == NONE { None } else { Some(self.tail) }
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.head == NONE
    }

    #[inline]
    pub(super) fn push<T>(&mut self, slab: &mut Slab<T>, index: u32, links: impl Fn(&mut T) -> &mut Links) {
        *links(&mut slab[index]) = Links { prev: self.tail, next: NONE };
        match self.last() {
            Some(tail) => links(&mut slab[tail]).next = index,
            None => self.head = index,
        }
        self.tail = index;
    }

    /// Takes out the value that has these links in this list.
    #[inline]
    pub(super) fn remove<T>(
        &mut self,
        slab: &mut Slab<T>,
        gone: Links,
        links: impl Fn(&mut T) -> &mut Links,
    ) {
        let Links { prev, next } = gone;
        if prev == NONE {
            self.head = next;
        } else {
            links(&mut slab[prev]).next = next;
        }
        if next == NONE {
            self.tail = prev;
        } else {
            links(&mut slab[next]).prev = prev;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    fn drain(mut list: List, slab: &mut Slab<Links>) -> Vec<u32> {
        let mut order = Vec::new();
        while let Some(first) = list.first() {
            let gone = slab[first];
            list.remove(slab, gone, |links| links);
            order.push(first);
        }
        assert_eq!(list.last(), None);
        order
    }

    #[test]
    fn order_is_kept_when_the_first_the_last_and_one_between_leave() {
        let mut slab = Slab::new();
        let mut list = List::EMPTY;
        let indices: Vec<u32> = (0..5).map(|_| slab.insert(Links::NONE)).collect();
        for &index in &indices {
            list.push(&mut slab, index, |links| links);
        }
        for at in [2, 0, 4] {
            let gone = slab[indices[at]];
            list.remove(&mut slab, gone, |links| links);
        }
        list.push(&mut slab, indices[0], |links| links);
        assert_eq!(drain(list, &mut slab), [indices[1], indices[3], indices[0]]);
    }
}
