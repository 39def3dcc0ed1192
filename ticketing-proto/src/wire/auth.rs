//! The handshake: challenge, response, and the secret behind them (`AU`).

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq as _;

use crate::limits::MAX_FRAME_LEN;

/// Random bytes behind a nonce (`AU-1`).
pub const NONCE_LEN: usize = 32;
/// Characters of a nonce that a server sends, and of every response: 32 bytes in base64url.
pub const TEXT_LEN: usize = 43;
/// The only algorithm.
pub const ALGORITHM: &str = "sha256";

/// The shared secret that authenticates clients. Debug output never shows it.
///
/// No token is the empty secret (`AU-2`): then a server accepts any well-formed response (`AU-5`). Two secrets
/// are compared in a time that depends on their lengths only.
#[derive(Clone, Default)]
pub struct Secret(Box<[u8]>);

impl Secret {
    /// The secret with these bytes.
    #[must_use]
    pub fn new(bytes: impl Into<Box<[u8]>>) -> Self {
        Self(bytes.into())
    }

    /// Whether there is no token.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The length in bytes, for those who demand a least length (`AU-9`).
    #[must_use]
    pub const fn len(&self) -> usize {
        self.0.len()
    }
}

impl PartialEq for Secret {
    fn eq(&self, other: &Self) -> bool {
        self.0.ct_eq(&other.0).into()
    }
}

impl Eq for Secret {}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.is_empty() { "Secret(none)" } else { "Secret(hidden)" })
    }
}

/// The text of a nonce, as it stands in the challenge.
#[must_use]
pub fn nonce_text(nonce: &[u8; NONCE_LEN]) -> [u8; TEXT_LEN] {
    base64url(nonce)
}

/// Appends the challenge line (`AU-1`).
pub fn encode_challenge(nonce_text: &[u8; TEXT_LEN], out: &mut Vec<u8>) {
    out.extend_from_slice(ALGORITHM.as_bytes());
    out.push(b' ');
    out.extend_from_slice(nonce_text);
    out.push(b'\n');
}

/// The response to a nonce, without its LF (`AU-2`).
#[must_use]
pub fn respond(secret: &Secret, nonce_text: &[u8]) -> [u8; TEXT_LEN] {
    let digest = Sha256::new().chain_update(&secret.0).chain_update(nonce_text).finalize();
    base64url(&digest.into())
}

/// What a server makes of the line that answered its challenge.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// The client may go on.
    Accepted,
    /// A response, but not the right one: `Eauth_failed`.
    Wrong,
    /// Not a response: `Ebad_request`.
    Malformed,
}

/// Judges a response line, LF excluded (`AU-4`, `AU-5`), in constant time.
#[must_use]
pub fn judge(secret: &Secret, nonce_text: &[u8], line: &[u8]) -> Verdict {
    if line.len() != TEXT_LEN || !line.iter().all(|&byte| is_base64url(byte)) {
        Verdict::Malformed
    } else if secret.is_empty() || bool::from(respond(secret, nonce_text).as_slice().ct_eq(line)) {
        Verdict::Accepted
    } else {
        Verdict::Wrong
    }
}

/// Why a client does not answer a challenge (`AU-7`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BadChallenge {
    /// More than 192 bytes without LF.
    #[error("the challenge has more than {MAX_FRAME_LEN} bytes before its line feed")]
    TooLong,
    /// Another algorithm than `sha256`, or no line of two words at all.
    #[error("the challenge does not name the algorithm sha256")]
    Algorithm,
    /// The nonce is not 8 to 128 base64url characters.
    #[error("the challenge's nonce is not 8 to 128 base64url characters")]
    Nonce,
}

/// The nonce bytes of a challenge line, LF excluded: all behind the first space (`AU-2`, `AU-7`).
///
/// # Errors
/// [`BadChallenge`]; the client must not answer.
pub fn parse_challenge(line: &[u8]) -> Result<&[u8], BadChallenge> {
    let nonce = line
        .strip_prefix(ALGORITHM.as_bytes())
        .and_then(|rest| rest.strip_prefix(b" "))
        .ok_or(BadChallenge::Algorithm)?;
    if (8..=128).contains(&nonce.len()) && nonce.iter().all(|&byte| is_base64url(byte)) {
        Ok(nonce)
    } else {
        Err(BadChallenge::Nonce)
    }
}

/// More than 192 bytes came without an LF.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("more than {MAX_FRAME_LEN} bytes before the line feed")]
pub struct LineTooLong;

/// Collects a handshake line of at most 192 bytes, however it was split on its way.
///
/// After an error it stays at that error.
#[derive(Clone, Debug)]
pub struct LineDecoder {
    line: [u8; MAX_FRAME_LEN],
    len: usize,
    /// The line has been given out: the next call begins another one.
    spent: bool,
    failed: bool,
}

impl LineDecoder {
    /// A decoder at the start of a line.
    #[must_use]
    pub const fn new() -> Self {
        Self { line: [0; MAX_FRAME_LEN], len: 0, spent: false, failed: false }
    }

    /// Takes bytes from the front of `input` up to the first LF, and gives the line without it; `None` when
    /// all of the input is taken and no LF has come.
    ///
    /// # Errors
    /// [`LineTooLong`] at byte 193; it does not wait for the LF.
    pub fn next(&mut self, input: &mut &[u8]) -> Result<Option<&[u8]>, LineTooLong> {
        if self.spent {
            self.spent = false;
            self.len = 0;
        }
        let lf = input.iter().position(|&byte| byte == b'\n');
        let part = input.get(..lf.unwrap_or(input.len())).unwrap_or_default();
        let end = self.len.saturating_add(part.len());
        let room = self.line.get_mut(self.len..).unwrap_or_default();
        room.iter_mut().zip(part).for_each(|(room, &byte)| *room = byte);
        self.len = end.min(MAX_FRAME_LEN);
        if self.failed || end > MAX_FRAME_LEN {
            self.failed = true;
            return Err(LineTooLong);
        }
        self.spent = lf.is_some();
        *input = lf.and_then(|at| input.get(at.saturating_add(1)..)).unwrap_or_default();
        Ok(lf.map(|_| self.line.get(..end).unwrap_or_default()))
    }

    /// What has come of the line at hand, or of the one that was too long.
    #[must_use]
    pub fn part(&self) -> &[u8] {
        self.line.get(..self.len).unwrap_or_default()
    }
}

impl Default for LineDecoder {
    fn default() -> Self {
        Self::new()
    }
}

const fn is_base64url(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_')
}

fn base64url(bytes: &[u8; 32]) -> [u8; TEXT_LEN] {
    let mut text = [0; TEXT_LEN];
    let written = URL_SAFE_NO_PAD.encode_slice(bytes, &mut text);
    debug_assert_eq!(written, Ok(TEXT_LEN));
    text
}
