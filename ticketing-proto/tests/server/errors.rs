//! The `ER` table, row by row, and the bytes that lead to it.

use ticketing_proto::server::CloseReason;
use ticketing_proto::wire::{DecodeError, Reason};

use crate::rig::*;

const OWNER_1: &[u8] = b"\0\0\0\0\0\0\0\x01";

/// An acquire with wait 0, lease 5, owner 1 and any body.
fn acquire_with(body: &[u8]) -> Vec<u8> {
    frame(b'A', &[&[0, 5], OWNER_1].concat(), body)
}

/// A release of token 1 with any body.
fn release_with(body: &[u8]) -> Vec<u8> {
    frame(b'R', OWNER_1, body)
}

/// Sends bytes that end the connection: the peer gets `E`, and what stands behind them is not executed.
#[track_caller]
fn expect_fatal(bytes: &[u8], reason: Reason, cause: CloseReason) {
    let victim = acquire(0, 30, 1, "victim");
    for behind in [&[][..], &victim, &[b"\n", &victim[..]].concat()] {
        let mut rig = Rig::new();
        let (peer, other) = (rig.login(), rig.login());
        let before = acquire(0, 1, 9, "before");
        rig.send(peer, &[&before, bytes, behind].concat());
        rig.expect_end(peer, &[acquired(1, 9, "before"), error(reason)].concat());
        assert_eq!(rig.socket(peer).closed, Some(cause));
        for (owner, key) in [(1, "victim"), (2, "k")] {
            rig.send(other, &acquire(0, 1, owner, key));
            assert_eq!(rig.take(other), acquired(owner + 1, owner, key));
        }
        rig.expect_nothing_left();
    }
}

/// Sends a frame that gets an `E` and no more: the connection stays open and nothing is held.
#[track_caller]
fn expect_harmless(bytes: &[u8], reason: Reason) {
    let mut rig = Rig::new();
    let peer = rig.login();
    rig.send(peer, bytes);
    assert_eq!(rig.take(peer), error(reason), "{bytes:x?}");
    assert_eq!(rig.server.usage().keys.used, 0);
    rig.expect_quiet(peer);
    assert!(rig.is_open(peer));
    rig.expect_nothing_left();
}

#[test]
fn er_1_a_wrong_response_gets_auth_failed() {
    let mut rig = Rig::with(config("a secret of some length", Default::default()));
    let peer = rig.connect();
    let mut response = rig.response(peer);
    response[0] = if response[0] == b'A' { b'B' } else { b'A' };
    rig.send(peer, &response);
    rig.expect_end(peer, b"Eauth_failed\n");
    assert_eq!(rig.socket(peer).closed, Some(CloseReason::AuthFailed));
    rig.expect_nothing_left();
}

#[test]
fn er_2_f22_an_unknown_op_gets_bad_op_and_runs_nothing_behind_it() {
    for op in [0x00, 0x61, 0x42, 0x4d, 0x4e, 0x54, 0x16, 0xff] {
        expect_fatal(&[op], Reason::BadOp, CloseReason::Malformed(DecodeError::UnknownOp { op }));
    }
}

#[test]
fn er_3_f22_owner_0_gets_bad_request_and_runs_nothing_behind_it() {
    expect_fatal(b"A\0\x05\0\0\0\0\0\0\0\0k\n", Reason::BadRequest, CloseReason::ZeroOwner);
}

#[test]
fn er_3_a_stream_that_ends_inside_a_frame_gets_bad_request_and_executes_nothing() {
    let whole = acquire(0, 5, 1, "k");
    for cut in 1..whole.len() {
        let mut rig = Rig::new();
        let (peer, other) = (rig.login(), rig.login());
        rig.send(peer, &[&acquire(0, 1, 9, "before"), &whole[..cut]].concat());
        rig.eof(peer);
        let replies = [acquired(1, 9, "before"), error(Reason::BadRequest)].concat();
        assert_eq!(rig.take(peer), replies, "{cut} bytes");
        assert_eq!(
            rig.socket(peer).closed,
            Some(CloseReason::Malformed(DecodeError::Truncated { len: cut }))
        );
        rig.send(other, &acquire(0, 1, 2, "k"));
        assert_eq!(rig.take(other), acquired(2, 2, "k"));
        rig.expect_nothing_left();
    }
}

#[test]
fn er_3_a_malformed_handshake_line_gets_bad_request() {
    let short = [b'x'; 42];
    let long = [b'x'; 44];
    let mut odd = [b'x'; 43];
    odd[20] = b'=';
    for line in [&b""[..], b"\r", &short, &long, &odd, b"GET / HTTP/1.1\r", &[b'x'; 192]] {
        let mut rig = Rig::new();
        let peer = rig.connect();
        let _challenge = rig.take(peer);
        rig.send(peer, &[line, b"\n", &acquire(0, 5, 1, "k")].concat());
        rig.expect_end(peer, b"Ebad_request\n");
        assert_eq!(rig.socket(peer).closed, Some(CloseReason::MalformedResponse));
        assert_eq!(rig.server.usage().keys.used, 0);
    }
}

#[test]
fn er_4_f09_byte_193_without_lf_gets_line_too_long_at_once() {
    let frame = acquire_with(&[b'x'; 182]);
    assert_eq!(frame.len(), 194);
    expect_fatal(&frame[..193], Reason::LineTooLong, CloseReason::Malformed(DecodeError::LineTooLong));

    let mut rig = Rig::new();
    let peer = rig.login();
    rig.send(peer, &frame[..192]);
    assert_eq!(rig.take(peer), b"", "192 bytes may be a whole frame");
    rig.advance(millis(4_999));
    assert_eq!(rig.take(peer), b"");
    rig.advance(millis(1));
    rig.expect_end(peer, b"Ebad_request\n");
    assert_eq!(rig.socket(peer).closed, Some(CloseReason::FrameTimedOut));
}

