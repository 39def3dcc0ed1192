//! Who gets which reply, and what becomes of grants whose peer is gone.

use ticketing_proto::limits::Limits;
use ticketing_proto::server::CloseReason;
use ticketing_proto::wire::Reason;

use crate::rig::*;

#[test]
fn f20_a_half_close_right_behind_a_request_still_gets_its_reply() {
    let mut rig = Rig::new();
    let [first, second, third, next] = [(); 4].map(|()| rig.login());
    rig.send(first, &acquire(0, 1, 1, "free"));
    rig.eof(first);
    assert_eq!(rig.take(first), acquired(1, 1, "free"));
    assert!(rig.socket(first).is_write_shut && rig.socket(first).closed.is_some());

    rig.send(second, &acquire(0, 60, 1, "k"));
    rig.send(second, &release(2, "k"));
    rig.eof(second);
    assert_eq!(rig.take(second), [acquired(2, 1, "k"), released(2, "k")].concat());

    rig.send(next, &acquire(0, 60, 1, "k"));
    rig.send(third, &acquire(5, 60, 2, "k"));
    rig.send(next, &acquire(5, 60, 3, "k"));
    rig.eof(third);
    assert_eq!(rig.server.usage().waiters.used, 1, "out of the queue at once");
    rig.send(next, &release(3, "k"));
    assert_eq!(rig.take(next), [acquired(3, 1, "k"), released(3, "k"), acquired(4, 3, "k")].concat());
    assert_eq!(rig.take(third), b"");
    assert_eq!(rig.socket(third).closed, Some(CloseReason::Ended));
    rig.expect_nothing_left();
}

#[test]
fn f20_replies_that_the_transport_has_no_room_for_are_flushed_behind_the_end_of_the_stream() {
    let mut rig = Rig::new();
    let peer = rig.login();
    rig.set_room(peer, 0);
    rig.send(peer, &[acquire(0, 60, 1, "k"), release(1, "k"), acquire(0, 60, 2, "k")].concat());
    rig.eof(peer);
    assert!(!rig.server.wants_read(peer), "there is nothing behind the end");
    rig.advance(millis(4_999));
    assert_eq!(rig.socket(peer).closed, None);
    rig.set_room(peer, usize::MAX);
    assert_eq!(rig.take(peer), [acquired(1, 1, "k"), released(1, "k"), acquired(2, 2, "k")].concat());
    assert!(rig.socket(peer).is_write_shut && rig.socket(peer).closed.is_some());
    assert_eq!(rig.server.usage().keys.used, 1, "the grant of no waiter is delivered");
}

#[test]
fn a_flush_that_runs_out_of_time_gives_the_locks_back() {
    let mut rig = Rig::new();
    let (peer, next) = (rig.login(), rig.login());
    rig.set_room(peer, acquired(1, 1, "a").len());
    rig.send(peer, &[acquire(0, 60, 1, "a"), acquire(0, 60, 2, "b")].concat());
    rig.send(next, &[acquire(60, 60, 1, "a"), acquire(60, 60, 2, "b")].concat());
    rig.eof(peer);
    rig.advance(millis(4_999));
    assert_eq!(rig.take(next), b"");
    rig.advance(millis(1));
    assert!(rig.socket(peer).closed.is_some());
    assert_eq!(rig.take(next), acquired(3, 2, "b"), "the delivered grant of `a` outlives its connection");
    assert_eq!(rig.take(peer), acquired(1, 1, "a"));
    rig.expect_nothing_left();
}

/// A waiter that is granted while its transport takes only so many bytes of the grant.
fn granted_with_room(room: usize) -> (Rig, Id, Id, Id) {
    let mut rig = Rig::new();
    let [holder, waiter, next] = [(); 3].map(|()| rig.login());
    rig.send(holder, &acquire(0, 250, 1, "k"));
    rig.send(waiter, &acquire(60, 2, 2, "k"));
    rig.send(next, &acquire(60, 60, 3, "k"));
    rig.set_room(waiter, room);
    rig.send(holder, &release(1, "k"));
    (rig, holder, waiter, next)
}

