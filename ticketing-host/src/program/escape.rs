//! Text that others chose, made harmless for terminals and logs.

use std::fmt::{self, Write as _};

/// Shows text with everything escaped that is not plainly visible: control characters, line and paragraph
/// separators, direction marks.
pub struct Escaped<'a>(pub &'a str);

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for character in self.0.chars() {
            if is_plain(character) {
                f.write_char(character)?;
            } else {
                write!(f, "{}", character.escape_unicode())?;
            }
        }
        Ok(())
    }
}

/// Whether a character shows as itself.
pub(super) fn is_plain(character: char) -> bool {
    // `escape_debug` knows which characters are printable; it also escapes these, which are harmless here.
    matches!(character, '"' | '\'' | '\\') || character.escape_debug().eq([character])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_terminal_would_act_on_is_escaped() {
        let text = "a\x1b[31m\r\n\0\u{2028}\u{202e}é\u{feff}\"\\";
        assert_eq!(
            Escaped(text).to_string(),
            "a\\u{1b}[31m\\u{d}\\u{a}\\u{0}\\u{2028}\\u{202e}é\\u{feff}\"\\"
        );
    }
}
