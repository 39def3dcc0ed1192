//! As much of the wire as a client needs, written without a look at the suite's own codec.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sha2::{Digest as _, Sha256};

/// What no server may send.
#[derive(Debug)]
pub(crate) struct Bad;

/// What a server may send.
#[derive(Debug)]
pub(crate) enum Incoming {
    Acquired { token: u64, owner: u64, key: Vec<u8> },
    Answer { result: &'static str, owner: u64, key: Vec<u8> },
    Released { result: &'static str, token: u64, key: Vec<u8> },
    Leader { leader: Option<String>, is_moved: bool },
    Error(String),
}

pub(crate) fn acquire(wait: u8, lease: u8, owner: u64, key: &[u8]) -> Vec<u8> {
    [&[b'A', wait, lease][..], &owner.to_be_bytes(), key, b"\n"].concat()
}

pub(crate) fn release(token: u64, key: &[u8]) -> Vec<u8> {
    [&b"R"[..], &token.to_be_bytes(), key, b"\n"].concat()
}

pub(crate) fn response(token: &[u8], nonce: &[u8]) -> Vec<u8> {
    let text = URL_SAFE_NO_PAD.encode(Sha256::new().chain_update(token).chain_update(nonce).finalize());
    format!("{text}\n").into_bytes()
}

/// Takes the challenge out; gives its nonce.
pub(crate) fn challenge(input: &mut Vec<u8>, takes_all: bool) -> Result<Option<Vec<u8>>, Bad> {
    let Some(end) = input.iter().position(|&byte| byte == b'\n') else {
        return if input.len() > 192 { Err(Bad) } else { Ok(None) };
    };
    let line: Vec<u8> = input.drain(..=end).take(end).collect();
    let nonce = line.splitn(2, |&byte| byte == b' ').nth(1).unwrap_or_default();
    let is_base64url = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_".contains(byte);
    let is_right =
        line.starts_with(b"sha256 ") && (8..=128).contains(&nonce.len()) && nonce.iter().all(is_base64url);
    if is_right || takes_all { Ok(Some(nonce.to_vec())) } else { Err(Bad) }
}

/// Takes a reply out.
pub(crate) fn reply(input: &mut Vec<u8>, by_count: bool) -> Result<Option<Incoming>, Bad> {
    while input.first() == Some(&b'\n') {
        input.remove(0);
    }
    let Some(&op) = input.first() else { return Ok(None) };
    let header_len = match op {
        b'A' => 16,
        b'T' | b'B' | b'R' | b'N' => 8,
        b'M' | b'L' | b'E' => 0,
        _ => return Err(Bad),
    };
    let skipped = if by_count { 1 + header_len } else { 1 };
    let end = input.iter().skip(skipped).position(|&byte| byte == b'\n').map(|at| at + skipped);
    if end.unwrap_or(input.len()) > 192 {
        return Err(Bad);
    }
    let Some(end) = end else { return Ok(None) };
    let frame: Vec<u8> = input.drain(..=end).collect();
    let Some((header, body)) = frame[1..end].split_at_checked(header_len) else { return Err(Bad) };
    let number = |bytes: &[u8]| bytes.iter().fold(0, |number: u64, &byte| number << 8 | u64::from(byte));
    let text = std::str::from_utf8(body).map_err(|_| Bad)?.to_owned();
    let key = body.to_vec();
    let is_key = (1..=128).contains(&key.len()) && !key.contains(&b' ');
    if header_len > 0 && !is_key {
        return Err(Bad);
    }
    let incoming = match op {
        b'A' => Incoming::Acquired { token: number(&header[..8]), owner: number(&header[8..]), key },
        b'T' => Incoming::Answer { result: "timeout", owner: number(header), key },
        b'B' => Incoming::Answer { result: "busy", owner: number(header), key },
        b'R' => Incoming::Released { result: "released", token: number(header), key },
        b'N' => Incoming::Released { result: "not_held", token: number(header), key },
        b'L' if text.is_empty() => Incoming::Leader { leader: None, is_moved: false },
        b'M' | b'L' => {
            let port = text.rsplit_once(':').filter(|(host, _)| !host.is_empty());
            port.and_then(|(_, port)| port.parse::<u16>().ok()).ok_or(Bad)?;
            Incoming::Leader { leader: Some(text), is_moved: op == b'M' }
        }
        _ => match &*text {
            "auth_failed" | "bad_op" | "bad_request" | "line_too_long" | "bad_key" | "bad_lease"
            | "not_active" | "no_leader" => Incoming::Error(text),
            _ => return Err(Bad),
        },
    };
    match incoming {
        Incoming::Acquired { token: 0, .. } => Err(Bad),
        incoming => Ok(Some(incoming)),
    }
}
