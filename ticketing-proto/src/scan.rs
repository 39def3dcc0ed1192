//! Looking at bytes eight at a time.

/// A one in each byte.
const ONES: u64 = u64::MAX / 255;
/// The top bit of each byte.
const TOPS: u64 = ONES << 7;

/// Where `needle` stands first.
#[inline]
pub(crate) fn position(bytes: &[u8], needle: u8) -> Option<usize> {
    let (words, rest) = bytes.as_chunks::<8>();
    let mut before = 0;
    for &word in words {
        let hits = zeros(u64::from_le_bytes(word) ^ repeated(needle));
        if hits != 0 {
            return Some(before + hits.trailing_zeros() as usize / 8);
        }
        before += 8;
    }
    rest.iter().position(|&byte| byte == needle).map(|at| before + at)
}

/// Whether all bytes are ASCII, and neither `one` nor `other` is among them.
#[inline]
pub(crate) fn is_ascii_without(bytes: &[u8], one: u8, other: u8) -> bool {
    let odd = |word: [u8; 8]| {
        let word = u64::from_le_bytes(word);
        (word & TOPS) | zeros(word ^ repeated(one)) | zeros(word ^ repeated(other))
    };
    let (words, rest) = bytes.as_chunks::<8>();
    let found = words.iter().fold(0, |found, &word| found | odd(word));
    let is_odd = |&byte: &u8| !byte.is_ascii() || byte == one || byte == other;
    found == 0 && !rest.iter().any(is_odd)
}

const fn repeated(byte: u8) -> u64 {
    byte as u64 * ONES
}

/// The top bit of the lowest byte that is zero, and perhaps of higher ones; 0 if none is.
const fn zeros(word: u64) -> u64 {
    word.wrapping_sub(ONES) & !word & TOPS
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;
    use proptest::prelude::*;

    /// Bytes among which those that matter, and their neighbours, are frequent.
    fn bytes() -> impl Strategy<Value = Vec<u8>> {
        let byte = prop_oneof![
            1 => any::<u8>(),
            1 => prop::sample::select(b"\n\x0b\x09 \x21\x1f\0\x01\x7f\x80\x8a\xa0\xff".to_vec()),
            3 => Just(b'x'),
        ];
        prop::collection::vec(byte, 0..40)
    }

    proptest! {
        #[test]
        fn the_first_of_its_kind_is_found(bytes in bytes(), needle in prop::sample::select(b"\n \0\x80\xff".to_vec())) {
            let expected = bytes.iter().position(|&byte| byte == needle);
            prop_assert_eq!(position(&bytes, needle), expected);
        }

        #[test]
        fn ascii_is_told_from_the_rest(bytes in bytes()) {
            let expected = bytes.iter().all(|&byte| byte < 0x80 && byte != b' ' && byte != b'\n');
            prop_assert_eq!(is_ascii_without(&bytes, b' ', b'\n'), expected);
        }
    }

    #[test]
    fn each_byte_counts_at_each_place() {
        for len in 1..20 {
            for at in 0..len {
                for byte in 0..=u8::MAX {
                    let mut bytes = alloc::vec![b'x'; len];
                    bytes[at] = byte;
                    let is_plain = byte < 0x80 && byte != b' ' && byte != b'\n';
                    assert_eq!(
                        is_ascii_without(&bytes, b' ', b'\n'),
                        is_plain,
                        "{byte:#04x} at {at} of {len}"
                    );
                    if byte != b'x' {
                        assert_eq!(position(&bytes, byte), Some(at), "{byte:#04x} at {at} of {len}");
                    }
                }
            }
        }
    }
}
