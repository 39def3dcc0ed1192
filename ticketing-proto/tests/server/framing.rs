//! Frames however they arrive, and the clock that runs while one is incomplete.

use ticketing_proto::server::{CloseReason, ServerTimeoutReason, TimeoutReason};
use ticketing_proto::wire::Reason;

use crate::rig::*;

/// Sends each piece in a call of its own.
fn send_pieces(rig: &mut Rig, peer: Id, pieces: &[&[u8]]) {
    for piece in pieces {
        rig.send(peer, piece);
    }
}

/// The replies to `bytes` after a handshake, cut at these places.
fn replies_to_cut(bytes: &[u8], first: usize, second: usize) -> Vec<u8> {
    let mut rig = Rig::new();
    let peer = rig.login();
    send_pieces(&mut rig, peer, &[&bytes[..first], &bytes[first..second], &bytes[second..]]);
    assert!(rig.is_open(peer));
    rig.take(peer)
}

#[test]
fn f01_a_frame_split_at_every_byte_is_answered_like_the_whole_one() {
    for key in ["k", "é"] {
        for (bytes, reply) in
            [(acquire(5, 10, 1, key), acquired(1, 1, key)), (release(1, key), not_held(1, key))]
        {
            for first in 0..bytes.len() {
                for second in first..=bytes.len() {
                    assert_eq!(replies_to_cut(&bytes, first, second), reply, "cut at {first} and {second}");
                }
            }
        }
    }
}

#[test]
fn f01_a_response_split_at_every_byte_is_accepted() {
    for first in 0..44 {
        for second in first..44 {
            let mut rig = Rig::with(config("a secret of some length", Default::default()));
            let peer = rig.connect();
            let response = rig.response(peer);
            send_pieces(&mut rig, peer, &[&response[..first], &response[first..second], &response[second..]]);
            rig.expect_quiet(peer);
        }
    }
}

#[test]
fn f02_line_feeds_inside_the_header_end_nothing() {
    let mut rig = Rig::new();
    let peer = rig.login();
    let all = frame(b'A', &[0x0a; 10], b"k");
    for piece in all.chunks(1) {
        rig.send(peer, piece);
    }
    assert_eq!(rig.take(peer), acquired(1, 0x0a0a_0a0a_0a0a_0a0a, "k"));
    for at in 0..10 {
        let mut header = [1, 0x1e, 1, 1, 1, 1, 1, 1, 1, 1];
        header[at] = 0x0a;
        let owner = u64::from_be_bytes(header[2..].try_into().expect("8 bytes"));
        let key = format!("key-{at}");
        rig.send(peer, &frame(b'A', &header, key.as_bytes()));
        assert_eq!(rig.take(peer), acquired(2 + at as u64, owner, &key));
    }
}

#[test]
fn f04_keep_alives_between_frames_eat_no_header_bytes() {
    let bytes =
        [b"\n\n".as_slice(), b"A\n\n\0\0\0\0\0\0\0\x01k\n", b"\n", b"R\0\0\0\0\0\0\0\nk\n", b"\n\n\n"]
            .concat();
    let replies = [acquired(1, 1, "k"), not_held(10, "k")].concat();
    for size in [bytes.len(), 1] {
        let mut rig = Rig::new();
        let peer = rig.login();
        for piece in bytes.chunks(size) {
            rig.send(peer, piece);
        }
        assert_eq!(rig.take(peer), replies);
    }
}

#[test]
fn f04_a_flood_of_keep_alives_starts_no_clock_and_gets_no_answer() {
    let mut rig = Rig::new();
    let peer = rig.login();
    for _ in 0..1_000_000 / 4000 {
        rig.send(peer, &[b'\n'; 4000]);
    }
    assert_eq!(rig.server.poll_timeout(), None);
    rig.advance(secs(600));
    rig.send(peer, &acquire(0, 5, 1, "k"));
    assert_eq!(rig.take(peer), acquired(1, 1, "k"));
}

#[test]
fn f05_a_frame_that_trickles_in_within_5_s_is_answered() {
    let mut rig = Rig::new();
    let peer = rig.login();
    for &byte in &acquire(0, 5, 1, "k") {
        rig.send(peer, &[byte]);
        rig.advance(millis(300));
    }
    assert_eq!(rig.take(peer), acquired(1, 1, "k"));
}

#[test]
fn f05_bytes_that_trickle_in_do_not_extend_a_frames_time() {
    let mut rig = Rig::new();
    let (peer, other) = (rig.login(), rig.login());
    let begun = rig.now;
    for &byte in &acquire(0, 5, 1, "k") {
        rig.send(peer, &[byte]);
        rig.advance(millis(500));
        if rig.now < begun + secs(5) {
            assert!(rig.is_open(peer));
        } else {
            assert!(!rig.is_open(peer), "5 s after the first byte, although bytes still come");
        }
    }
    assert_eq!(rig.take(peer), error(Reason::BadRequest));
    assert_eq!(rig.socket(peer).closed, Some(CloseReason::FrameTimedOut));
    assert_eq!(rig.socket(peer).closed_at, Some(begun + secs(6)), "5 s, and 1 s of lingering");
    rig.send(other, &acquire(0, 5, 2, "k"));
    assert_eq!(rig.take(other), acquired(1, 2, "k"));
}

