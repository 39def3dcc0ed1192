//! The handshake, and peers that do not get through it.

use std::collections::BTreeSet;

use ticketing_proto::limits::Limits;
use ticketing_proto::server::{CloseReason, Refused};
use ticketing_proto::wire::auth;

use crate::rig::*;

const SECRET: &str = "a secret of some length";

fn guarded() -> Rig {
    Rig::with(config(SECRET, Limits::default()))
}

#[test]
fn the_server_speaks_first_and_each_connection_has_a_challenge_of_its_own() {
    let mut rig = guarded();
    let mut challenges = BTreeSet::new();
    for _ in 0..100 {
        let peer = rig.connect();
        let challenge = rig.take(peer);
        let line = challenge.strip_suffix(b"\n").expect("one line");
        assert_eq!(auth::parse_challenge(line).map(<[u8]>::len), Ok(43));
        assert!(challenges.insert(challenge));
    }
}

#[test]
fn a_challenge_is_the_text_of_its_nonce() {
    let mut rig = guarded();
    let id = rig.server.accept(rig.now, [0xff; 32]).expect("room");
    let mut out = Vec::new();
    assert!(rig.server.poll_transmit(id, &mut out));
    assert_eq!(out, b"sha256 __________________________________________8\n");
}

#[test]
fn a03_a_replayed_response_is_refused() {
    let mut rig = guarded();
    let first = rig.connect();
    let response = rig.response(first);
    rig.send(first, &response);
    rig.expect_quiet(first);
    let second = rig.connect();
    let _challenge = rig.take(second);
    rig.send(second, &response);
    rig.expect_end(second, b"Eauth_failed\n");
}

#[test]
fn a02_without_a_token_the_challenge_is_sent_and_any_well_formed_response_passes() {
    let mut rig = Rig::new();
    let peer = rig.connect();
    assert!(rig.take(peer).starts_with(b"sha256 "));
    rig.send(peer, &[&[b'_'; 43][..], b"\n"].concat());
    rig.expect_quiet(peer);
    let other = rig.connect();
    let _challenge = rig.take(other);
    rig.send(other, &[&[b'_'; 42][..], b"\n"].concat());
    rig.expect_end(other, b"Ebad_request\n");
}

#[test]
fn a02_a_server_with_a_token_never_accepts_everybody() {
    let mut rig = guarded();
    for response in [[b'_'; 43], auth::respond(&Default::default(), &[b'A'; 43])] {
        let peer = rig.connect();
        let _challenge = rig.take(peer);
        rig.send(peer, &[&response[..], b"\n"].concat());
        rig.expect_end(peer, b"Eauth_failed\n");
    }
    let peer = rig.connect();
    let challenge = rig.take(peer);
    let nonce = auth::parse_challenge(challenge.trim_ascii_end()).expect("a challenge");
    rig.send(peer, &[&auth::respond(&Default::default(), nonce)[..], b"\n"].concat());
    rig.expect_end(peer, b"Eauth_failed\n");
}

#[test]
fn a06_frames_right_behind_the_response_are_executed() {
    let mut rig = guarded();
    let peer = rig.connect();
    let response = rig.response(peer);
    rig.send(peer, &[&response[..], b"\n\n", &acquire(0, 5, 1, "k"), b"A\0"].concat());
    assert_eq!(rig.take(peer), acquired(1, 1, "k"));
    rig.send(peer, &acquire(0, 5, 2, "l")[2..]);
    assert_eq!(rig.take(peer), acquired(2, 2, "l"));
}

#[test]
fn a06_frames_before_a_response_or_behind_a_wrong_one_are_not_executed() {
    let frame = acquire(0, 5, 1, "k");
    for is_frame_first in [true, false] {
        for size in [1, 1000] {
            let mut rig = guarded();
            let peer = rig.connect();
            let response = rig.response(peer);
            let wrong = [&[b'x'; 43][..], b"\n"].concat();
            let (bytes, reply) = if is_frame_first {
                ([&frame[..], &response].concat(), b"Ebad_request\n".as_slice())
            } else {
                ([&wrong[..], &frame].concat(), b"Eauth_failed\n".as_slice())
            };
            for piece in bytes.chunks(size) {
                rig.send(peer, piece);
            }
            rig.expect_end(peer, reply);
            assert_eq!(rig.server.usage().keys.used, 0);
        }
    }
}

#[test]
fn a06_a_frame_before_the_challenge_has_gone_out_is_not_executed() {
    let mut rig = guarded();
    let id = rig.server.accept(rig.now, [7; 32]).expect("room");
    rig.server.handle_data(rig.now, id, &acquire(0, 5, 1, "k"));
    let mut out = Vec::new();
    assert!(rig.server.poll_transmit(id, &mut out));
    assert!(out.starts_with(b"sha256 ") && out.ends_with(b"\nEbad_request\n"));
    assert_eq!(rig.server.usage().keys.used, 0);
}

