//! Durations and the one deadline (`CD`, `CA-1` to `CA-8`, `CA-12`).

use std::time::Duration;

use ticketing_proto::client::{AcquireError, AcquireOptions, Broker, BrokerConfig, Failure};
use ticketing_proto::limits::{DurationField, UnsupportedDuration};
use ticketing_proto::time::Instant;
use ticketing_proto::wire::{Reason, Reply};

use crate::rig::{Rig, key, millis, secs, token, wait};

/// T03: the remaining time is rounded up at the send, and with nothing left nothing is sent.
#[test]
fn the_wait_on_the_wire_is_what_remains_rounded_up() {
    for (left, byte) in [(1, 1), (999, 1), (1000, 1), (1001, 2), (2000, 2)] {
        let mut rig = Rig::new(&["a:1"]);
        rig.acquire("k", wait(secs(5)));
        rig.pause(secs(5) - millis(left));
        let first = rig.peers[0].id;
        rig.greet(first);
        assert_eq!(rig.peers[0].seen[0].wait(), byte, "{left} ms remain");
    }
}

/// T03
#[test]
fn with_nothing_left_nothing_is_sent() {
    for late in [Duration::ZERO, millis(1)] {
        let mut rig = Rig::new(&["a:1"]);
        let id = rig.acquire("k", wait(secs(5)));
        rig.pause(secs(5) + late);
        let first = rig.peers[0].id;
        rig.greet(first);
        rig.pass(Duration::ZERO);
        assert_eq!(rig.error(id), AcquireError::Timeout);
        assert_eq!(rig.seen(), []);
    }
}

/// T04: a slow handshake eats into the wait.
#[test]
fn a_late_connection_does_not_restart_the_wait() {
    let mut rig = Rig::new(&["a:1"]);
    rig.acquire("k", wait(secs(3)));
    rig.pass(millis(1500));
    let first = rig.peers[0].id;
    rig.greet(first);
    assert_eq!(rig.peers[0].seen[0].wait(), 2);
}

/// CA-2: a frame that was offered and not taken is stamped anew.
#[test]
fn a_frame_that_waits_for_the_transport_is_stamped_at_each_poll() {
    let (mut rig, first) = Rig::ready();
    rig.takes = 0;
    rig.acquire("k", wait(secs(9)));
    rig.pass(millis(6500));
    rig.takes = usize::MAX;
    rig.pump();
    assert_eq!(rig.peer(first).seen[0].wait(), 3);
}

/// CA-6
#[test]
fn only_a_wait_of_zero_puts_a_zero_on_the_wire_and_it_has_5_s() {
    let mut rig = Rig::new(&["a:1"]);
    let id = rig.acquire("k", wait(Duration::ZERO));
    rig.pass(millis(4900));
    let second = rig.peers[1].id;
    rig.greet(second);
    assert_eq!(rig.peers[1].seen[0].wait(), 0);
    rig.pass(millis(99));
    assert_eq!(rig.claim(id), None);
    rig.pass(millis(1));
    assert_eq!(rig.error(id), AcquireError::Indeterminate);
    let mut rig = Rig::new(&["a:1"]);
    let id = rig.acquire("k", wait(Duration::ZERO));
    rig.pass(secs(5));
    assert_eq!(rig.error(id), AcquireError::Timeout, "unsent at its deadline");
}

/// CD-1, CD-2, CK-1, T05, C15
#[test]
fn what_the_protocol_cannot_express_is_refused_before_anything_is_sent() {
    let (mut rig, _) = Rig::ready();
    let ok = AcquireOptions::new(secs(1));
    let now = rig.now;
    let mut refused = |options| rig.broker.acquire(now, "k", options).expect_err("refused");
    for huge in [Duration::MAX, secs(u64::MAX), millis(1 << 36)] {
        let error = |field| AcquireError::UnsupportedDuration(UnsupportedDuration { field, given: huge });
        assert_eq!(refused(ok.wait(huge)), error(DurationField::Wait));
        assert_eq!(refused(ok.lease(huge)), error(DurationField::Lease));
        assert_eq!(refused(AcquireOptions::new(huge)), error(DurationField::MinWorkBudget));
        assert_eq!(refused(ok.response_grace(huge)), error(DurationField::ResponseGrace));
    }
    let short = AcquireError::InsufficientLease { needed: secs(4), left: secs(3), granted: None };
    assert_eq!(refused(AcquireOptions::new(secs(4)).lease(secs(3))), short);
    assert!(matches!(
        refused(AcquireOptions::new(secs(251)).lease(secs(250))),
        AcquireError::UnsupportedDuration(_)
    ));
    let error = rig.broker.acquire(now, "k\r", ok).expect_err("F16: a client sends no CR");
    assert!(matches!(error, AcquireError::InvalidKey(_)) && error.is_certain());
    rig.pump();
    assert_eq!(rig.seen(), []);
}

