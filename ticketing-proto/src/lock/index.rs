//! From a hash to a slot, sharded, so that no single step moves more than a 64th of it.

use alloc::vec::Vec;

use hashbrown::HashTable;

const SHARD_BITS: u32 = 6;
pub(super) const SHARDS: usize = 1 << SHARD_BITS;
/// The table takes its buckets from the low bits of a hash and its tags from the topmost seven: shards come
/// from those below the tags.
const SHARD_SHIFT: u32 = 32 - 7 - SHARD_BITS;
/// A shard with room for so few is not worth shrinking.
const SMALL: usize = 28;

/// A hash index of slots. What is hashed and compared lies elsewhere; the hash is kept, so that growing reads
/// nothing but the index itself.
#[derive(Debug)]
pub(super) struct Index {
    shards: Vec<HashTable<Entry>>,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    hash: u32,
    slot: u32,
}

/// A slot, and where the index has it until the index changes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Found {
    pub(super) slot: u32,
    hash: u32,
    place: usize,
}

impl Index {
    pub(super) fn new() -> Self {
        Self { shards: (0..SHARDS).map(|_| HashTable::new()).collect() }
    }

    /// The slot with this hash for which `is_it` holds, and its place.
    #[inline]
    pub(super) fn find(&self, hash: u32, is_it: impl Fn(u32) -> bool) -> Option<Found> {
        let shard = &self.shards[shard_of(hash)];
        let place = shard.find_bucket_index(spread(hash), |entry| entry.hash == hash && is_it(entry.slot))?;
        let slot = shard.get_bucket(place)?.slot;
        Some(Found { slot, hash, place })
    }

    /// Adds a slot that is not there yet.
    #[inline]
    pub(super) fn insert(&mut self, hash: u32, slot: u32) {
        let shard = &mut self.shards[shard_of(hash)];
        shard.insert_unique(spread(hash), Entry { hash, slot }, |entry| spread(entry.hash));
    }

    /// Takes a slot out that was found since the index changed last.
    ///
    /// # Panics
    /// If it is not there.
    #[inline]
    pub(super) fn remove(&mut self, found: Found) {
        let Found { slot, hash, place } = found;
        match self.shards[shard_of(hash)].get_bucket_entry(place) {
            Ok(entry) if entry.get().slot == slot => drop(entry.remove()),
            _ => panic!("the index has not changed since the slot was found"),
        }
    }

    /// Gives back what one shard has too much of. Whether there was anything.
    pub(super) fn shrink(&mut self, shard: usize) -> bool {
        let shard = &mut self.shards[shard];
        let is_sparse = shard.capacity() > SMALL && shard.len() * 4 < shard.capacity();
        if is_sparse {
            shard.shrink_to(shard.len() * 2, |entry| spread(entry.hash));
        }
        is_sparse
    }

    /// Whether every shard is small.
    pub(super) fn is_small(&self) -> bool {
        self.shards.iter().all(|shard| shard.capacity() <= SMALL)
    }
}

#[inline]
const fn shard_of(hash: u32) -> usize {
    (hash >> SHARD_SHIFT) as usize % SHARDS
}

/// The hash as the table wants it: 64 bits of which both ends count.
#[inline]
const fn spread(hash: u32) -> u64 {
    (hash as u64) << 32 | hash as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A mixer, as the keyed hash is one.
    fn hash_of(slot: u32) -> u32 {
        let mixed = u64::from(slot).wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        ((mixed ^ mixed >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 32) as u32
    }

    fn find(index: &Index, hash: u32, slot: u32) -> Option<u32> {
        index.find(hash, |found| found == slot).map(|found| found.slot)
    }

    fn remove(index: &mut Index, hash: u32, slot: u32) {
        let found = index.find(hash, |found| found == slot).unwrap();
        index.remove(found);
    }

    #[test]
    fn slots_of_equal_hash_are_told_apart() {
        let mut index = Index::new();
        index.insert(7, 1);
        index.insert(7, 2);
        assert_eq!(find(&index, 7, 2), Some(2));
        remove(&mut index, 7, 2);
        assert_eq!(find(&index, 7, 2), None);
        assert_eq!(find(&index, 7, 1), Some(1));
        assert!(index.find(8, |_| true).is_none());
    }

    #[test]
    fn shards_share_the_load_and_shrink_one_by_one() {
        let mut index = Index::new();
        let slots = 64_000;
        for slot in 0..slots {
            index.insert(hash_of(slot), slot);
        }
        let fullest = index.shards.iter().map(HashTable::len).max();
        assert!(fullest < Some(1250), "{fullest:?} of 64 000 in one of 64 shards");
        for slot in 0..slots {
            assert_eq!(find(&index, hash_of(slot), slot), Some(slot));
        }
        for slot in 100..slots {
            remove(&mut index, hash_of(slot), slot);
        }
        assert!(!index.is_small());
        assert_eq!((0..SHARDS).filter(|&shard| index.shrink(shard)).count(), SHARDS);
        assert!(index.is_small());
        assert!((0..100).all(|slot| find(&index, hash_of(slot), slot).is_some()));
    }
}