#[test]
fn a_late_end_of_a_frame_is_judged_by_the_clock_not_by_which_call_comes_first() {
    let mut rig = Rig::new();
    let peer = rig.login();
    let bytes = acquire(0, 5, 1, "k");
    rig.send(peer, &bytes[..12]);
    rig.now = rig.now + secs(5);
    rig.send(peer, &bytes[12..]);
    rig.expect_end(peer, &error(Reason::BadRequest));
    assert_eq!(rig.server.usage().keys.used, 0);
}

#[test]
fn f07_the_clock_of_a_finished_frame_closes_nothing() {
    let mut rig = Rig::new();
    let peer = rig.login();
    let bytes = acquire(0, 1, 1, "k");
    for number in 1..=2 {
        rig.send(peer, &bytes[..6]);
        rig.advance(secs(3));
        rig.send(peer, &bytes[6..]);
        assert_eq!(rig.take(peer), acquired(number, 1, "k"));
        rig.advance(secs(600));
        assert!(rig.is_open(peer));
    }
}

#[test]
fn f07_a_waiter_whose_frame_came_in_halves_waits_its_time_out() {
    let mut rig = Rig::new();
    let (holder, peer) = (rig.login(), rig.login());
    rig.send(holder, &acquire(0, 250, 1, "k"));
    let bytes = acquire(60, 5, 2, "k");
    rig.send(peer, &bytes[..6]);
    rig.advance(secs(3));
    rig.send(peer, &bytes[6..]);
    rig.advance(millis(59_999));
    assert_eq!(rig.take(peer), b"");
    rig.advance(millis(1));
    assert_eq!(rig.take(peer), timed_out(2, "k"));
    rig.expect_quiet(peer);
}

#[test]
fn each_frame_has_its_own_5_s() {
    let mut rig = Rig::new();
    let peer = rig.login();
    let bytes = release(1, "k");
    rig.send(peer, &bytes[..1]);
    rig.advance(secs(4));
    // The end of one frame and the first bytes of the next, in one segment.
    rig.send(peer, &[&bytes[1..], &bytes[..1]].concat());
    assert_eq!(rig.take(peer), not_held(1, "k"));
    rig.advance(millis(4_999));
    assert!(rig.is_open(peer));
    rig.advance(millis(1));
    rig.expect_end(peer, &error(Reason::BadRequest));
}

#[test]
fn f08_many_frames_in_one_segment_are_all_answered() {
    let mut bytes = Vec::new();
    let mut replies = Vec::new();
    for number in 1..=500 {
        let key = format!("key-{number}");
        bytes.extend(acquire(0, 1, number, &key));
        bytes.push(b'\n');
        replies.extend(acquired(number, number, &key));
    }
    for ends in [false, true] {
        let mut rig = Rig::new();
        let (peer, other) = (rig.login(), rig.login());
        rig.send(peer, &bytes);
        if ends {
            rig.eof(peer);
            assert_eq!(rig.socket(peer).closed, Some(CloseReason::Ended));
        }
        assert_eq!(rig.take(peer), replies);
        rig.advance(millis(999));
        rig.send(other, &acquire(0, 1, 1, "key-500"));
        assert_eq!(rig.take(other), timed_out(1, "key-500"), "a delivered grant outlives its connection");
        rig.advance(millis(1));
        rig.send(other, &acquire(0, 1, 1, "key-500"));
        assert_eq!(rig.take(other), acquired(501, 1, "key-500"));
        rig.expect_nothing_left();
    }
}

#[test]
fn f15_a_nul_ends_no_key() {
    let mut rig = Rig::new();
    let (one, other) = (rig.login(), rig.login());
    rig.send(one, b"A\0\x05\0\0\0\0\0\0\0\x01a\0b\n");
    assert_eq!(rig.take(one), acquired(1, 1, "a\0b"));
    rig.send(other, b"A\0\x05\0\0\0\0\0\0\0\x01a\0c\n");
    assert_eq!(rig.take(other), acquired(2, 1, "a\0c"));
    rig.send(other, &acquire(0, 5, 2, "a"));
    assert_eq!(rig.take(other), acquired(3, 2, "a"), "nobody held `a`");
}

