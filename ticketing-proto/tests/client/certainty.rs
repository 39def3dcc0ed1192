//! What may have been sent, what is certain, and what happens to requests that nobody waits for
//! (`CA-3`, `CA-8` to `CA-11`, `CA-13`, `CO-1`).

use std::time::Duration;

use ticketing_proto::client::{AcquireError, BrokerConfig, Failure, MAX_COMPENSATIONS, ProtocolError};
use ticketing_proto::id::Owner;
use ticketing_proto::wire::{Reason, Reply};

use crate::rig::{CHALLENGE, Rig, key, millis, secs, token, wait};

/// C06: lost after the send, by reset or by an end of stream: unknown, and never sent again.
#[test]
fn an_acquire_that_may_have_been_sent_is_never_sent_again() {
    for by_reset in [true, false] {
        let (mut rig, first, second) = Rig::both_ready();
        let (id, _) = rig.acquire_on(first, "k", wait(secs(20)));
        if by_reset {
            rig.reset(first);
        } else {
            rig.eof(first);
        }
        assert_eq!(rig.error(id), AcquireError::Indeterminate, "at the loss, not at the deadline");
        rig.pass(secs(21));
        assert_eq!(rig.seen().len(), 1);
        assert!(rig.peer(second).seen.is_empty());
    }
}

/// C06: a connection that freezes: unknown at the deadline, and that connection is closed.
#[test]
fn a_frozen_connection_is_given_up_at_the_deadline() {
    let (mut rig, first, _) = Rig::both_ready();
    let (id, _) = rig.acquire_on(first, "k", wait(secs(3)));
    rig.pass(secs(3));
    assert_eq!(rig.error(id), AcquireError::Indeterminate);
    rig.pass(secs(2));
    assert_eq!(rig.peer(first).failure, Some(Failure::Overdue));
    assert_eq!(rig.seen().len(), 1);
}

/// CA-3: the boundary is the first byte.
#[test]
fn one_byte_handed_out_makes_a_request_sent() {
    for taken in [0, 1, 5, 12, 13] {
        let (mut rig, first, second) = Rig::both_ready();
        rig.takes = taken;
        let id = rig.acquire("k", wait(secs(20)));
        rig.takes = usize::MAX;
        rig.reset(first);
        if taken == 0 {
            assert_eq!(rig.claim(id), None, "nothing was handed out");
            assert_eq!(rig.peer(second).seen.len(), 1, "it went over the other connection");
            assert_eq!(rig.peer(second).seen[0].owner(), id.owner(), "with the same owner");
        } else {
            assert_eq!(rig.error(id), AcquireError::Indeterminate, "{taken} bytes were handed out");
            assert!(rig.peer(second).seen.is_empty());
        }
    }
}

/// CA-3: between the poll and the word of how much was taken, a request may have been sent.
#[test]
fn a_loss_before_the_report_of_a_write_leaves_it_unknown() {
    let (mut rig, first, second) = Rig::both_ready();
    let id = rig.broker.acquire(rig.now, "k", wait(secs(20))).expect("begun");
    let mut out = Vec::new();
    assert!(rig.broker.poll_transmit(rig.now, first, &mut out));
    rig.reset(first);
    assert_eq!(rig.error(id), AcquireError::Indeterminate);
    assert!(rig.peer(second).seen.is_empty());
}

/// CA-9, N16: after a failed write, answers that have come are read first.
#[test]
fn a_failed_write_does_not_hide_what_can_still_be_read() {
    let (mut rig, first) = Rig::ready();
    let (granted, request) = rig.acquire_on(first, "a", wait(secs(20)));
    let (lost, _) = rig.acquire_on(first, "b", wait(secs(20)));
    rig.broker.handle_write_failed(rig.now, first);
    rig.pump();
    assert_eq!((rig.claim(granted), rig.claim(lost)), (None, None));
    rig.grant(first, &request, 6);
    rig.eof(first);
    assert!(rig.claim(granted).expect("settled").is_ok());
    assert_eq!(rig.error(lost), AcquireError::Indeterminate);
}

/// C01, CA-11
#[test]
fn a_cancelled_acquire_leaves_a_ghost_whose_grant_is_released() {
    let (mut rig, first) = Rig::ready();
    let (ghost, request) = rig.acquire_on(first, "k", wait(secs(20)));
    rig.broker.cancel(rig.now, ghost);
    let (id, other) = rig.acquire_on(first, "other", wait(secs(20)));
    rig.grant(first, &request, 11);
    assert_eq!(rig.claim(ghost), None, "it never reaches a caller");
    assert_eq!(rig.claim(id), None);
    assert_eq!(rig.releases_of(11), 1);
    rig.grant(first, &other, 12);
    let grant = rig.claim(id).expect("settled").expect("granted");
    assert_eq!((grant.key.as_str(), grant.token), ("other", token(12)));
    assert_eq!(rig.releases_of(12), 0);
}

