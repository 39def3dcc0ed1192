//! The name of a lock: validated once, then trusted.

use alloc::boxed::Box;
use core::fmt;

use crate::scan;

/// The greatest length of a key in bytes (`FI-4`).
pub const MAX_KEY_LEN: usize = 128;

/// Keys of up to this many bytes are stored without an allocation.
const INLINE: usize = 22;

/// Why bytes are not a key (`FI-4`, `CK-1`). Positions are byte offsets.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidKey {
    /// A key has at least one byte.
    #[error("the key is empty; a key has 1 to {MAX_KEY_LEN} bytes")]
    Empty,
    /// A key has at most [`MAX_KEY_LEN`] bytes.
    #[error("the key has {len} bytes; a key has 1 to {MAX_KEY_LEN} bytes (bytes, not characters)")]
    TooLong {
        /// The length in bytes.
        len: usize,
    },
    /// U+0020 is not allowed.
    #[error("the key has a space at byte {at}; a key has neither spaces nor line feeds")]
    Space {
        /// The offset in bytes.
        at: usize,
    },
    /// U+000A is not allowed.
    #[error("the key has a line feed at byte {at}; a key has neither spaces nor line feeds")]
    LineFeed {
        /// The offset in bytes.
        at: usize,
    },
    /// Official clients never send U+000D (`FI-5`): at the end of a key it would quietly be another key.
    #[error("the key has a carriage return at byte {at}; clients don't send keys with one")]
    CarriageReturn {
        /// The offset in bytes.
        at: usize,
    },
    /// A key is valid UTF-8.
    #[error("the key is not valid UTF-8 from byte {at} on")]
    NotUtf8 {
        /// The offset in bytes of the first byte that is not part of valid UTF-8.
        at: usize,
    },
}

/// A borrowed key: 1 to 128 bytes of UTF-8 without space or LF (`FI-4`), compared byte for byte.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyRef<'a>(
    /// Valid UTF-8. It was looked at once; what compares and copies it need not look again.
    &'a [u8],
);

impl<'a> KeyRef<'a> {
    /// Checks the rule that a server applies (`FI-4`).
    ///
    /// # Errors
    /// [`InvalidKey`], never its `CarriageReturn`.
    pub fn new(bytes: &'a [u8]) -> Result<Self, InvalidKey> {
        if bytes.is_empty() {
            return Err(InvalidKey::Empty);
        }
        if bytes.len() > MAX_KEY_LEN {
            return Err(InvalidKey::TooLong { len: bytes.len() });
        }
        if scan::is_ascii_without(bytes, b' ', b'\n') {
            return Ok(Self(bytes));
        }
        for (at, &byte) in bytes.iter().enumerate() {
            match byte {
                b' ' => return Err(InvalidKey::Space { at }),
                b'\n' => return Err(InvalidKey::LineFeed { at }),
                _ => {}
            }
        }
        match core::str::from_utf8(bytes) {
            Ok(_) => Ok(Self(bytes)),
            Err(error) => Err(InvalidKey::NotUtf8 { at: error.valid_up_to() }),
        }
    }

    /// Checks the rule that an official client applies before it sends: [`new`](Self::new), and no CR (`CK-1`).
    ///
    /// # Errors
    /// [`InvalidKey`]
    pub fn for_client(text: &'a str) -> Result<Self, InvalidKey> {
        let key = Self::new(text.as_bytes())?;
        match text.bytes().position(|byte| byte == b'\r') {
            Some(at) => Err(InvalidKey::CarriageReturn { at }),
            None => Ok(key),
        }
    }

    /// The key's text. Looks at the bytes again; [`as_bytes`](Self::as_bytes) does not.
    ///
    /// # Panics
    /// Never: the bytes were checked when the key was made.
    #[must_use]
    pub fn as_str(self) -> &'a str {
        core::str::from_utf8(self.0).expect("a key is valid UTF-8 from its making on")
    }

    /// The key's bytes, as they stand on the wire.
    #[must_use]
    #[inline]
    pub const fn as_bytes(self) -> &'a [u8] {
        self.0
    }

    /// An owned copy. Allocates for keys of more than 22 bytes.
    #[must_use]
    #[inline]
    pub fn to_key(self) -> Key {
        let bytes = self.as_bytes();
        let mut inline = [0; INLINE];
        match inline.get_mut(..bytes.len()) {
            Some(room) => {
                room.copy_from_slice(bytes);
                Key(Repr::Inline { len: bytes.len() as u8, bytes: inline })
            }
            None => Key(Repr::Boxed(Box::from(bytes))),
        }
    }
}