#[test]
fn tr_10_a_queued_waiters_grant_is_withdrawn_by_the_end_of_the_stream_unless_a_byte_is_handed_over() {
    let len = acquired(2, 2, "k").len();
    for room in 0..=len {
        let (mut rig, _, waiter, next) = granted_with_room(room);
        rig.eof(waiter);
        if room == 0 {
            assert_eq!(rig.take(next), acquired(3, 3, "k"), "at once");
            assert!(rig.socket(waiter).closed.is_some());
        } else {
            assert_eq!(rig.take(next), b"", "{room} bytes are handed over");
            rig.set_room(waiter, len - room);
            assert_eq!(rig.take(waiter), acquired(2, 2, "k"));
            rig.advance(millis(1_999));
            assert_eq!(rig.take(next), b"");
            rig.advance(millis(1));
            assert_eq!(rig.take(next), acquired(3, 3, "k"), "when the lease ends");
        }
        rig.expect_nothing_left();
    }
}

#[test]
fn op_7_l09_a_reset_releases_a_grant_unless_its_last_byte_is_handed_over() {
    let len = acquired(2, 2, "k").len();
    for room in 0..=len {
        let (mut rig, _, waiter, next) = granted_with_room(room);
        rig.reset(waiter);
        if room < len {
            assert_eq!(rig.take(next), acquired(3, 3, "k"), "{room} of {len} bytes");
        } else {
            rig.advance(millis(1_999));
            assert_eq!(rig.take(next), b"", "it held");
            rig.advance(millis(1));
            assert_eq!(rig.take(next), acquired(3, 3, "k"));
        }
        rig.expect_nothing_left();
    }
}

#[test]
fn op_7_the_grant_of_a_free_key_is_released_by_a_reset_as_well() {
    let mut rig = Rig::new();
    let (peer, other) = (rig.login(), rig.login());
    rig.set_room(peer, 5);
    rig.send(peer, &acquire(0, 250, 1, "k"));
    rig.reset(peer);
    assert_eq!(rig.socket(peer).closed, Some(CloseReason::Disconnected));
    rig.send(other, &acquire(0, 5, 1, "k"));
    assert_eq!(rig.take(other), acquired(2, 1, "k"));
}

#[test]
fn l01_waiters_that_end_or_are_reset_leave_their_queues_at_once() {
    let mut rig = Rig::new();
    let [holder, w1, w2, w3] = [(); 4].map(|()| rig.login());
    rig.send(holder, &acquire(0, 250, 1, "k"));
    for (owner, waiter) in [(2, w1), (3, w2), (4, w3)] {
        rig.send(waiter, &acquire(255, 5, owner, "k"));
    }
    rig.eof(w1);
    rig.reset(w2);
    assert_eq!(rig.server.usage().waiters.used, 1);
    rig.send(holder, &release(1, "k"));
    assert_eq!(rig.take(w3), acquired(2, 4, "k"));
    assert_eq!((rig.take(w1), rig.take(w2)), (vec![], vec![]));
    rig.expect_nothing_left();
}

#[test]
fn l01_an_acquire_with_the_end_of_the_stream_right_behind_it_waits_for_nobody() {
    let mut rig = Rig::new();
    let [holder, waiter, next] = [(); 3].map(|()| rig.login());
    rig.send(holder, &acquire(0, 250, 1, "k"));
    rig.server.handle_data(rig.now, waiter, &acquire(255, 5, 2, "k"));
    rig.eof(waiter);
    assert!(rig.socket(waiter).closed.is_some());
    rig.send(next, &acquire(255, 5, 3, "k"));
    rig.send(holder, &release(1, "k"));
    assert_eq!(rig.take(next), acquired(2, 3, "k"));
    rig.expect_nothing_left();
}

#[test]
fn l09_a_first_waiter_that_closes_around_the_release_never_leaves_the_key_stuck() {
    for closes_first in [true, false] {
        for by_reset in [true, false] {
            let mut rig = Rig::new();
            let holder = rig.login();
            let waiters = [(); 5].map(|()| rig.login());
            rig.send(holder, &acquire(0, 250, 1, "k"));
            for (owner, &waiter) in (2..).zip(&waiters) {
                rig.send(waiter, &acquire(255, 2, owner, "k"));
            }
            rig.set_room(waiters[0], 0);
            let close = |rig: &mut Rig| {
                if by_reset { rig.reset(waiters[0]) } else { rig.eof(waiters[0]) }
            };
            if closes_first {
                close(&mut rig);
            }
            rig.send(holder, &release(1, "k"));
            if !closes_first {
                close(&mut rig);
            }
            let given = if closes_first { 2 } else { 3 };
            assert_eq!(rig.take(waiters[1]), acquired(given, 3, "k"));
            rig.send(waiters[1], &release(given, "k"));
            assert_eq!(rig.take(waiters[2]), acquired(given + 1, 4, "k"));
            rig.expect_nothing_left();
        }
    }
}

