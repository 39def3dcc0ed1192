//! Storage with stable indices that grows without moving anything, and gives memory back.

use alloc::vec::Vec;

/// No index: the end of a list.
pub(super) const NONE: u32 = u32::MAX;

/// Entries in a chunk.
const CHUNK: usize = 1024;
/// Bits in a word of the map of chunks with room.
const WORD: usize = 64;

/// Values by index, in chunks of 1024.
///
/// Growing adds a chunk; an empty chunk is given back, but for one that stays against flapping. New values
/// go to the lowest chunk with room, so that the upper ones run empty. All is O(1), but for the search for
/// that chunk, which reads a bit for each chunk between.
#[derive(Debug)]
pub(super) struct Slab<T> {
    chunks: Vec<Chunk<T>>,
    /// A bit for each chunk that has room, allocated or not.
    room: Vec<u64>,
    /// No word of `room` below this one has a bit.
    first_room: usize,
    /// The chunk that is allocated and empty.
    spare: Option<usize>,
    len: usize,
}

#[derive(Debug)]
struct Chunk<T> {
    entries: Vec<Entry<T>>,
    /// The first entry to use again; the others follow from there.
    vacant: u32,
    used: u32,
}

#[derive(Debug)]
enum Entry<T> {
    Vacant { next: u32 },
    Used(T),
}

impl<T> Slab<T> {
    /// What a value takes, in bytes.
    #[cfg(test)]
    pub(super) const ENTRY_LEN: usize = size_of::<Entry<T>>();

    pub(super) const fn new() -> Self {
        Self { chunks: Vec::new(), room: Vec::new(), first_room: 0, spare: None, len: 0 }
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Stores a value. The index is free again once it is removed.
    ///
    /// # Panics
    /// When more than 2^32 - 2 values are stored.
    #[inline]
    pub(super) fn insert(&mut self, value: T) -> u32 {
        let at = self.chunk_with_room();
        let chunk = &mut self.chunks[at];
        if chunk.used == 0 {
            if self.spare == Some(at) {
                self.spare = None;
            } else {
                chunk.entries.reserve_exact(CHUNK);
            }
        }
        let entry = chunk.insert(value);
        if chunk.used as usize == CHUNK {
            self.room[at / WORD] &= !(1 << (at % WORD));
        }
        self.len += 1;
        index_of(at, entry)
    }

    /// Removes a value.
    ///
    /// # Panics
    /// If there is none: an index outlived its value.
    #[inline]
    pub(super) fn remove(&mut self, index: u32) {
        let (at, entry) = place_of(index);
        let chunk = &mut self.chunks[at];
        let was_full = chunk.used as usize == CHUNK;
        chunk.remove(entry);
        let is_empty = chunk.used == 0;
        self.len -= 1;
        if was_full {
            self.room[at / WORD] |= 1 << (at % WORD);
            self.first_room = self.first_room.min(at / WORD);
        }
        if is_empty {
            self.retire(at);
        }
    }

    /// All values with their indices.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        let entries = self.chunks.iter().enumerate().flat_map(|(at, chunk)| {
            chunk.entries.iter().enumerate().map(move |(entry, value)| (index_of(at, entry), value))
        });
        entries.filter_map(|(index, entry)| match entry {
            Entry::Used(value) => Some((index, value)),
            Entry::Vacant { .. } => None,
        })
    }

    /// The lowest chunk with room; a new one behind the others if need be.
    #[inline]
    fn chunk_with_room(&mut self) -> usize {
        while let Some(&word) = self.room.get(self.first_room) {
            if word != 0 {
                return self.first_room * WORD + word.trailing_zeros() as usize;
            }
            self.first_room += 1;
        }
        let at = self.chunks.len();
        self.chunks.push(Chunk::new());
        if at.is_multiple_of(WORD) {
            self.room.push(0);
        }
        self.first_room = at / WORD;
        self.room[self.first_room] |= 1 << (at % WORD);
        at
    }

    /// Gives an empty chunk back, or the spare one if this one lies lower.
    fn retire(&mut self, at: usize) {
        self.chunks[at].clear();
        let dropped = match self.spare {
            Some(spare) => spare.max(at),
            None => {
                self.spare = Some(at);
                return;
            }
        };
        self.spare = self.spare.map(|spare| spare.min(at));
        self.chunks[dropped] = Chunk::new();
        while self.chunks.last().is_some_and(|chunk| chunk.entries.capacity() == 0) {
            self.chunks.pop();
        }
        let len = self.chunks.len();
        self.room.truncate(len.div_ceil(WORD));
        if let Some(word) = self.room.last_mut().filter(|_| !len.is_multiple_of(WORD)) {
            *word &= (1 << (len % WORD)) - 1;
        }
        if self.chunks.capacity() > 4 * len + WORD {
            self.chunks.shrink_to(2 * len);
            self.room.shrink_to_fit();
        }
    }
}

impl<T> core::ops::Index<u32> for Slab<T> {
    type Output = T;

    #[inline]
    fn index(&self, index: u32) -> &T {
        let (at, entry) = place_of(index);
        match &self.chunks[at].entries[entry] {
            Entry::Used(value) => value,
            Entry::Vacant { .. } => panic!("an index does not outlive its value"),
        }
    }
}