#[test]
fn er_4_f09_a_flood_without_lf_gets_one_error_and_is_discarded() {
    let mut rig = Rig::new();
    let peer = rig.login();
    let chunk = vec![b'A'; 4096];
    for _ in 0..100_000_000 / chunk.len() {
        rig.send(peer, &chunk);
    }
    assert_eq!(rig.take(peer), b"Eline_too_long\n");
    rig.advance(secs(1));
    assert!(rig.socket(peer).closed.is_some(), "it lingers for 1 s, however much comes");
}

#[test]
fn er_5_f13_keys_that_are_not_utf8_get_bad_key() {
    for key in [
        &b"\xc0\xaf"[..],
        b"\xe0\x80\xaf",
        b"\xf0\x80\x80\xaf",
        b"\xc0\x80",
        b"\xed\xa0\x80",
        b"\xed\xb0\x80",
        b"\xed\xa0\x80\xed\xb0\x80",
        b"\xf4\x90\x80\x80",
        b"\xf8\x88\x80\x80\x80",
        b"\x80",
        b"\xbf",
        b"\xfe",
        b"\xff",
        b"\xc1\xbf",
        b"\xe0\x9f\xbf",
    ] {
        expect_harmless(&acquire_with(key), Reason::BadKey);
        expect_harmless(&release_with(key), Reason::BadKey);
    }
    let mut rig = Rig::new();
    let peer = rig.login();
    for (number, key) in (1..).zip(["\u{fffe}", "\u{ffff}", "\u{fffff}", "\u{d7ff}", "\u{e000}"]) {
        rig.send(peer, &acquire_with(key.as_bytes()));
        assert_eq!(rig.take(peer), acquired(number, 1, key));
    }
}

#[test]
fn er_5_f19_spaces_and_empty_keys_get_bad_key_for_acquire_and_release_alike() {
    for key in [&b""[..], b" ", b"a b", b"k "] {
        expect_harmless(&acquire_with(key), Reason::BadKey);
        expect_harmless(&release_with(key), Reason::BadKey);
    }
}

#[test]
fn er_5_f11_lengths_are_judged_exactly() {
    for (body_len, is_acquire) in [(129, true), (181, true), (129, false), (183, false)] {
        let body = vec![b'x'; body_len];
        let bytes = if is_acquire { acquire_with(&body) } else { release_with(&body) };
        expect_harmless(&bytes, Reason::BadKey);
    }
    let too_long = CloseReason::Malformed(DecodeError::LineTooLong);
    expect_fatal(&acquire_with(&[b'x'; 182]), Reason::LineTooLong, too_long);
    expect_fatal(&release_with(&[b'x'; 184]), Reason::LineTooLong, too_long);

    let mut rig = Rig::new();
    let peer = rig.login();
    let key = "x".repeat(128);
    rig.send(peer, &[acquire_with(key.as_bytes()), release_with(key.as_bytes())].concat());
    assert_eq!(rig.take(peer), [acquired(1, 1, &key), released(1, &key)].concat());
    rig.send(peer, &release_with(key.as_bytes()));
    assert_eq!(rig.take(peer), not_held(1, &key));

    let late = acquire_with(&[b'x'; 181]);
    rig.send(peer, &late[..192]);
    rig.advance(secs(1));
    assert_eq!(rig.take(peer), b"");
    rig.send(peer, b"\n");
    assert_eq!(rig.take(peer), error(Reason::BadKey));
    rig.expect_quiet(peer);
}

#[test]
fn er_6_a_lease_of_0_or_above_250_gets_bad_lease() {
    for lease in [0, 251, 254, 255] {
        expect_harmless(&frame(b'A', &[&[0, lease], OWNER_1].concat(), b"k"), Reason::BadLease);
    }
    let mut rig = Rig::new();
    let peer = rig.login();
    for (number, lease, key) in [(1, 1, "shortest"), (2, 250, "longest")] {
        rig.send(peer, &acquire(0, lease, 1, key));
        assert_eq!(rig.take(peer), acquired(number, 1, key));
    }
}

#[test]
fn faults_in_one_frame_are_judged_in_the_order_owner_lease_key() {
    expect_fatal(&frame(b'A', &[0; 10], b""), Reason::BadRequest, CloseReason::ZeroOwner);
    expect_harmless(&frame(b'A', &[&[0, 0], OWNER_1].concat(), b""), Reason::BadLease);
    expect_harmless(&acquire_with(b""), Reason::BadKey);
}

#[test]
fn er_7_a_server_that_shuts_down_says_not_active() {
    let mut rig = Rig::new();
    let peer = rig.login();
    rig.server.shut_down(rig.now);
    rig.advance(secs(0));
    rig.send(peer, &acquire(0, 5, 1, "k"));
    rig.expect_end(peer, b"Enot_active\n");
    assert_eq!(rig.socket(peer).closed, Some(CloseReason::NotActive));
}

#[test]
fn r12_an_error_never_echoes_what_the_peer_sent() {
    let mut rig = Rig::new();
    let peer = rig.login();
    for key in ["\u{1b}[31m \u{202e}", "\r ", "\u{2028} ", " secret-looking"] {
        for bytes in [acquire_with(key.as_bytes()), release_with(key.as_bytes())] {
            rig.send(peer, &bytes);
            assert_eq!(rig.take(peer), b"Ebad_key\n");
        }
    }
    rig.send(peer, &acquire(5, 5, 1, "\u{1b}[31m-shown"));
    let shown = format!("{:?} {:?}", rig.server, rig.socket(peer).closed);
    assert!(!shown.contains('\u{1b}'), "debug output holds raw bytes of the peer");
}
