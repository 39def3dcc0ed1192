//! The two lines before the first frame.

use std::collections::BTreeSet;
use std::thread::sleep;
use std::time::{Duration, Instant};

use super::super::bench::Bench;
use super::super::peer::{Heard, Peer};
use crate::case::{Case, Stop, Verdict};
use crate::transcript::readable;
use crate::wire;

/// From accept to the end of authentication (`TR-7`).
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

pub(super) const CASES: &[Case<Bench>] = &[
    Case::new(
        "handshake/challenge",
        &["AU-1", "TR-3"],
        "The server speaks first: `sha256`, one space, a nonce of 43 base64url characters, LF.",
        challenge,
    ),
    Case::new(
        "handshake/fresh-nonces",
        &["AU-1", "AU-6"],
        "Each connection gets a nonce of its own.",
        fresh_nonces,
    ),
    Case::new(
        "handshake/frame-behind-response",
        &["AU-2", "AU-3", "TR-3"],
        "Success is silent, and the first frame may come in the response's segment.",
        frame_behind_response,
    ),
    Case::new(
        "handshake/response-in-pieces",
        &["AU-2", "AU-4"],
        "A response that comes byte by byte is the same response.",
        response_in_pieces,
    ),
    Case::new(
        "handshake/any-response-without-token",
        &["AU-5"],
        "A server without a token accepts every well-formed response.",
        any_response_without_token,
    ),
    Case::new(
        "handshake/wrong-response",
        &["AU-4", "ER-1", "RD-1"],
        "A wrong response gets `Eauth_failed` and a close, and no frame behind it is executed.",
        wrong_response,
    ),
    Case::new(
        "handshake/no-second-try",
        &["AU-4", "AU-6"],
        "After a wrong response the right one comes too late.",
        no_second_try,
    ),
    Case::new(
        "handshake/replayed-response",
        &["AU-6"],
        "A response serves on its own connection only.",
        replayed_response,
    ),
    Case::new(
        "handshake/spare-bits",
        &["AU-4"],
        "Texts are compared, not what they decode to: another last character with the same bytes is wrong.",
        spare_bits,
    ),
    Case::new(
        "handshake/malformed-response",
        &["AU-4", "ER-3"],
        "A line that is not 43 base64url characters gets `Ebad_request` and a close.",
        malformed_response,
    ),
    Case::new(
        "handshake/response-of-192-bytes",
        &["AU-1", "AU-4"],
        "A line of 192 bytes is not too long, only malformed.",
        response_of_192_bytes,
    ),
    Case::new(
        "handshake/response-of-193-bytes",
        &["AU-1", "AU-4", "ER-4"],
        "193 bytes without LF get `Eline_too_long` and a close, and no LF is waited for.",
        response_of_193_bytes,
    ),
    Case::new(
        "handshake/frame-before-response",
        &["AU-4", "TR-3"],
        "A frame in the response's place is a malformed response, and is not executed.",
        frame_before_response,
    ),
    Case::new(
        "handshake/end-inside",
        &["TR-7"],
        "A connection that ends in the midst of the handshake is closed silently.",
        end_inside,
    ),
    Case::new(
        "handshake/silence",
        &["TR-7"],
        "A connection that is not authenticated after 10 s is closed, silently.",
        silence,
    )
    .slow(),
    Case::new("handshake/trickle", &["TR-7"], "Bytes that trickle in do not extend the 10 s.", trickle)
        .slow(),
    Case::new(
        "handshake/quiet-afterwards",
        &["TR-5", "TR-7"],
        "An authenticated connection that is quiet for longer than 10 s stays open.",
        quiet_afterwards,
    )
    .slow(),
];

fn challenge(bench: &mut Bench) -> Verdict {
    let line = bench.stranger()?.challenge_line()?;
    let nonce = line.strip_prefix(b"sha256 ");
    if nonce.is_some_and(|nonce| nonce.len() == 43 && wire::is_base64url(nonce)) {
        return Ok(());
    }
    Err(Stop::failed(readable(&line), "`sha256 ` and 43 base64url characters"))
}

