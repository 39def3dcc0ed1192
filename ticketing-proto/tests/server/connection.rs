//! A connection alone, with an owner that answers later, or ends it: what a cluster or another table needs.

use std::sync::Arc;

use ticketing_proto::id::{Owner, Token};
use ticketing_proto::key::{Key, KeyRef};
use ticketing_proto::server::{CloseReason, Connection, Farewell, TimeoutReason};
use ticketing_proto::wire::{Reason, Reply, Request};

use crate::rig::*;

/// An authenticated connection that has sent its challenge.
fn open() -> Connection {
    let mut peer = Connection::new(START, Id::new(1), Arc::default(), [0; 32]);
    receive(&mut peer, &[&[b'x'; 43][..], b"\n"].concat());
    assert!(transmit(&mut peer).starts_with(b"sha256 "));
    assert!(peer.is_open());
    peer
}

/// Hands bytes in and answers nothing; how many requests came out.
fn receive(peer: &mut Connection, bytes: &[u8]) -> usize {
    let mut requests = 0;
    peer.handle_data(START, bytes, |_, _| requests += 1);
    requests
}

fn transmit(peer: &mut Connection) -> Vec<u8> {
    let mut all = Vec::new();
    let mut batch = Vec::new();
    while peer.poll_transmit(&mut batch) {
        peer.handle_transmitted(START, batch.len());
        all.append(&mut batch);
    }
    all
}

fn k() -> KeyRef<'static> {
    KeyRef::new(b"k").expect("a key")
}

fn grant(number: u64) -> Reply<'static> {
    Reply::Acquired { token: token(number), owner: Owner::new(number).expect("an owner"), key: k() }
}

fn withdrawn(peer: &mut Connection) -> Vec<(Key, Token)> {
    std::iter::from_fn(|| peer.poll_withdrawn()).collect()
}

#[test]
fn requests_come_out_in_order_and_replies_go_in_at_once_or_later() {
    let mut peer = open();
    let bytes = [acquire(0, 5, 1, "k"), release(7, "k"), acquire(9, 5, 2, "k")].concat();
    let mut seen = Vec::new();
    peer.handle_data(START, &bytes, |request, replies| match request {
        Request::Acquire(acquire) => {
            seen.push((acquire.owner.value(), replies.in_flight()));
            if acquire.owner.value() == 2 {
                replies.reply(grant(2));
            }
        }
        Request::Release(release) => seen.push((release.token, replies.in_flight())),
    });
    assert_eq!(seen, [(1, 1), (7, 1), (2, 2)]);
    peer.reply(START, Reply::Released { token: 7, key: k() });
    peer.reply(START, grant(1));
    assert_eq!(transmit(&mut peer), [acquired(2, 2, "k"), released(7, "k"), acquired(1, 1, "k")].concat());
    assert_eq!(peer.take_settled(), 2);
    assert_eq!(peer.take_settled(), 0);
}

#[test]
fn tr_10_a_reply_that_is_decided_later_is_waited_for_behind_the_end_of_the_stream() {
    let mut peer = open();
    assert_eq!(receive(&mut peer, &[acquire(0, 5, 1, "k"), release(7, "k")].concat()), 2);
    peer.handle_eof(START);
    assert!(peer.poll_departure());
    peer.reply(START, grant(1));
    assert_eq!(transmit(&mut peer), acquired(1, 1, "k"));
    assert!(!peer.is_closed(), "the release is not answered");
    assert_eq!(peer.poll_timeout(), Some(START + secs(5)));
    peer.reply(START, Reply::NotHeld { token: 7, key: k() });
    assert_eq!(transmit(&mut peer), not_held(7, "k"));
    assert!(peer.is_closed());
}