/// CA-11
#[test]
fn an_unsent_acquire_that_is_cancelled_is_dropped() {
    let mut rig = Rig::new(&["a:1"]);
    let id = rig.acquire("k", wait(secs(20)));
    rig.broker.cancel(rig.now, id);
    let first = rig.peers[0].id;
    rig.greet(first);
    assert_eq!(rig.seen(), []);
    assert_eq!(rig.broker.outstanding(), 0);
}

/// CA-11: cancelled between poll and report: the bytes may be out, so it is a ghost; or not, so it is gone.
#[test]
fn a_cancel_during_a_write_is_settled_by_what_was_taken() {
    for taken in [0, 13] {
        let (mut rig, first) = Rig::ready();
        let id = rig.broker.acquire(rig.now, "k", wait(secs(20))).expect("begun");
        let mut out = Vec::new();
        assert!(rig.broker.poll_transmit(rig.now, first, &mut out));
        rig.broker.cancel(rig.now, id);
        rig.broker.handle_transmitted(rig.now, first, taken);
        assert_eq!(rig.broker.outstanding(), usize::from(taken > 0), "what was not sent is gone at once");
        rig.pump();
        assert_eq!(rig.seen(), [], "a cancelled frame is not offered again");
        rig.pass(secs(20));
        assert_eq!(rig.peer(first).is_write_shut, taken > 0, "an overdue ghost closes its connection");
        rig.eof(first);
        assert_eq!(rig.broker.outstanding(), 0);
    }
}

/// CC-6: closed between poll and report, and nothing was taken: there is nothing to wait for.
#[test]
fn a_close_during_a_write_is_settled_by_what_was_taken() {
    for taken in [0, 13] {
        let (mut rig, first) = Rig::ready();
        let id = rig.broker.acquire(rig.now, "k", wait(secs(20))).expect("begun");
        let mut out = Vec::new();
        assert!(rig.broker.poll_transmit(rig.now, first, &mut out));
        rig.broker.close(rig.now);
        let outcome = rig.broker.claim(rig.now, id);
        assert_eq!(outcome, Some(Err(AcquireError::Indeterminate)), "it may have been sent");
        rig.broker.handle_transmitted(rig.now, first, taken);
        rig.pump();
        assert_eq!(rig.is_closed, taken == 0);
        assert_eq!(rig.seen(), [], "it is not offered again");
    }
}

/// CA-11: granted, and cancelled before it was claimed.
#[test]
fn a_grant_that_was_not_claimed_is_released_by_the_cancel() {
    let (mut rig, first) = Rig::ready();
    let (id, request) = rig.acquire_on(first, "k", wait(secs(20)));
    rig.grant(first, &request, 11);
    rig.broker.cancel(rig.now, id);
    rig.pump();
    assert_eq!(rig.releases_of(11), 1);
    assert_eq!(rig.claim(id), None);
}

/// CC-5
#[test]
fn ghosts_count_in_flight_and_the_rest_is_held_back() {
    let config = BrokerConfig { max_in_flight: 2, ..BrokerConfig::new(["a:1"], 0) };
    let mut rig = Rig::with(config);
    let first = rig.peers[0].id;
    rig.greet(first);
    let (ghost, request) = rig.acquire_on(first, "a", wait(secs(20)));
    rig.acquire_on(first, "b", wait(secs(20)));
    rig.broker.cancel(rig.now, ghost);
    let now = rig.now;
    assert_eq!(rig.broker.try_acquire(now, "c", wait(secs(20))), Err(AcquireError::ClientCapacity));
    let held_back = rig.acquire("c", wait(secs(20)));
    let starved = rig.acquire("d", wait(secs(1)));
    assert_eq!(rig.seen().len(), 2);
    rig.time_out(first, &request);
    assert_eq!(rig.seen().len(), 3, "its place is free again");
    rig.pass(secs(1));
    assert_eq!(rig.error(starved), AcquireError::Timeout, "certain: it was never sent");
    assert_eq!(rig.claim(held_back), None);
}

/// C10, CA-5: what comes after the 2 s is not looked at, and a new connection is another one.
#[test]
fn late_bytes_of_an_old_connection_touch_nothing() {
    let (mut rig, first) = Rig::ready();
    let (_, request) = rig.acquire_on(first, "k", wait(secs(2)));
    rig.pass(secs(4));
    assert_eq!(rig.peer(first).failure, Some(Failure::Overdue));
    let fresh =
        rig.peers.iter().find(|peer| peer.failure.is_none() && peer.since == rig.now).expect("new").id;
    rig.greet(fresh);
    let (id, other) = rig.acquire_on(fresh, "k", wait(secs(20)));
    rig.grant(first, &request, 3);
    rig.eof(first);
    assert_eq!(rig.releases_of(3), 0);
    rig.grant(fresh, &other, 4);
    assert_eq!(rig.claim(id).expect("settled").expect("granted").token, token(4));
}