/// CA-4: the deadline of a sent acquire closes exactly its connection.
#[test]
fn at_the_deadline_a_sent_acquire_is_indeterminate_and_its_connection_is_shut() {
    let (mut rig, first, second) = Rig::both_ready();
    let (id, _) = rig.acquire_on(first, "k", wait(secs(2)));
    rig.pass(millis(1999));
    assert_eq!(rig.claim(id), None);
    rig.pass(millis(1));
    let error = rig.error(id);
    assert_eq!(error, AcquireError::Indeterminate);
    assert!(!error.is_certain());
    assert!(rig.peer(first).is_write_shut && rig.peer(first).failure.is_none(), "it is still read from");
    assert!(!rig.peer(second).is_write_shut);
    rig.eof(first);
    assert_eq!(rig.peer(first).failure, Some(Failure::Overdue));
    rig.pass(Duration::ZERO);
    assert_eq!(rig.open(), 2, "a close of our own is no failure: no backoff");
}

/// CA-5: the drain lasts 2 s at most, and reconnecting waits for it (no more sockets than connections: C18).
#[test]
fn a_shut_connection_is_read_for_2_s_at_most() {
    let (mut rig, first, _) = Rig::both_ready();
    rig.acquire_on(first, "k", wait(secs(2)));
    rig.pass(millis(3999));
    assert_eq!(rig.peer(first).failure, None);
    assert_eq!(rig.peers.len(), 2);
    rig.pass(millis(1));
    assert_eq!(rig.peer(first).failure, Some(Failure::Overdue));
    assert_eq!(rig.open(), 2);
}

/// C08 (a): the late grant of an overdue request is released over another connection.
#[test]
fn a_grant_that_was_under_way_at_the_deadline_is_released_elsewhere() {
    let (mut rig, first, second) = Rig::both_ready();
    let (id, request) = rig.acquire_on(first, "k", wait(secs(2)).lease(secs(60)));
    rig.pass(secs(2));
    assert_eq!(rig.error(id), AcquireError::Indeterminate);
    rig.pass(millis(300));
    rig.grant(first, &request, 77);
    assert_eq!(rig.peer(first).seen.len(), 1);
    assert_eq!(rig.releases_of(77), 1);
    assert_eq!(rig.peer(second).seen.len(), 1);
}

/// C08 (b): another acquire on that connection gets what was under way for it, else `Indeterminate`.
#[test]
fn the_overdue_request_takes_others_with_it_only_where_nothing_came() {
    let (mut rig, first) = Rig::ready();
    rig.acquire_on(first, "slow", wait(secs(2)));
    let (lucky, request) = rig.acquire_on(first, "lucky", wait(secs(20)));
    let (unlucky, _) = rig.acquire_on(first, "unlucky", wait(secs(20)));
    rig.pass(secs(2));
    rig.grant(first, &request, 5);
    assert_eq!(rig.claim(lucky).expect("settled").expect("granted").token, token(5));
    assert_eq!(rig.claim(unlucky), None);
    rig.eof(first);
    assert_eq!(rig.error(unlucky), AcquireError::Indeterminate);
}

/// CA-5: what was not sent when the connection was shut goes over another one.
#[test]
fn unsent_requests_leave_a_connection_that_is_shut() {
    let (mut rig, first, second) = Rig::both_ready();
    rig.acquire_on(first, "slow", wait(secs(2)));
    rig.takes = 0;
    let ids: Vec<_> = (0..4).map(|n| rig.acquire(&format!("k{n}"), wait(secs(20)))).collect();
    rig.pass(secs(2));
    rig.takes = usize::MAX;
    rig.pump();
    let owners: Vec<_> = rig.peer(second).seen.iter().map(crate::rig::Seen::owner).collect();
    assert_eq!(owners.len(), 4);
    assert!(ids.iter().all(|id| owners.contains(&id.owner())));
}