#[test]
fn tr_10_the_flush_behind_the_end_of_the_stream_waits_5_s_for_later_replies() {
    let mut peer = open();
    assert_eq!(receive(&mut peer, &acquire(0, 5, 1, "k")), 1);
    peer.handle_eof(START);
    peer.handle_timeout(START + secs(5));
    assert!(peer.is_closed());
    peer.reply(START, grant(1));
    assert_eq!(withdrawn(&mut peer), [(k().to_key(), token(1))]);
    assert_eq!(peer.take_settled(), 1);
    assert_eq!(peer.close_reason(), Some(CloseReason::Ended));
}

#[test]
fn tr_10_waiters_that_left_are_not_waited_for_and_their_late_grants_come_back() {
    let mut peer = open();
    assert_eq!(receive(&mut peer, &[acquire(9, 5, 1, "k"), acquire(9, 5, 2, "k")].concat()), 2);
    peer.handle_eof(START);
    assert!(peer.poll_departure());
    assert!(!peer.poll_departure(), "once");
    assert!(!peer.is_closed());
    peer.reply_to_waiter(START, grant(1));
    assert_eq!(withdrawn(&mut peer), [(k().to_key(), token(1))]);
    peer.waiters_left(START, 1);
    assert!(peer.is_closed());
    assert_eq!(transmit(&mut peer), b"");
}

#[test]
fn a_grant_for_a_connection_that_has_failed_comes_back() {
    for waited in [false, true] {
        let mut peer = open();
        assert_eq!(receive(&mut peer, &acquire(9, 5, 1, "k")), 1);
        assert_eq!(receive(&mut peer, b"?"), 0);
        if waited {
            peer.reply_to_waiter(START, grant(1));
        } else {
            peer.reply(START, grant(1));
        }
        assert_eq!(transmit(&mut peer), error(Reason::BadOp), "the E is the last frame");
        assert!(peer.wants_attention());
        assert_eq!(withdrawn(&mut peer), [(k().to_key(), token(1))]);
        assert_eq!(peer.take_settled(), 1);
    }
}

#[test]
fn rd_1_each_farewell_is_the_last_frame_and_ends_the_connection() {
    let moved = |leader| Farewell::Moved { leader };
    for (farewell, frame, reason) in [
        (moved("db-1.example:5225"), b"Mdb-1.example:5225\n".as_slice(), CloseReason::Moved),
        (moved("not an address"), b"Eno_leader\n", CloseReason::NoLeader),
        (Farewell::NoLeader, b"Eno_leader\n", CloseReason::NoLeader),
        (Farewell::NotActive, b"Enot_active\n", CloseReason::NotActive),
        (Farewell::Unanswered, b"", CloseReason::Unanswered),
    ] {
        let mut peer = open();
        assert_eq!(receive(&mut peer, &[acquire(9, 5, 1, "k"), release(3, "k")].concat()), 2);
        peer.reply(START, Reply::NotHeld { token: 3, key: k() });
        peer.finish(START, farewell);
        peer.finish(START, Farewell::NotActive);
        assert!(!peer.is_open());
        assert!(peer.poll_departure());
        assert_eq!(receive(&mut peer, &release(4, "k")), 0, "nothing more is executed");
        peer.announce_leader(START, None);
        assert_eq!(transmit(&mut peer), [&not_held(3, "k")[..], frame].concat());
        assert!(peer.poll_shutdown_write());
        assert!(!peer.poll_shutdown_write(), "once");
        assert_eq!(peer.timeout_reason(), Some(TimeoutReason::Linger));
        assert!(peer.wants_read(), "to discard it");
        peer.handle_eof(START);
        assert!(peer.is_closed() && !peer.wants_read());
        assert_eq!((peer.close_reason(), peer.poll_timeout()), (Some(reason), None));
    }
}

#[test]
fn rd_1_a_connection_that_is_not_authenticated_gets_no_farewell() {
    let mut peer = Connection::new(START, Id::new(1), Arc::default(), [0; 32]);
    peer.finish(START, Farewell::NoLeader);
    assert!(peer.is_closed());
    assert_eq!(transmit(&mut peer), b"");
    assert_eq!(peer.close_reason(), Some(CloseReason::NoLeader));
}