/// C11
#[test]
fn owners_end_and_none_is_used_twice() {
    let last_but_one = Owner::new(u64::MAX - 1).expect("not 0");
    let mut rig = Rig::with(BrokerConfig { first_owner: last_but_one, ..BrokerConfig::new(["a:1"], 0) });
    let first = rig.peers[0].id;
    rig.greet(first);
    let (_, one) = rig.acquire_on(first, "a", wait(secs(20)));
    rig.reset(first);
    let second = rig.peers[1].id;
    rig.greet(second);
    let (_, two) = rig.acquire_on(second, "b", wait(secs(20)));
    assert_eq!((one.owner().value(), two.owner().value()), (u64::MAX - 1, u64::MAX));
    for _ in 0..2 {
        let error = rig.broker.acquire(rig.now, "c", wait(secs(20))).expect_err("used up");
        assert_eq!(error, AcquireError::OwnersExhausted);
    }
}

/// CA-8
#[test]
fn correlated_refusals_are_certain() {
    let (mut rig, first) = Rig::ready();
    let (timed_out, one) = rig.acquire_on(first, "a", wait(secs(20)));
    let (busy, two) = rig.acquire_on(first, "b", wait(secs(20)));
    rig.reply(first, Reply::Busy { owner: two.owner(), key: key("b") });
    rig.time_out(first, &one);
    assert_eq!(rig.error(timed_out), AcquireError::Timeout);
    assert_eq!(rig.error(busy), AcquireError::Busy);
    assert_eq!(rig.broker.outstanding(), 0);
}

/// ER: an `E` carries no id.
#[test]
fn a_rejection_counts_only_for_a_request_that_is_alone() {
    let (mut rig, first) = Rig::ready();
    let (id, _) = rig.acquire_on(first, "a", wait(secs(20)));
    rig.reply(first, Reply::Error(Reason::BadKey));
    assert_eq!(rig.error(id), AcquireError::Rejected(Reason::BadKey));
    assert_eq!(rig.peer(first).failure, None);
    let (one, _) = rig.acquire_on(first, "a", wait(secs(20)));
    let (two, _) = rig.acquire_on(first, "b", wait(secs(20)));
    rig.reply(first, Reply::Error(Reason::BadLease));
    assert_eq!((rig.error(one), rig.error(two)), (AcquireError::Indeterminate, AcquireError::Indeterminate));
    let failure = Failure::Protocol(ProtocolError::UnknownError(Reason::BadLease));
    assert_eq!(rig.peer(first).failure, Some(failure));
}

/// CA-13
#[test]
fn a_grant_that_fits_no_request_ends_the_connection_and_is_released() {
    for (owner, name) in [(1, "other"), (99, "k")] {
        let (mut rig, first, second) = Rig::both_ready();
        let (id, _) = rig.acquire_on(first, "k", wait(secs(20)));
        let owner = Owner::new(owner).expect("not 0");
        rig.reply(first, Reply::Acquired { token: token(5), owner, key: key(name) });
        assert_eq!(rig.peer(first).failure, Some(Failure::Protocol(ProtocolError::UnknownGrant)));
        assert_eq!(rig.error(id), AcquireError::Indeterminate);
        assert_eq!(rig.releases_of(5), 1);
        assert_eq!(rig.peer(second).seen.len(), 1);
    }
}

/// CA-13: but never a token that a live ticket has, claimed or not.
#[test]
fn a_replayed_grant_does_not_release_a_live_ticket() {
    for is_claimed in [true, false] {
        let (mut rig, first, _) = Rig::both_ready();
        let (id, request) = rig.acquire_on(first, "k", wait(secs(20)));
        rig.grant(first, &request, 5);
        if is_claimed {
            rig.claim(id).expect("settled").expect("granted");
        }
        rig.grant(first, &request, 5);
        assert_eq!(rig.peer(first).failure, Some(Failure::Protocol(ProtocolError::UnknownGrant)));
        assert_eq!(rig.releases_of(5), 0);
    }
}