#[test]
fn f16_a_cr_before_the_line_feed_belongs_to_the_key() {
    let mut rig = Rig::new();
    let [c1, c2, c3] = [(); 3].map(|()| rig.login());
    rig.send(c1, b"A\0\x05\0\0\0\0\0\0\0\x01k\r\n");
    assert_eq!(rig.take(c1), acquired(1, 1, "k\r"));
    rig.send(c2, b"A\0\x05\0\0\0\0\0\0\0\x01k\n");
    assert_eq!(rig.take(c2), acquired(2, 1, "k"));
    rig.send(c3, b"A\0\x05\0\0\0\0\0\0\0\x01\r\n");
    assert_eq!(rig.take(c3), acquired(3, 1, "\r"));
    rig.send(c1, &release(1, "k"));
    assert_eq!(rig.take(c1), not_held(1, "k"));
    rig.send(c1, &acquire(0, 5, 4, "k\r"));
    assert_eq!(rig.take(c1), timed_out(4, "k\r"), "still held");
}

#[test]
fn f18_keys_are_compared_byte_for_byte() {
    let mut rig = Rig::new();
    let peer = rig.login();
    for (number, key) in (1..).zip(["\u{feff}k", "k", "\u{e9}", "e\u{301}"]) {
        rig.send(peer, &acquire(0, 5, number, key));
        assert_eq!(rig.take(peer), acquired(number, number, key));
    }
}

#[test]
fn f25_a_half_read_frame_outlives_a_grant_and_a_timeout() {
    let half = acquire(0, 30, 3, "y");
    for cut in 1..half.len() {
        for by_timeout in [false, true] {
            let mut rig = Rig::new();
            let (holder, peer) = (rig.login(), rig.login());
            rig.send(holder, &acquire(0, 30, 1, "x"));
            assert_eq!(rig.take(holder), acquired(1, 1, "x"));
            rig.send(peer, &acquire(2, 30, 2, "x"));
            rig.send(peer, &half[..cut]);
            if by_timeout {
                rig.advance(secs(2));
                assert_eq!(rig.take(peer), timed_out(2, "x"));
            } else {
                rig.send(holder, &release(1, "x"));
                assert_eq!(rig.take(peer), acquired(2, 2, "x"));
            }
            rig.send(peer, &half[cut..]);
            let token = if by_timeout { 2 } else { 3 };
            assert_eq!(rig.take(peer), acquired(token, 3, "y"), "cut at {cut}");
            rig.expect_quiet(peer);
        }
    }
}

#[test]
fn a_malformed_frame_takes_the_connections_waiters_out_of_their_queues_unanswered() {
    let mut rig = Rig::new();
    let [holder, peer, next] = [(); 3].map(|()| rig.login());
    rig.send(holder, &acquire(0, 30, 1, "k"));
    rig.send(peer, &acquire(60, 30, 2, "k"));
    rig.send(next, &acquire(60, 30, 3, "k"));
    rig.send(peer, b"?");
    assert_eq!(rig.server.usage().waiters.used, 1);
    rig.send(holder, &release(1, "k"));
    assert_eq!(rig.take(next), acquired(2, 3, "k"));
    rig.advance(secs(60));
    assert_eq!(rig.take(peer), error(Reason::BadOp));
    rig.expect_nothing_left();
}

#[test]
fn a_grant_that_a_frame_decided_goes_out_before_the_error_of_the_next_one() {
    let mut rig = Rig::new();
    let peer = rig.login();
    rig.send(peer, &[acquire(0, 30, 1, "k"), acquire(9, 30, 2, "k")].concat());
    assert_eq!(rig.take(peer), acquired(1, 1, "k"));
    rig.send(peer, &[&release(1, "k")[..], b"?"].concat());
    rig.expect_end(peer, &[released(1, "k"), acquired(2, 2, "k"), error(Reason::BadOp)].concat());
    assert_eq!(rig.server.usage().keys.used, 1, "it was delivered");
}

#[test]
fn the_timeout_that_is_due_has_a_name() {
    let mut rig = Rig::new();
    let peer = rig.connect();
    assert_eq!(rig.connection_timeout(), Some((peer, TimeoutReason::Handshake)));
    let response = rig.response(peer);
    rig.send(peer, &response);
    assert_eq!(rig.server.timeout_reason(), None);
    rig.send(peer, b"A");
    assert_eq!(rig.connection_timeout(), Some((peer, TimeoutReason::Frame)));
    rig.set_room(peer, 0);
    rig.send(peer, b"\n\n\n\n\n\n\n\n\n\n\n");
    assert_eq!(rig.connection_timeout(), Some((peer, TimeoutReason::WriteStall)));
    rig.send(peer, b"?");
    assert_eq!(rig.connection_timeout(), Some((peer, TimeoutReason::Flush)));
    rig.set_room(peer, usize::MAX);
    assert_eq!(rig.connection_timeout(), Some((peer, TimeoutReason::Linger)));
    rig.eof(peer);
    assert_eq!(rig.server.timeout_reason(), None);
    let holder = rig.login();
    rig.send(holder, &acquire(0, 1, 1, "k"));
    assert_eq!(rig.server.timeout_reason(), Some(ServerTimeoutReason::Table));
    // A frame has 5 s, this wait 1 s.
    rig.send(holder, &[&acquire(1, 1, 2, "k")[..], b"A"].concat());
    assert_eq!(rig.server.timeout_reason(), Some(ServerTimeoutReason::Table));
}
