//! What was sent and received in a case, in order, with times and meaning.

use std::collections::VecDeque;
use std::fmt::{self, Write as _};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// More lines than this say no more to a reader; the first ones are left out.
const MAX_LINES: usize = 200;
/// How many bytes of a line are kept.
const MAX_BYTES: usize = 256;

/// Which way bytes went.
#[derive(Clone, Copy, PartialEq, Eq, Debug, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Direction {
    /// From the suite.
    Sent,
    /// To the suite.
    Received,
    /// No bytes: something that happened.
    Event,
}

/// One line of a transcript.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Line {
    /// Since the case began.
    pub at: Duration,
    /// Which connection or process of the case.
    pub who: String,
    /// Which way.
    pub direction: Direction,
    /// The bytes; their beginning, if there were many.
    pub bytes: Vec<u8>,
    /// How many bytes there were.
    pub len: usize,
    /// What the bytes mean, or what happened.
    pub meaning: String,
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let arrow = match self.direction {
            Direction::Sent => "->",
            Direction::Received => "<-",
            Direction::Event => "--",
        };
        write!(f, "{:8.3} s  {} {arrow} {}", self.at.as_secs_f64(), self.who, self.meaning)?;
        if self.len > 0 {
            write!(f, "\n              {}", hex(&self.bytes))?;
        }
        if self.len > self.bytes.len() {
            write!(f, " ... ({} bytes)", self.len)?;
        }
        Ok(())
    }
}

/// Collects the lines of one case. Clones share them.
#[derive(Clone, Debug)]
pub struct Transcript {
    start: Instant,
    lines: Arc<Mutex<VecDeque<Line>>>,
}

impl Transcript {
    /// An empty one; its time begins now.
    #[must_use]
    pub fn new() -> Self {
        Self { start: Instant::now(), lines: Arc::default() }
    }

    /// The suite sent bytes.
    pub fn sent(&self, who: &str, bytes: &[u8], meaning: impl Into<String>) {
        self.add(Instant::now(), who, Direction::Sent, bytes, meaning.into());
    }

    /// Bytes came, at this moment.
    pub fn received(&self, at: Instant, who: &str, bytes: &[u8], meaning: impl Into<String>) {
        self.add(at, who, Direction::Received, bytes, meaning.into());
    }

    /// Something happened that is no bytes.
    pub fn event(&self, who: &str, meaning: impl Into<String>) {
        self.add(Instant::now(), who, Direction::Event, &[], meaning.into());
    }

    /// What was collected.
    #[must_use]
    pub fn lines(&self) -> Vec<Line> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect()
    }

    fn add(&self, at: Instant, who: &str, direction: Direction, bytes: &[u8], meaning: String) {
        let line = Line {
            at: at.saturating_duration_since(self.start),
            who: who.to_owned(),
            direction,
            bytes: bytes[..bytes.len().min(MAX_BYTES)].to_vec(),
            len: bytes.len(),
            meaning,
        };
        let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        if lines.len() == MAX_LINES {
            lines.pop_front();
        }
        lines.push_back(line);
    }
}

impl Default for Transcript {
    fn default() -> Self {
        Self::new()
    }
}

/// Pairs of hexadecimal digits.
#[must_use]
pub fn hex(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len() * 3);
    for (index, byte) in bytes.iter().enumerate() {
        let space = if index == 0 { "" } else { " " };
        // Writing to a `String` never fails.
        _ = write!(text, "{space}{byte:02x}");
    }
    text
}

/// Bytes as text for people: what is no printable ASCII is escaped, and what is long is cut.
#[must_use]
pub fn readable(bytes: &[u8]) -> String {
    const MAX: usize = 64;
    let shown = &bytes[..bytes.len().min(MAX)];
    let more = if bytes.len() > MAX { format!("... ({} bytes)", bytes.len()) } else { String::new() };
    format!("\"{}\"{more}", shown.escape_ascii())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_shows_time_direction_meaning_and_bytes() {
        let transcript = Transcript::new();
        transcript.sent("C1", b"A\n", "half an acquire");
        let line = transcript.lines()[0].to_string();
        assert!(line.ends_with(" s  C1 -> half an acquire\n              41 0a"), "{line}");
    }

    #[test]
    fn long_bytes_are_cut_and_their_length_is_said() {
        let transcript = Transcript::new();
        transcript.sent("C1", &[b'x'; 1000], "a flood");
        assert!(transcript.lines()[0].to_string().ends_with("78 78 ... (1000 bytes)"));
    }

    #[test]
    fn only_the_last_lines_are_kept() {
        let transcript = Transcript::new();
        (0..=MAX_LINES).for_each(|n| transcript.event("C1", n.to_string()));
        let lines = transcript.lines();
        assert_eq!((lines.len(), lines[0].meaning.as_str()), (MAX_LINES, "1"));
    }

    #[test]
    fn what_a_peer_chose_is_escaped() {
        assert_eq!(readable(b"a\x1b\"\n\xc3"), r#""a\x1b\"\n\xc3""#);
    }
}