#[test]
fn rd_3_a_change_of_leader_is_pushed_and_closes_nothing() {
    let mut peer = open();
    peer.announce_leader(START, Some("[::1]:5225"));
    assert_eq!(transmit(&mut peer), b"L[::1]:5225\n");
    for none in [None, Some("nonsense")] {
        peer.announce_leader(START, none);
        assert_eq!(transmit(&mut peer), b"L\n");
    }
    assert!(peer.is_open());
    assert_eq!((peer.take_settled(), peer.poll_timeout()), (0, None));
    let mut early = Connection::new(START, Id::new(1), Arc::default(), [0; 32]);
    early.announce_leader(START, None);
    assert_eq!(transmit(&mut early).len(), 51, "only the challenge");
}

#[test]
fn rd_3_only_the_newest_leader_is_owed() {
    let mut peer = open();
    peer.announce_leader(START, Some("a:1"));
    peer.reply(START, Reply::NotHeld { token: 1, key: k() });
    let mut batch = Vec::new();
    assert!(peer.poll_transmit(&mut batch));
    peer.handle_transmitted(START, 1);
    for leader in ["b:1", "c:1", "d:1"] {
        peer.announce_leader(START, Some(leader));
    }
    // Of the first a byte is out already.
    assert_eq!(transmit(&mut peer), [b"a:1\n", &not_held(1, "k")[..], b"Ld:1\n"].concat());
}

#[test]
fn fr_6_the_end_of_a_frame_that_comes_after_its_time_is_not_executed() {
    let mut peer = open();
    let bytes = acquire(0, 5, 1, "k");
    assert_eq!(receive(&mut peer, &bytes[..12]), 0);
    peer.handle_data(START + secs(5), &bytes[12..], |_, _| panic!("a request"));
    assert_eq!(transmit(&mut peer), error(Reason::BadRequest));
}

#[test]
fn op_7_waiters_must_leave_and_grants_come_back_however_an_open_connection_ends() {
    let ends: [fn(&mut Connection); 2] =
        [|peer| peer.handle_timeout(START + secs(10)), |peer| peer.handle_disconnected(START)];
    for end in ends {
        let mut peer = open();
        assert_eq!(receive(&mut peer, &[acquire(9, 5, 1, "k"), acquire(9, 5, 2, "k")].concat()), 2);
        peer.reply_to_waiter(START, grant(1));
        end(&mut peer);
        assert!(peer.is_closed());
        assert!(peer.poll_departure());
        assert_eq!(withdrawn(&mut peer), [(k().to_key(), token(1))]);
        assert_eq!(peer.take_settled(), 1);
    }
}

#[test]
fn writing_to_a_transport_that_is_gone_is_not_shut_down() {
    let mut peer = open();
    assert_eq!(receive(&mut peer, b"?"), 0);
    assert_eq!(transmit(&mut peer), error(Reason::BadOp));
    peer.handle_disconnected(START);
    assert!(!peer.poll_shutdown_write());
}

#[test]
fn a_clock_that_goes_back_is_clamped() {
    let mut peer = open();
    peer.handle_timeout(START + secs(100));
    assert_eq!(receive(&mut peer, b"A"), 0);
    assert_eq!(peer.poll_timeout(), Some(START + secs(105)));
}

#[test]
fn the_first_cause_of_the_end_is_kept() {
    let mut peer = open();
    peer.handle_eof(START);
    peer.handle_disconnected(START);
    assert_eq!(peer.close_reason(), Some(CloseReason::Ended));
}

#[test]
fn debug_output_shows_neither_peer_bytes_nor_the_nonce() {
    let mut peer = Connection::new(START, Id::new(42), Arc::default(), [0; 32]);
    receive(&mut peer, b"secret-line");
    let shown = format!("{peer:?}");
    assert!(shown.contains("42") && shown.contains("Handshake"), "{shown}");
    assert!(!shown.contains("115, 101") && !shown.contains("AAAA") && !shown.contains("[0"), "{shown}");
}
