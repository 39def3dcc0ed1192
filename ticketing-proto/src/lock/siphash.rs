//! SipHash, a keyed hash: who does not know the seed can't choose keys that collide.

/// SipHash-1-3 of `bytes`, as the reference implementation computes it.
pub(super) fn siphash_1_3(seed: [u64; 2], bytes: &[u8]) -> u64 {
    siphash::<1, 3>(seed, bytes)
}

#[inline]
fn siphash<const COMPRESSION: usize, const FINALIZATION: usize>(seed: [u64; 2], bytes: &[u8]) -> u64 {
    let mut state = [
        seed[0] ^ 0x736f_6d65_7073_6575,
        seed[1] ^ 0x646f_7261_6e64_6f6d,
        seed[0] ^ 0x6c79_6765_6e65_7261,
        seed[1] ^ 0x7465_6462_7974_6573,
    ];
    let (words, rest) = bytes.as_chunks();
    for &word in words {
        absorb::<COMPRESSION>(&mut state, u64::from_le_bytes(word));
    }
    absorb::<COMPRESSION>(&mut state, last_word(rest) | (bytes.len() as u64) << 56);
    state[2] ^= 0xff;
    rounds::<FINALIZATION>(&mut state);
    state[0] ^ state[1] ^ state[2] ^ state[3]
}

/// Up to seven bytes as the low end of a word.
#[inline]
fn last_word(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |word, &byte| word << 8 | u64::from(byte))
}

#[inline]
const fn absorb<const ROUNDS: usize>(state: &mut [u64; 4], word: u64) {
    state[3] ^= word;
    rounds::<ROUNDS>(state);
    state[0] ^= word;
}

#[inline]
const fn rounds<const ROUNDS: usize>(state: &mut [u64; 4]) {
    let [mut a, mut b, mut c, mut d] = *state;
    let mut round = 0;
    while round < ROUNDS {
        a = a.wrapping_add(b);
        c = c.wrapping_add(d);
        b = b.rotate_left(13) ^ a;
        d = d.rotate_left(16) ^ c;
        a = a.rotate_left(32).wrapping_add(d);
        c = c.wrapping_add(b);
        d = d.rotate_left(21) ^ a;
        b = b.rotate_left(17) ^ c;
        c = c.rotate_left(32);
        round += 1;
    }
    *state = [a, b, c, d];
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    /// The bytes 0 to 15, as in the vectors of the reference implementation.
    const SEED: [u64; 2] = [0x0706_0504_0302_0100, 0x0f0e_0d0c_0b0a_0908];

    fn counting(len: u8) -> Vec<u8> {
        (0..len).collect()
    }

    #[test]
    fn the_vectors_of_the_reference_implementation_hold() {
        for (len, hash) in [
            (0, 0xabac_0158_050f_c4dc),
            (1, 0xc9f4_9bf3_7d57_ca93),
            (7, 0xd392_7d98_9bb1_1140),
            (8, 0x3690_9511_8d29_9a8e),
            (9, 0x25a4_8eb3_6c06_3de4),
            (15, 0xd320_d86d_2a51_9956),
            (16, 0xcc4f_dd1a_7d90_8b66),
            (22, 0x7ffe_7b9b_a320_872e),
            (63, 0x9d19_9062_b7bb_b3a8),
            (128, 0xe17a_5d57_cbfa_3a8f),
        ] {
            assert_eq!(siphash_1_3(SEED, &counting(len)), hash, "{len} bytes");
        }
    }

    #[test]
    fn the_rounds_are_those_of_the_paper() {
        assert_eq!(siphash::<2, 4>(SEED, &counting(15)), 0xa129_ca61_49be_45e5);
    }

    #[test]
    fn both_halves_of_the_seed_count() {
        let hash = siphash_1_3(SEED, b"k");
        assert_ne!(siphash_1_3([SEED[0] ^ 1, SEED[1]], b"k"), hash);
        assert_ne!(siphash_1_3([SEED[0], SEED[1] ^ 1], b"k"), hash);
    }
}