impl<T> core::ops::IndexMut<u32> for Slab<T> {
    #[inline]
    fn index_mut(&mut self, index: u32) -> &mut T {
        let (at, entry) = place_of(index);
        match &mut self.chunks[at].entries[entry] {
            Entry::Used(value) => value,
            Entry::Vacant { .. } => panic!("an index does not outlive its value"),
        }
    }
}

impl<T> Chunk<T> {
    const fn new() -> Self {
        Self { entries: Vec::new(), vacant: NONE, used: 0 }
    }

    /// Forgets the order in which an empty chunk's entries would be used again.
    fn clear(&mut self) {
        self.entries.clear();
        self.vacant = NONE;
    }

    #[inline]
    fn insert(&mut self, value: T) -> usize {
        self.used += 1;
        if self.vacant == NONE {
            self.entries.push(Entry::Used(value));
            return self.entries.len() - 1;
        }
        let at = self.vacant as usize;
        let entry = &mut self.entries[at];
        let Entry::Vacant { next } = *entry else {
            unreachable!("the vacant entries are those that were removed")
        };
        self.vacant = next;
        *entry = Entry::Used(value);
        at
    }

    #[inline]
    fn remove(&mut self, at: usize) {
        let entry = &mut self.entries[at];
        assert!(matches!(entry, Entry::Used(_)), "an index does not outlive its value");
        *entry = Entry::Vacant { next: self.vacant };
        self.vacant = at as u32;
        self.used -= 1;
    }
}

#[inline]
const fn place_of(index: u32) -> (usize, usize) {
    (index as usize / CHUNK, index as usize % CHUNK)
}

#[inline]
fn index_of(chunk: usize, entry: usize) -> u32 {
    u32::try_from(chunk * CHUNK + entry)
        .ok()
        .filter(|&index| index != NONE)
        .expect("the limits keep the values below 2^32 - 1")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allocated<T>(slab: &Slab<T>) -> usize {
        slab.chunks.iter().filter(|chunk| chunk.entries.capacity() > 0).count()
    }

    #[test]
    fn values_stay_at_their_index_and_places_are_used_again() {
        let mut slab = Slab::new();
        let indices: Vec<u32> = (0..3000).map(|value| slab.insert(value)).collect();
        assert_eq!(slab.len, 3000);
        for (value, &index) in indices.iter().enumerate() {
            assert_eq!(slab[index], value);
        }
        slab.remove(indices[5]);
        slab.remove(indices[2500]);
        slab[indices[6]] = 60;
        assert_eq!(slab.insert(7), indices[5], "the lowest chunk with room comes first");
        assert_eq!(slab[indices[6]], 60);
        assert_eq!(slab.len, 2999);
    }

    #[test]
    #[should_panic(expected = "outlive")]
    fn an_index_is_dead_with_its_value() {
        let mut slab = Slab::new();
        let index = slab.insert(1);
        slab.insert(2);
        slab.remove(index);
        let _ = slab[index];
    }

    #[test]
    fn empty_chunks_are_given_back_but_for_one() {
        let mut slab = Slab::new();
        let indices: Vec<u32> = (0..200 * CHUNK).map(|value| slab.insert(value)).collect();
        assert_eq!(allocated(&slab), 200);
        for &index in &indices[CHUNK..] {
            slab.remove(index);
        }
        assert_eq!((allocated(&slab), slab.len), (2, CHUNK));
        for &index in &indices[..CHUNK] {
            slab.remove(index);
        }
        assert_eq!((allocated(&slab), slab.chunks.len(), slab.len), (1, 1, 0));
        assert!(slab.chunks.capacity() <= WORD, "the directory shrinks too");
        let again: Vec<u32> = (0..200 * CHUNK).map(|value| slab.insert(value)).collect();
        assert!(again == indices);
    }

    #[test]
    fn a_lower_empty_chunk_becomes_the_spare_one() {
        let mut slab = Slab::new();
        let indices: Vec<u32> = (0..3 * CHUNK).map(|value| slab.insert(value)).collect();
        let chunk = |at: usize| &indices[at * CHUNK..(at + 1) * CHUNK];
        for &index in chunk(1).iter().chain(chunk(0)) {
            slab.remove(index);
        }
        assert_eq!(slab.spare, Some(0));
        assert_eq!((allocated(&slab), slab.chunks.len()), (2, 3));
        assert_eq!(slab.insert(0), indices[0]);
        assert_eq!(slab.spare, None);
    }

    #[test]
    fn growing_and_shrinking_at_random_keeps_every_value() {
        let mut slab = Slab::new();
        let mut kept: Vec<(u32, u64)> = Vec::new();
        let mut random = 1_u64;
        for step in 0..200_000_u64 {
            random = random.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
            let grows = (step / 20_000) % 2 == 0;
            if (random >> 60 < 12) == grows || kept.is_empty() {
                kept.push((slab.insert(step), step));
            } else {
                let (index, value) = kept.swap_remove((random >> 33) as usize % kept.len());
                assert_eq!(slab[index], value);
                slab.remove(index);
            }
        }
        assert_eq!(slab.len, kept.len());
        for (index, value) in kept {
            assert_eq!(slab[index], value);
            slab.remove(index);
        }
        assert_eq!(allocated(&slab), 1);
    }
}