fn fresh_nonces(bench: &mut Bench) -> Verdict {
    let mut nonces = BTreeSet::new();
    for _ in 0..20 {
        let nonce = bench.stranger()?.challenge()?;
        if !nonces.insert(nonce.clone()) {
            return Err(Stop::failed(format!("the nonce {} twice", readable(&nonce)), "20 different nonces"));
        }
    }
    Ok(())
}

/// A06
fn frame_behind_response(bench: &mut Bench) -> Verdict {
    let mut peer = bench.stranger()?;
    let (key, owner) = (bench.key("k"), bench.owner());
    let nonce = peer.challenge()?;
    let bytes = [peer.response(&nonce), wire::acquire(0, 5, owner, &key)].concat();
    peer.send_meaning(&bytes, "the response, and an acquire behind it")?;
    let token = peer.granted(owner, &key)?;
    peer.give_back(token, &key)
}

/// F01
fn response_in_pieces(bench: &mut Bench) -> Verdict {
    let mut peer = bench.stranger()?;
    let nonce = peer.challenge()?;
    for byte in peer.response(&nonce) {
        peer.send_meaning(&[byte], "one byte of the response")?;
    }
    peer.sentinel(&bench.key("sentinel"))
}

fn any_response_without_token(bench: &mut Bench) -> Verdict {
    if !bench.settings().secret.is_empty() {
        return Err(Stop::not_run("the server has a token"));
    }
    let mut peer = bench.stranger()?;
    peer.challenge()?;
    peer.send_meaning(&[&[b'A'; 43][..], b"\n"].concat(), "43 characters")?;
    peer.sentinel(&bench.key("sentinel"))
}

fn needs_token(bench: &Bench) -> Verdict {
    match bench.settings().secret.is_empty() {
        true => Err(Stop::not_run("the server has no token")),
        false => Ok(()),
    }
}

/// A response of the right form that is wrong.
fn wrong(right: &[u8]) -> Vec<u8> {
    let mut wrong = right.to_vec();
    wrong[0] = if wrong[0] == b'A' { b'B' } else { b'A' };
    wrong
}

fn expect_refusal(peer: &mut Peer, reason: &str) -> Verdict {
    peer.expect_error(reason)?;
    peer.expect_closed()
}

/// A06
fn wrong_response(bench: &mut Bench) -> Verdict {
    needs_token(bench)?;
    let mut peer = bench.stranger()?;
    let (key, owner) = (bench.key("k"), bench.owner());
    let nonce = peer.challenge()?;
    let bytes = [wrong(&peer.response(&nonce)), wire::acquire(0, 30, owner, &key)].concat();
    peer.send_meaning(&bytes, "a wrong response, and an acquire behind it")?;
    expect_refusal(&mut peer, "auth_failed")?;
    bench.expect_free(&key, "the acquire behind the wrong response is not executed")
}

fn no_second_try(bench: &mut Bench) -> Verdict {
    needs_token(bench)?;
    let mut peer = bench.stranger()?;
    let nonce = peer.challenge()?;
    let right = peer.response(&nonce);
    peer.send_meaning(&[wrong(&right), right].concat(), "a wrong response, and the right one behind it")?;
    expect_refusal(&mut peer, "auth_failed")
}

/// A04
fn replayed_response(bench: &mut Bench) -> Verdict {
    needs_token(bench)?;
    let mut first = bench.stranger()?;
    let nonce = first.challenge()?;
    let response = first.response(&nonce);
    first.send_meaning(&response, "the response")?;
    first.sentinel(&bench.key("sentinel"))?;
    let mut second = bench.stranger()?;
    second.challenge()?;
    second.send_meaning(&response, "the response of another connection")?;
    expect_refusal(&mut second, "auth_failed")
}

fn spare_bits(bench: &mut Bench) -> Verdict {
    needs_token(bench)?;
    let mut peer = bench.stranger()?;
    let nonce = peer.challenge()?;
    let mut response = peer.response(&nonce);
    // The last character has four bits of the digest and two to spare, which are 0: the next one is never the last.
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let next = ALPHABET.iter().position(|&character| character == response[42]).map(|at| ALPHABET[at + 1]);
    response[42] = next.unwrap_or(b'B');
    peer.send_meaning(&response, "the response, with a bit set that decoders ignore")?;
    expect_refusal(&mut peer, "auth_failed")
}