impl fmt::Debug for KeyRef<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_str().fmt(f)
    }
}

/// An owned key of 24 bytes; keys of up to 22 bytes live in it without an allocation.
#[derive(Clone)]
pub struct Key(Repr);

#[derive(Clone)]
enum Repr {
    Inline { len: u8, bytes: [u8; INLINE] },
    Boxed(Box<[u8]>),
}

impl Key {
    /// Checks the rule that a server applies (`FI-4`) and copies.
    ///
    /// # Errors
    /// [`InvalidKey`], never its `CarriageReturn`.
    pub fn new(bytes: &[u8]) -> Result<Self, InvalidKey> {
        KeyRef::new(bytes).map(KeyRef::to_key)
    }

    /// The key's bytes.
    #[must_use]
    #[inline]
    pub fn as_bytes(&self) -> &[u8] {
        match &self.0 {
            Repr::Inline { len, bytes } => bytes.get(..usize::from(*len)).unwrap_or(bytes),
            Repr::Boxed(bytes) => bytes,
        }
    }

    /// The borrowed form.
    #[must_use]
    pub fn as_key_ref(&self) -> KeyRef<'_> {
        KeyRef(self.as_bytes())
    }

    /// The key's text. Looks at the bytes again; [`as_bytes`](Self::as_bytes) does not.
    ///
    /// # Panics
    /// Never: the bytes were checked when the key was made.
    #[must_use]
    pub fn as_str(&self) -> &str {
        self.as_key_ref().as_str()
    }
}

impl PartialEq for Key {
    fn eq(&self, other: &Self) -> bool {
        self.as_bytes() == other.as_bytes()
    }
}

impl Eq for Key {}

impl PartialOrd for Key {
    fn partial_cmp(&self, other: &Self) -> Option<core::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Key {
    fn cmp(&self, other: &Self) -> core::cmp::Ordering {
        self.as_bytes().cmp(other.as_bytes())
    }
}

impl core::hash::Hash for Key {
    fn hash<H: core::hash::Hasher>(&self, state: &mut H) {
        self.as_bytes().hash(state);
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_key_ref().fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::String;

    #[test]
    fn a_key_has_1_to_128_bytes_not_characters() {
        assert_eq!(KeyRef::new(b""), Err(InvalidKey::Empty));
        assert!(KeyRef::new(&[b'x'; 128]).is_ok());
        assert_eq!(KeyRef::new(&[b'x'; 129]), Err(InvalidKey::TooLong { len: 129 }));
        let korean: String = core::iter::repeat_n('열', 42).collect();
        assert!(KeyRef::new(korean.as_bytes()).is_ok());
        let korean: String = core::iter::repeat_n('열', 43).collect();
        assert_eq!(KeyRef::new(korean.as_bytes()), Err(InvalidKey::TooLong { len: 129 }));
    }

    #[test]
    fn only_the_space_and_the_line_feed_are_refused() {
        assert_eq!(KeyRef::new(b"a b"), Err(InvalidKey::Space { at: 1 }));
        assert_eq!(KeyRef::new(b"ab\n"), Err(InvalidKey::LineFeed { at: 2 }));
        for legal in ["\0", "\r", "\t", "\u{a0}", "\u{feff}k", "e\u{301}", "\u{202e}"] {
            assert_eq!(KeyRef::new(legal.as_bytes()).map(KeyRef::as_str), Ok(legal));
        }
    }

    #[test]
    fn a_client_refuses_a_carriage_return() {
        assert_eq!(KeyRef::for_client("k\r"), Err(InvalidKey::CarriageReturn { at: 1 }));
        assert!(KeyRef::for_client("k").is_ok());
    }

    #[test]
    fn invalid_utf8_is_refused_where_it_starts() {
        assert_eq!(KeyRef::new(b"k\xed\xa0\x80"), Err(InvalidKey::NotUtf8 { at: 1 }));
    }

    #[test]
    fn short_and_long_keys_keep_their_bytes() {
        assert_eq!(size_of::<Key>(), 24);
        assert_eq!(size_of::<Option<Key>>(), 24);
        for len in [1, 21, 22, 23, 128] {
            let bytes = alloc::vec![b'x'; len];
            let key = Key::new(&bytes).expect("a legal key");
            assert_eq!(key.as_bytes(), bytes);
            assert_eq!(key.clone(), key);
            assert_eq!(key.as_key_ref().to_key(), key);
        }
    }
}