#[test]
fn l13_a_wait_that_ends_around_the_release_gets_a_grant_or_a_timeout_and_never_both() {
    for (release_at, is_granted) in [(995, true), (999, true), (1000, false), (1001, false), (1005, false)] {
        for stopped in [false, true] {
            let mut rig = Rig::new();
            let [holder, waiter, next] = [(); 3].map(|()| rig.login());
            rig.send(holder, &acquire(0, 250, 1, "k"));
            rig.send(waiter, &acquire(1, 250, 2, "k"));
            if stopped {
                // The release is read before any timer is looked at.
                rig.now = rig.now + millis(release_at);
            } else {
                rig.advance(millis(release_at));
            }
            rig.send(holder, &release(1, "k"));
            rig.advance(secs(2));
            let reply = if is_granted { acquired(2, 2, "k") } else { timed_out(2, "k") };
            assert_eq!(rig.take(waiter), reply, "released at {release_at} ms");
            rig.send(next, &acquire(0, 1, 3, "k"));
            let reply = if is_granted { timed_out(3, "k") } else { acquired(2, 3, "k") };
            assert_eq!(rig.take(next), reply);
            rig.expect_nothing_left();
        }
    }
}

#[test]
fn l19_a_lease_ends_while_its_holder_is_connected() {
    let mut rig = Rig::new();
    let (holder, waiter) = (rig.login(), rig.login());
    rig.send(holder, &acquire(0, 5, 1, "k"));
    assert_eq!(rig.take(holder), acquired(1, 1, "k"));
    rig.send(waiter, &acquire(60, 5, 2, "k"));
    rig.advance(millis(4_999));
    assert_eq!(rig.take(waiter), b"");
    rig.advance(millis(1));
    assert_eq!(rig.take(waiter), acquired(2, 2, "k"));
    assert_eq!(rig.take(holder), b"", "nobody tells the holder");
    rig.send(holder, &release(1, "k"));
    assert_eq!(rig.take(holder), not_held(1, "k"));
}

#[test]
fn t10_after_a_stop_the_waiter_is_granted_and_the_old_token_is_over_whichever_call_comes_first() {
    for release_first in [false, true] {
        let mut rig = Rig::new();
        let (holder, waiter) = (rig.login(), rig.login());
        rig.send(holder, &acquire(0, 5, 1, "k"));
        rig.send(waiter, &acquire(20, 5, 2, "k"));
        assert_eq!(rig.take(holder), acquired(1, 1, "k"));
        if release_first {
            rig.now = rig.now + secs(8);
        } else {
            rig.stop_for(secs(8));
            assert_eq!(rig.take(waiter), acquired(2, 2, "k"));
        }
        rig.send(holder, &release(1, "k"));
        assert_eq!(rig.take(holder), not_held(1, "k"));
        let grant = if release_first { acquired(2, 2, "k") } else { vec![] };
        assert_eq!(rig.take(waiter), grant);
        // The new lease starts where the stop ended.
        rig.advance(millis(4_999));
        rig.send(waiter, &release(2, "k"));
        assert_eq!(rig.take(waiter), released(2, "k"));
    }
}

#[test]
fn op_8_requests_of_one_connection_take_effect_in_their_order() {
    let mut rig = Rig::new();
    let peer = rig.login();
    let bytes = [
        acquire(0, 5, 1, "k"),
        acquire(0, 5, 2, "k"),
        release(1, "k"),
        release(1, "k"),
        acquire(0, 5, 3, "k"),
    ]
    .concat();
    rig.send(peer, &bytes);
    let replies =
        [acquired(1, 1, "k"), timed_out(2, "k"), released(1, "k"), not_held(1, "k"), acquired(2, 3, "k")]
            .concat();
    assert_eq!(rig.take(peer), replies);
}

