//! Which frames and lines are good.

use std::str;

use ticketing_conformance::wire;

use super::connection::Request;
use super::{Rules, SECRET};
use crate::fault::Fault;

/// What a handshake line is.
pub(super) fn line(rules: Rules, line: &[u8], nonce: &str) -> Result<(), &'static str> {
    let right = wire::response(SECRET, nonce.as_bytes());
    if line.len() != 43 || !wire::is_base64url(line) {
        return match rules.has(Fault::ComparesLengthOnlyAtTheEnd) && line.starts_with(right.as_bytes()) {
            true => Ok(()),
            false => Err("bad_request"),
        };
    }
    let compared = if rules.has(Fault::AcceptsSpareBits) { 42 } else { 43 };
    match line[..compared] == right.as_bytes()[..compared] || rules.has(Fault::AcceptsAnyResponse) {
        true => Ok(()),
        false => Err("auth_failed"),
    }
}

/// A whole frame without its LF; what is wrong with it, and whether that ends the connection.
pub(super) fn frame(rules: Rules, frame: &[u8]) -> Result<Request, (&'static str, bool)> {
    let number = |bytes: &[u8]| bytes.iter().fold(0, |number, &byte| number << 8 | u64::from(byte));
    match *frame {
        [b'A', wait, lease, ref rest @ ..] if rest.len() >= 8 => {
            let (owner, body) = (number(&rest[..8]), &rest[8..]);
            if owner == 0 && !rules.has(Fault::AcceptsOwner0) {
                return Err(("bad_request", true));
            }
            if rules.has(Fault::KeyBeforeLease) {
                key(rules, body, false)?;
            }
            let lease = if rules.has(Fault::ClampsLeases) { lease.clamp(1, 250) } else { lease };
            if !(1..=250).contains(&lease) {
                return Err(("bad_lease", false));
            }
            Ok(Request::Acquire { wait, lease, owner, key: key(rules, body, false)? })
        }
        [b'R', ref rest @ ..] if rest.len() >= 8 => {
            Ok(Request::Release { token: number(&rest[..8]), key: key(rules, &rest[8..], true)? })
        }
        _ => Err(("bad_request", true)),
    }
}

fn key(rules: Rules, body: &[u8], is_release: bool) -> Result<Vec<u8>, (&'static str, bool)> {
    let text = str::from_utf8(body);
    let len = match (rules.has(Fault::CountsCharacters), text) {
        (true, Ok(text)) => text.chars().count(),
        _ => body.len(),
    };
    let is_space_fine = is_release && rules.has(Fault::AcceptsSpaceInRelease);
    let is_good = (1..=128).contains(&len)
        && (text.is_ok() || rules.has(Fault::AcceptsAnyBytes))
        && (is_space_fine || !body.contains(&b' '));
    if !is_good {
        return Err(("bad_key", rules.has(Fault::BadKeyCloses)));
    }
    Ok(match rules.fault {
        Some(Fault::StripsCarriageReturn) => body.strip_suffix(b"\r").unwrap_or(body).to_vec(),
        Some(Fault::FoldsCase) => body.to_ascii_lowercase(),
        Some(Fault::StopsAtNul) => body.split(|&byte| byte == 0).next().unwrap_or(body).to_vec(),
        _ => body.to_vec(),
    })
}