/// CA-10: ghosts and overdue requests are not sent again after a redirect; who is in its grace has timed out.
#[test]
fn after_a_redirect_only_requests_with_a_caller_and_time_go_elsewhere() {
    let (mut rig, first, second) = Rig::both_ready();
    rig.peer(second).since = rig.now;
    let now = rig.now;
    let mut begin = |name: &str, options| {
        let id = rig.broker.acquire(now, name, options).expect("begun");
        rig.pump();
        id
    };
    let alive = begin("alive", wait(secs(20)));
    let _other = begin("x", wait(secs(20)));
    let ghost = begin("ghost", wait(secs(20)));
    let _other = begin("y", wait(secs(20)));
    let overdue = begin("overdue", wait(secs(2)).response_grace(secs(5)));
    assert_eq!(rig.peer(first).seen.len(), 3);
    rig.broker.cancel(rig.now, ghost);
    rig.pass(secs(3));
    rig.reply(first, Reply::Error(Reason::NotActive));
    assert_eq!(rig.error(overdue), AcquireError::Timeout, "certain: it was not executed");
    assert_eq!(rig.claim(alive), None);
    let before = rig.peer(second).seen.len();
    rig.pass(millis(9));
    assert_eq!(rig.peer(second).seen.len(), before, "a pause of 10 ms");
    rig.pass(millis(1));
    let again = rig.peer(second).seen[before..].to_vec();
    assert_eq!(again.len(), 1);
    assert_eq!((again[0].owner(), again[0].wait()), (alive.owner(), 17));
}

/// C16: the places for compensations are bounded, and each one given up is counted.
#[test]
fn compensations_are_bounded_and_counted() {
    let (mut rig, first) = Rig::ready();
    let mut grants = Vec::new();
    for n in 1..=600 {
        let (id, request) = rig.acquire_on(first, "k", wait(secs(20)));
        rig.grant(first, &request, n);
        grants.push(rig.claim(id).expect("settled").expect("granted"));
    }
    rig.takes = 0;
    for grant in grants {
        rig.broker.discard(rig.now, grant.key, grant.token);
    }
    assert_eq!(rig.broker.outstanding(), MAX_COMPENSATIONS);
    assert_eq!(rig.broker.stats().compensations_overflowed, 600 - MAX_COMPENSATIONS as u64);
    rig.pass(secs(5));
    assert_eq!(rig.broker.outstanding(), 0);
    assert_eq!(rig.broker.stats().compensations_expired, MAX_COMPENSATIONS as u64);
}

/// C16: cancelled acquires of a frozen server: bounded in flight, and nothing is left once it thaws.
#[test]
fn ten_thousand_cancelled_acquires_leave_nothing_behind() {
    let (mut rig, first, second) = Rig::both_ready();
    for n in 0..10_000 {
        let id = rig.broker.acquire(rig.now, &format!("k{n}"), wait(secs(200))).expect("begun");
        rig.pump();
        rig.broker.cancel(rig.now, id);
        assert!(rig.broker.outstanding() <= 1024);
    }
    for connection in [first, second] {
        for request in rig.peer(connection).seen.clone() {
            rig.time_out(connection, &request);
        }
    }
    assert_eq!(rig.broker.outstanding(), 0);
}

/// F25 for the client, F01: replies may be split anywhere.
#[test]
fn replies_may_come_byte_by_byte_and_many_at_once() {
    let (mut rig, first) = Rig::ready();
    let (one, request_one) = rig.acquire_on(first, "a", wait(secs(20)));
    let (two, request_two) = rig.acquire_on(first, "b", wait(secs(20)));
    let mut bytes = Vec::new();
    Reply::TimedOut { owner: request_one.owner(), key: key("a") }.encode(&mut bytes);
    bytes.extend_from_slice(b"\n\n");
    Reply::Acquired { token: token(0x0a0a), owner: request_two.owner(), key: key("b") }.encode(&mut bytes);
    bytes.iter().for_each(|&byte| rig.data(first, &[byte]));
    assert_eq!(rig.error(one), AcquireError::Timeout);
    assert_eq!(rig.claim(two).expect("settled").expect("granted").token, token(0x0a0a));
    let (three, request) = rig.acquire_on(first, "c", wait(secs(20)));
    let mut bytes = CHALLENGE.to_vec();
    let second = rig.peers[1].id;
    rig.broker.handle_connected(rig.now, second);
    Reply::LeaderChanged { leader: None }.encode(&mut bytes);
    rig.data(second, &bytes);
    rig.time_out(first, &request);
    assert_eq!(rig.error(three), AcquireError::Timeout);
    assert_eq!(rig.peer(second).failure, None);
}

/// A request that waits for a connection times out with certainty, whatever becomes of the connections.
#[test]
fn no_server_is_a_certain_timeout() {
    let mut rig = Rig::new(&["a:1"]);
    let id = rig.acquire("k", wait(secs(2)));
    rig.pass(secs(2));
    assert_eq!(rig.error(id), AcquireError::Timeout);
    assert_eq!(rig.claim(id), None, "an outcome is given once");
    rig.pass(Duration::ZERO);
    assert_eq!(rig.broker.outstanding(), 0);
}