#[test]
fn ad_1_an_acquire_is_in_flight_until_the_last_byte_of_its_reply_is_handed_over() {
    let mut rig = Rig::new();
    let peer = rig.login();
    let len = acquired(1, 1, "k").len();
    rig.set_room(peer, 0);
    rig.send(peer, &acquire(0, 60, 1, "k"));
    assert_eq!(rig.server.usage().acquires.used, 1);
    rig.set_room(peer, len - 1);
    assert_eq!(rig.server.usage().acquires.used, 1);
    rig.set_room(peer, 1);
    assert_eq!(rig.server.usage().acquires.used, 0);
    rig.set_room(peer, usize::MAX);
    rig.send(peer, &acquire(60, 60, 2, "k"));
    assert_eq!(rig.server.usage().acquires.used, 1, "a waiter is in flight");
    rig.send(peer, &release(1, "k"));
    assert_eq!(rig.server.usage().acquires.used, 0);
}

#[test]
fn ad_1_the_gate_of_all_acquires_opens_when_replies_are_read_without_another_request() {
    let mut rig = Rig::with_limits(Limits { acquires: 10, ..Limits::default() });
    let (peer, other) = (rig.login(), rig.login());
    rig.set_room(peer, 0);
    for number in 1..=9 {
        rig.send(peer, &acquire(0, 60, number, &format!("key-{number}")));
    }
    rig.send(other, &acquire(0, 5, 1, "k"));
    assert_eq!(rig.take(other), busy(1, "k"));
    rig.set_room(peer, usize::MAX);
    rig.send(other, &acquire(0, 5, 2, "k"));
    assert_eq!(rig.take(other), acquired(10, 2, "k"));
}

#[test]
fn ad_4_a_connection_has_so_many_acquires_in_flight_and_releases_beside_them() {
    let mut rig = Rig::with_limits(Limits { acquires_per_connection: 3, ..Limits::default() });
    let (peer, other) = (rig.login(), rig.login());
    rig.send(other, &acquire(0, 60, 1, "k"));
    for owner in 1..=3 {
        rig.send(peer, &acquire(60, 60, owner, "k"));
    }
    assert_eq!(rig.take(peer), b"");
    rig.send(peer, &[acquire(0, 5, 4, "free"), release(9, "free")].concat());
    assert_eq!(rig.take(peer), [busy(4, "free"), not_held(9, "free")].concat());
    rig.send(other, &release(1, "k"));
    assert_eq!(rig.take(peer), acquired(2, 1, "k"));
    rig.send(peer, &acquire(0, 5, 5, "free"));
    assert_eq!(rig.take(peer), acquired(3, 5, "free"));
    rig.expect_nothing_left();
}

#[test]
fn waiters_of_one_connection_are_granted_by_its_own_releases() {
    let mut rig = Rig::new();
    let peer = rig.login();
    rig.send(peer, &[acquire(5, 30, 5, "k"), acquire(5, 30, 5, "k"), release(1, "k")].concat());
    let replies = [acquired(1, 5, "k"), released(1, "k"), acquired(2, 5, "k")].concat();
    assert_eq!(rig.take(peer), replies);
}

#[test]
fn a_stream_that_ends_inside_a_frame_withdraws_the_waiters_grant_as_well() {
    let (mut rig, _, waiter, next) = granted_with_room(0);
    rig.send(waiter, b"A");
    rig.eof(waiter);
    assert_eq!(rig.take(next), acquired(3, 3, "k"));
    rig.set_room(waiter, usize::MAX);
    assert_eq!(rig.take(waiter), error(Reason::BadRequest));
}

#[test]
fn the_end_of_the_stream_behind_a_malformed_frame_withdraws_the_waiters_grant_as_well() {
    let (mut rig, _, waiter, next) = granted_with_room(0);
    rig.send(waiter, b"?");
    assert_eq!(rig.take(next), b"", "it was decided, so it goes out");
    rig.eof(waiter);
    assert_eq!(rig.take(next), acquired(3, 3, "k"));
    rig.set_room(waiter, usize::MAX);
    assert_eq!(rig.take(waiter), error(Reason::BadOp));
}
