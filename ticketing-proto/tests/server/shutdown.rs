//! The end that comes from the server: shutdown, and the close that loses no reply.

use ticketing_proto::server::{CloseReason, Refused};
use ticketing_proto::wire::Reason;

use crate::rig::*;

fn shut_down(rig: &mut Rig) {
    rig.server.shut_down(rig.now);
    rig.pump();
}

#[test]
fn n12_shutdown_waits_for_nobody() {
    let mut rig = Rig::new();
    let quiet: Vec<_> = (0..100).map(|_| rig.login()).collect();
    let waiters: Vec<_> = (0..10).map(|_| rig.login()).collect();
    let half_framed = rig.login();
    let unread = rig.login();
    let silent = rig.connect();
    let _challenge = rig.take(silent);
    rig.send(quiet[0], &acquire(0, 250, 1, "k"));
    assert_eq!(rig.take(quiet[0]), acquired(1, 1, "k"));
    for (owner, &waiter) in (2..).zip(&waiters) {
        rig.send(waiter, &acquire(255, 250, owner, "k"));
    }
    rig.send(half_framed, b"A\0");
    rig.set_room(unread, 0);
    let begun = rig.now;
    shut_down(&mut rig);
    assert_eq!(rig.try_connect(), Err(Refused::ShuttingDown));
    assert_eq!(rig.server.usage().waiters.used, 0);
    for &peer in quiet.iter().chain(&waiters).chain([&half_framed]) {
        assert_eq!(rig.take(peer), b"Enot_active\n");
        assert!(rig.socket(peer).is_write_shut);
    }
    assert_eq!(rig.take(silent), b"");
    assert_eq!(rig.socket(silent).closed_at, Some(begun), "silently, at once");
    rig.eof(quiet[0]);
    assert!(rig.socket(quiet[0]).closed.is_some());
    rig.advance(secs(1));
    assert!(rig.socket(waiters[0]).closed.is_some(), "1 s of lingering");
    assert!(!rig.server.is_drained());
    rig.advance(secs(4));
    assert!(rig.server.is_drained(), "5 s of flushing, for those who do not read");
    assert_eq!(rig.take(unread), b"");
    assert_eq!(rig.socket(unread).closed, Some(CloseReason::NotActive));
    rig.expect_nothing_left();
}

#[test]
fn tr_8_replies_decided_before_the_shutdown_go_out_before_the_last_word() {
    let mut rig = Rig::new();
    let (holder, waiter) = (rig.login(), rig.login());
    rig.send(holder, &acquire(0, 250, 1, "k"));
    rig.send(waiter, &[acquire(9, 250, 2, "k"), acquire(9, 250, 3, "k")].concat());
    rig.set_room(waiter, 0);
    rig.send(holder, &release(1, "k"));
    shut_down(&mut rig);
    rig.set_room(waiter, usize::MAX);
    rig.expect_end(waiter, &[acquired(2, 2, "k"), error(Reason::NotActive)].concat());
    assert_eq!(rig.server.usage().keys.used, 1);
    rig.expect_nothing_left();
}

#[test]
fn rd_1_nothing_is_executed_behind_the_last_word() {
    let mut rig = Rig::new();
    let peer = rig.login();
    rig.send(peer, &acquire(0, 250, 1, "k"));
    assert_eq!(rig.take(peer), acquired(1, 1, "k"));
    shut_down(&mut rig);
    rig.send(peer, &[release(1, "k"), acquire(0, 5, 2, "l")].concat());
    rig.expect_end(peer, b"Enot_active\n");
    assert_eq!(rig.server.usage().keys.used, 1, "neither released nor acquired");
}

#[test]
fn tr_8_nobody_is_granted_by_the_end_of_those_who_held() {
    let mut rig = Rig::new();
    let (holder, waiter) = (rig.login(), rig.login());
    rig.set_room(holder, 0);
    rig.send(holder, &acquire(0, 250, 1, "k"));
    rig.send(waiter, &acquire(9, 250, 2, "k"));
    rig.server.shut_down(rig.now);
    rig.reset(holder);
    rig.pump();
    rig.expect_end(waiter, b"Enot_active\n");
    assert_eq!(rig.server.usage().keys.used, 0);
}

#[test]
fn a_shutdown_leaves_connections_alone_that_are_ending() {
    let mut rig = Rig::new();
    let (ended, malformed) = (rig.login(), rig.login());
    rig.set_room(ended, 0);
    rig.send(ended, &release(1, "k"));
    rig.eof(ended);
    rig.set_room(malformed, 0);
    rig.send(malformed, b"?");
    shut_down(&mut rig);
    rig.set_room(ended, usize::MAX);
    rig.set_room(malformed, usize::MAX);
    assert_eq!(rig.take(ended), not_held(1, "k"));
    assert_eq!(rig.socket(ended).closed, Some(CloseReason::Ended));
    rig.expect_end(malformed, &error(Reason::BadOp));
}

#[test]
fn n16_unread_input_destroys_no_reply() {
    let mut rig = Rig::new();
    let peer = rig.login();
    rig.set_room(peer, 0);
    let mut requests = Vec::new();
    let mut replies = Vec::new();
    for number in 1..=1000 {
        let key = format!("key-{number}");
        requests.extend(acquire(0, 1, number, &key));
        replies.extend(acquired(number, number, &key));
    }
    requests.push(b'?');
    replies.extend(error(Reason::BadOp));
    requests.extend([b'x'; 100_000]);
    rig.write(peer, &requests);
    assert_eq!(rig.unread(peer), 0, "read and discarded, so that the transport's close is not a reset");
    // The peer reads slowly.
    while !rig.socket(peer).is_write_shut {
        rig.set_room(peer, 100);
        rig.advance(millis(1));
    }
    assert_eq!(rig.take(peer), replies);
    assert_eq!(rig.socket(peer).closed, None);
    rig.write(peer, &[b'x'; 100_000]);
    assert_eq!(rig.unread(peer), 0);
    rig.write_eof(peer);
    assert!(rig.socket(peer).closed.is_some(), "the peer's end of stream ends the lingering");
}

#[test]
fn tr_9_lingering_ends_after_1_s_however_much_still_comes() {
    let mut rig = Rig::new();
    let peer = rig.login();
    rig.send(peer, b"?");
    let begun = rig.now;
    for _ in 0..20 {
        rig.send(peer, &[b'\n'; 4096]);
        rig.advance(millis(100));
    }
    assert_eq!(rig.socket(peer).closed_at, Some(begun + secs(1)));
    rig.expect_end_is_final(peer);
}

#[test]
fn tr_9_a_close_is_not_a_shutdown_of_writing_before_all_is_flushed() {
    let mut rig = Rig::new();
    let peer = rig.login();
    rig.set_room(peer, 0);
    rig.send(peer, b"?");
    rig.advance(secs(4));
    assert!(!rig.socket(peer).is_write_shut);
    rig.set_room(peer, usize::MAX);
    assert!(rig.socket(peer).is_write_shut);
    rig.advance(millis(999));
    assert_eq!(rig.socket(peer).closed, None, "1 s from the flush on");
    rig.advance(millis(1));
    assert_eq!(rig.socket(peer).closed.map(|reason| reason.to_string()).as_deref(), Some("unknown op 0x3f"));
}

#[test]
fn what_is_said_of_a_connection_that_is_gone_is_ignored() {
    let mut rig = Rig::new();
    let (peer, other) = (rig.login(), rig.login());
    rig.reset(peer);
    rig.expect_end_is_final(peer);
    rig.expect_quiet(other);
}