#[test]
fn a08_byte_193_of_the_first_line_ends_it_at_once() {
    let mut rig = guarded();
    let peer = rig.connect();
    let _challenge = rig.take(peer);
    for at in 1..=193 {
        assert!(rig.is_open(peer), "{at}");
        rig.send(peer, b"x");
    }
    assert_eq!(rig.take(peer), b"Eline_too_long\n");
    assert_eq!(rig.socket(peer).closed, None);
    for _ in 0..25_000 {
        rig.send(peer, &[b'x'; 4096]);
    }
    rig.expect_end(peer, b"");
    assert_eq!(rig.socket(peer).closed, Some(CloseReason::ResponseTooLong));
}

#[test]
fn a08_wrong_lines_without_reading_cost_one_error_each_connection() {
    let mut rig = guarded();
    let peer = rig.connect();
    rig.set_room(peer, 0);
    rig.send(peer, &b"wrong\n".repeat(1_000_000));
    rig.set_room(peer, usize::MAX);
    let challenge_len = 51;
    assert_eq!(rig.take(peer)[challenge_len..], *b"Ebad_request\n");
}

#[test]
fn a09_whoever_does_not_authenticate_in_10_s_is_closed_silently() {
    let limits = Limits { unauthenticated: 3, ..Limits::default() };
    let mut rig = Rig::with(config(SECRET, limits));
    let good = rig.login();
    let silent = [(); 3].map(|()| rig.connect());
    assert_eq!(rig.try_connect(), Err(Refused::Unauthenticated { limit: 3 }));
    let accepted = rig.now;
    for _ in 0..9 {
        rig.advance(secs(1));
        rig.send(silent[1], b"x");
    }
    rig.advance(millis(999));
    assert_eq!(rig.try_connect(), Err(Refused::Unauthenticated { limit: 3 }));
    rig.advance(millis(1));
    for peer in silent {
        assert!(rig.take(peer).starts_with(b"sha256 "));
        assert_eq!(rig.socket(peer).closed, Some(CloseReason::HandshakeTimedOut));
        assert_eq!(rig.socket(peer).closed_at, Some(accepted + secs(10)));
        assert!(!rig.socket(peer).is_write_shut);
    }
    assert_eq!(rig.server.unauthenticated(), 0);
    rig.expect_quiet(good);
    let fresh = rig.login();
    rig.expect_quiet(fresh);
    rig.advance(secs(100_000));
    rig.expect_quiet(fresh);
}

#[test]
fn a_response_that_comes_10_s_late_is_no_response() {
    let mut rig = guarded();
    let peer = rig.connect();
    let response = rig.response(peer);
    rig.now = rig.now + secs(10);
    rig.send(peer, &response);
    assert_eq!(rig.take(peer), b"");
    assert_eq!(rig.socket(peer).closed, Some(CloseReason::HandshakeTimedOut));
}

#[test]
fn a_stream_that_ends_inside_the_handshake_is_closed_silently() {
    for bytes in [&b""[..], b"half a lin"] {
        let mut rig = guarded();
        let peer = rig.connect();
        let _challenge = rig.take(peer);
        rig.send(peer, bytes);
        rig.eof(peer);
        assert_eq!(rig.take(peer), b"");
        assert_eq!(rig.socket(peer).closed, Some(CloseReason::HandshakeEnded));
        rig.expect_nothing_left();
    }
}

#[test]
fn a_connection_beyond_the_limit_is_refused_until_one_has_gone() {
    let mut rig = Rig::with_limits(Limits { connections: 2, ..Limits::default() });
    let [first, _] = [(); 2].map(|()| rig.login());
    assert_eq!(rig.try_connect(), Err(Refused::Connections { limit: 2 }));
    rig.send(first, b"?");
    assert_eq!(rig.try_connect(), Err(Refused::Connections { limit: 2 }), "it lingers");
    rig.advance(secs(1));
    assert!(rig.try_connect().is_ok());
    assert_eq!(rig.server.connections(), 2);
}

#[test]
fn unauthenticated_connections_are_counted_however_they_end() {
    let mut rig = guarded();
    let peers = [(); 5].map(|()| rig.connect());
    assert_eq!(rig.server.unauthenticated(), 5);
    let response = rig.response(peers[0]);
    rig.send(peers[0], &response);
    assert_eq!(rig.server.unauthenticated(), 4);
    rig.reset(peers[1]);
    assert_eq!(rig.server.unauthenticated(), 3);
    rig.eof(peers[2]);
    assert_eq!(rig.server.unauthenticated(), 2);
    rig.send(peers[3], b"wrong\n");
    assert_eq!(rig.server.unauthenticated(), 2, "it lingers");
    rig.eof(peers[3]);
    assert_eq!(rig.server.unauthenticated(), 1);
    rig.advance(secs(10));
    assert_eq!((rig.server.unauthenticated(), rig.server.connections()), (0, 1));
}

#[test]
fn n06_other_protocols_are_told_off_at_the_first_byte_that_breaks_the_rules() {
    let hello = [&b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"[..], &[0x55; 300]].concat();
    for (bytes, reply) in [
        (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n".to_vec(), b"Ebad_request\n".as_slice()),
        (hello, b"Eline_too_long\n"),
    ] {
        let mut rig = guarded();
        let peer = rig.connect();
        let _challenge = rig.take(peer);
        rig.send(peer, &bytes);
        rig.expect_end(peer, reply);
    }
}