/// C08 (c), CA-12: grace gives a definite answer, never a ticket after the deadline.
#[test]
fn grace_waits_for_a_certain_answer_but_never_delivers_late() {
    let (mut rig, first) = Rig::ready();
    let options = wait(secs(2)).lease(secs(60)).response_grace(secs(1));
    let (timed_out, request) = rig.acquire_on(first, "k", options);
    rig.pass(millis(2300));
    assert_eq!(rig.claim(timed_out), None);
    rig.time_out(first, &request);
    assert_eq!(rig.error(timed_out), AcquireError::Timeout);
    let (late, request) = rig.acquire_on(first, "k", options);
    rig.pass(millis(2300));
    rig.grant(first, &request, 8);
    assert_eq!(rig.error(late), AcquireError::Indeterminate);
    assert_eq!(rig.releases_of(8), 1, "the exact token is released");
    assert!(!rig.peer(first).is_write_shut, "the connection stays");
    let (silent, _) = rig.acquire_on(first, "k2", options);
    rig.pass(millis(2999));
    assert_eq!(rig.claim(silent), None);
    rig.pass(millis(1));
    assert_eq!(rig.error(silent), AcquireError::Indeterminate);
    assert!(rig.peer(first).is_write_shut);
}

/// CA-7: the caller's gate is where a grant is judged.
#[test]
fn a_grant_in_time_that_is_claimed_late_is_released() {
    let (mut rig, first) = Rig::ready();
    let (id, request) = rig.acquire_on(first, "k", wait(secs(2)));
    rig.pass(millis(1999));
    rig.grant(first, &request, 9);
    rig.pause(millis(1));
    assert_eq!(rig.error(id), AcquireError::Indeterminate);
    assert_eq!(rig.releases_of(9), 1);
    assert!(!rig.peer(first).is_write_shut);
}

/// CA-7: a caller who never comes does not keep the lock.
#[test]
fn a_grant_that_nobody_claims_is_released_at_the_deadline() {
    let (mut rig, first) = Rig::ready();
    let (id, request) = rig.acquire_on(first, "k", wait(secs(2)).lease(secs(250)));
    rig.grant(first, &request, 9);
    rig.pass(millis(1999));
    assert_eq!(rig.releases_of(9), 0);
    rig.pass(millis(1));
    assert_eq!(rig.releases_of(9), 1);
    assert_eq!(rig.error(id), AcquireError::Indeterminate);
}

/// CA-7: bytes that are there are used, although the deadline is due in the same turn.
#[test]
fn a_refusal_that_arrives_with_the_deadline_counts() {
    let (mut rig, first) = Rig::ready();
    let (id, request) = rig.acquire_on(first, "k", wait(secs(2)));
    rig.pause(secs(2));
    rig.time_out(first, &request);
    rig.pass(Duration::ZERO);
    assert_eq!(rig.error(id), AcquireError::Timeout);
    assert!(!rig.peer(first).is_write_shut);
}

/// CD-3, L19: counted from just before the first byte, less 1000 ppm.
#[test]
fn the_ticket_is_over_before_the_servers_deadline() {
    let (mut rig, first) = Rig::ready();
    let sent_at = rig.now;
    let (id, request) = rig.acquire_on(first, "k", wait(secs(10)).lease(secs(100)));
    rig.pass(secs(4));
    rig.grant(first, &request, 3);
    let grant = rig.claim(id).expect("settled").expect("granted");
    assert_eq!(grant.valid_until, sent_at + (secs(100) - millis(100)));
}

/// C15, T10 (b)
#[test]
fn a_grant_with_too_little_lease_left_is_released() {
    for delay in [2800, 4000] {
        let (mut rig, first) = Rig::ready();
        let (id, request) = rig.acquire_on(first, "k", AcquireOptions::new(millis(500)).lease(secs(3)));
        rig.pass(millis(delay));
        rig.grant(first, &request, 4);
        let error = rig.error(id);
        assert!(
            matches!(error, AcquireError::InsufficientLease { granted: Some(given), .. } if given == token(4)),
            "{error:?} after {delay} ms"
        );
        assert!(error.is_certain());
        assert_eq!(rig.releases_of(4), 1);
    }
    let (mut rig, first) = Rig::ready();
    let options = AcquireOptions::new(secs(1)).wait(secs(20)).lease(secs(5));
    let (id, request) = rig.acquire_on(first, "k", options);
    rig.grant(first, &request, 5);
    rig.pause(secs(8));
    assert!(matches!(rig.error(id), AcquireError::InsufficientLease { granted: Some(_), .. }));
    assert_eq!(rig.releases_of(5), 1);
}