fn malformed_response(bench: &mut Bench) -> Verdict {
    type Spoil = fn(&[u8]) -> Vec<u8>;
    let spoilt: [Spoil; 8] = [
        |_| Vec::new(),
        |right| right[..42].to_vec(),
        |right| [right, b"A"].concat(),
        |right| [right, b"\r"].concat(),
        |right| [right, b"="].concat(),
        |right| [&right[..42], b"+"].concat(),
        |right| [b" ", right].concat(),
        |_| b"GET / HTTP/1.1\r".to_vec(),
    ];
    for spoil in spoilt {
        let mut peer = bench.stranger()?;
        let nonce = peer.challenge()?;
        let right = peer.response(&nonce);
        let line = spoil(&right[..43]);
        peer.send_meaning(&[&line[..], b"\n"].concat(), &format!("the line {}", readable(&line)))?;
        expect_refusal(&mut peer, "bad_request")?;
    }
    Ok(())
}

fn response_of_192_bytes(bench: &mut Bench) -> Verdict {
    let mut peer = bench.stranger()?;
    peer.challenge()?;
    peer.send_meaning(&[&[b'x'; 192][..], b"\n"].concat(), "a line of 192 bytes")?;
    expect_refusal(&mut peer, "bad_request")
}

fn response_of_193_bytes(bench: &mut Bench) -> Verdict {
    let mut peer = bench.stranger()?;
    peer.challenge()?;
    peer.send_meaning(&[b'x'; 193], "193 bytes of a line")?;
    expect_refusal(&mut peer, "line_too_long")
}

/// A06
fn frame_before_response(bench: &mut Bench) -> Verdict {
    let mut peer = bench.stranger()?;
    let key = bench.key("k");
    let nonce = peer.challenge()?;
    let bytes = [wire::acquire(0, 30, 1, &key), peer.response(&nonce)].concat();
    peer.send_meaning(&bytes, "an acquire, and the response behind it")?;
    expect_refusal(&mut peer, "bad_request")?;
    bench.expect_free(&key, "the acquire before the response is not executed")
}

fn end_inside(bench: &mut Bench) -> Verdict {
    let mut peer = bench.stranger()?;
    let nonce = peer.challenge()?;
    let response = peer.response(&nonce);
    peer.send_meaning(&response[..20], "the beginning of the response")?;
    peer.end_writing()?;
    peer.expect_closed()
}

/// A09
fn silence(bench: &mut Bench) -> Verdict {
    let start = Instant::now();
    let mut peer = bench.stranger()?;
    peer.challenge()?;
    expect_timeout(bench, &mut peer, start)
}

/// A09
fn trickle(bench: &mut Bench) -> Verdict {
    let start = Instant::now();
    let mut peer = bench.stranger()?;
    let nonce = peer.challenge()?;
    for byte in &peer.response(&nonce)[..9] {
        peer.send_meaning(&[*byte], "one byte of the response")?;
        sleep(Duration::from_secs(1));
    }
    expect_timeout(bench, &mut peer, start)
}

fn expect_timeout(bench: &Bench, peer: &mut Peer, start: Instant) -> Verdict {
    let patience = HANDSHAKE_TIMEOUT + bench.settings().timeout;
    match peer.hear_within(patience, "a silent close after 10 s")? {
        Heard::End | Heard::Reset => bench.in_time("a close", start, HANDSHAKE_TIMEOUT, peer.heard_at()),
        Heard::Reply(reply) => Err(Stop::failed(reply.to_string(), "a silent close after 10 s")),
    }
}

fn quiet_afterwards(bench: &mut Bench) -> Verdict {
    let mut peer = bench.peer()?;
    peer.sentinel(&bench.key("before"))?;
    sleep(HANDSHAKE_TIMEOUT + Duration::from_secs(2));
    peer.sentinel(&bench.key("after"))
}