/// CD-3: with a budget of zero too, what is over is no ticket.
#[test]
fn a_grant_whose_lease_is_over_is_no_ticket() {
    let (mut rig, first) = Rig::ready();
    let (id, request) = rig.acquire_on(first, "k", wait(secs(20)).lease(secs(3)));
    rig.pass(millis(2997));
    rig.grant(first, &request, 5);
    let error = rig.error(id);
    assert!(matches!(error, AcquireError::InsufficientLease { granted: Some(_), .. }), "{error:?}");
    assert_eq!(rig.releases_of(5), 1);
}

/// C21 (a): internal retries don't restart the deadline.
#[test]
fn connections_that_end_before_the_challenge_do_not_move_the_deadline() {
    let mut rig = Rig::new(&["a:1"]);
    let start = rig.now;
    let id = rig.acquire("k", wait(secs(2)));
    while rig.claim(id).is_none() {
        rig.pass(millis(1));
        let due: Vec<_> = rig
            .peers
            .iter()
            .filter(|peer| peer.failure.is_none() && rig.now >= peer.since + millis(400))
            .map(|peer| peer.id)
            .collect();
        due.into_iter().for_each(|peer| rig.eof(peer));
        assert!(rig.now <= start + millis(2001));
        if rig.now >= start + secs(2) {
            break;
        }
    }
    assert_eq!(rig.now, start + secs(2));
}

/// C21 (b), CA-10: after each redirect the frame carries what then remains.
#[test]
fn each_retry_after_a_redirect_carries_the_time_that_remains() {
    let (mut rig, mut at, _) = Rig::both_ready();
    let start = rig.now;
    let id = rig.acquire("k", wait(secs(2)));
    let mut waits = Vec::new();
    loop {
        waits.push(rig.peer(at).seen.last().expect("asked here").wait());
        rig.pass(millis(400));
        if rig.now >= start + secs(2) {
            break;
        }
        rig.reply(at, Reply::Error(Reason::NoLeader));
        rig.pass(millis(150));
        let fresh: Vec<_> = rig
            .peers
            .iter()
            .filter(|peer| peer.failure.is_none() && peer.since > start)
            .map(|p| p.id)
            .collect();
        fresh.into_iter().for_each(|peer| {
            if rig.peer(peer).seen.is_empty() {
                rig.greet(peer);
            }
        });
        at = rig
            .peers
            .iter()
            .find(|peer| peer.failure.is_none() && !peer.seen.is_empty())
            .expect("sent again")
            .id;
    }
    // Sent with about 2.0, 1.6, 1.05 and 0.5 s left.
    assert_eq!(waits, [2, 2, 2, 1]);
    assert_eq!(rig.error(id), AcquireError::Indeterminate, "a frame is out unanswered");
    let owners: Vec<_> = rig.seen().iter().map(crate::rig::Seen::owner).collect();
    assert!(owners.iter().all(|&owner| owner == id.owner()), "a retry keeps its owner");
}

/// T05 for configuration: nothing overflows at the ends of the clock.
#[test]
fn a_clock_at_its_end_does_not_panic() {
    let last = Instant::ORIGIN + Duration::MAX;
    let mut broker = Broker::new(last, BrokerConfig::new(["a:1"], 0)).expect("good");
    let id = broker.acquire(last, "k", wait(secs(255)).lease(secs(250))).expect("begun");
    broker.handle_timeout(last);
    assert_eq!(broker.claim(last, id), Some(Err(AcquireError::Timeout)), "no time is left at the end");
}

/// A time that goes back is the latest seen.
#[test]
fn time_that_goes_back_is_clamped() {
    let (mut rig, first) = Rig::ready();
    rig.pass(secs(10));
    rig.broker.handle_timeout(Instant::ORIGIN);
    let id = rig.broker.acquire(Instant::ORIGIN, "k", wait(secs(2))).expect("begun");
    rig.pump();
    let request = rig.peer(first).seen[0].clone();
    rig.pass(millis(1999));
    assert_eq!(rig.claim(id), None);
    rig.reply(first, Reply::Busy { owner: request.owner(), key: key("k") });
    assert_eq!(rig.error(id), AcquireError::Busy);
}
