//! A hub whose connections are owned by tasks: what happens between two calls on it.

use ticketing_proto::limits::Limits;
use ticketing_proto::server::{CloseReason, Connection, Hub, Refused};
use ticketing_proto::time::Instant;
use ticketing_proto::wire::Reason;

use crate::rig::*;

struct Tasks {
    hub: Hub,
    now: Instant,
    nonces: u8,
}

impl Tasks {
    fn new() -> Self {
        let hub = Hub::new(START, config("", Limits::default())).expect("limits above 0");
        Self { hub, now: START, nonces: 0 }
    }

    fn login(&mut self) -> Connection {
        self.nonces += 1;
        let mut peer = self.hub.accept(self.now, [self.nonces; 32]).expect("room");
        self.hub.receive(self.now, &mut peer, &[&[b'x'; 43][..], b"\n"].concat());
        assert!(peer.is_authenticated());
        assert!(transmit(&mut peer, self.now).starts_with(b"sha256 "));
        peer
    }

    fn receive(&mut self, peer: &mut Connection, bytes: &[u8]) {
        self.hub.receive(self.now, peer, bytes);
    }

    /// Attends the connection because it has mail, and gives what it sends then.
    #[track_caller]
    fn mail(&mut self, peer: &mut Connection) -> Vec<u8> {
        assert_eq!(self.hub.poll_mail(), Some(peer.id()));
        self.hub.attend(self.now, peer);
        let bytes = transmit(peer, self.now);
        self.hub.attend(self.now, peer);
        bytes
    }

    #[track_caller]
    fn expect_nothing_left(mut self, peers: impl IntoIterator<Item = Connection>) {
        for peer in peers {
            self.hub.disconnect(self.now, peer);
        }
        let usage = self.hub.usage();
        assert_eq!((usage.acquires.used, usage.waiters.used, self.hub.connections()), (0, 0, 0));
        assert_eq!(self.hub.unauthenticated(), 0);
        assert_eq!(self.hub.poll_mail(), None);
    }
}

/// Everything that is owed goes out.
fn transmit(peer: &mut Connection, now: Instant) -> Vec<u8> {
    let mut all = Vec::new();
    let mut batch = Vec::new();
    while peer.poll_transmit(&mut batch) {
        peer.handle_transmitted(now, batch.len());
        all.append(&mut batch);
    }
    all
}

/// The holder of `k`, a waiter that has been granted `k` by mail that it has not seen, and the next in the queue.
fn granted_by_mail() -> (Tasks, Connection, Connection, Connection) {
    let mut tasks = Tasks::new();
    let [mut holder, mut waiter, mut next] = [(); 3].map(|()| tasks.login());
    tasks.receive(&mut holder, &acquire(0, 250, 1, "k"));
    tasks.receive(&mut waiter, &acquire(60, 250, 2, "k"));
    tasks.receive(&mut next, &acquire(60, 250, 3, "k"));
    assert_eq!(transmit(&mut holder, tasks.now), acquired(1, 1, "k"));
    tasks.receive(&mut holder, &release(1, "k"));
    assert_eq!(transmit(&mut holder, tasks.now), released(1, "k"));
    (tasks, holder, waiter, next)
}

#[test]
fn mail_wakes_its_connection_once_until_that_is_attended() {
    let (mut tasks, holder, mut waiter, next) = granted_by_mail();
    assert_eq!(tasks.hub.poll_mail(), Some(waiter.id()));
    assert_eq!(tasks.hub.poll_mail(), None);
    assert!(transmit(&mut waiter, tasks.now).is_empty());
    tasks.hub.attend(tasks.now, &mut waiter);
    assert_eq!(transmit(&mut waiter, tasks.now), acquired(2, 2, "k"));
    assert!(waiter.wants_attention(), "an acquire is settled");
    tasks.hub.attend(tasks.now, &mut waiter);
    assert!(!waiter.wants_attention());
    assert_eq!(tasks.hub.usage().acquires.used, 1);
    tasks.expect_nothing_left([holder, waiter, next]);
}

#[test]
fn mail_comes_with_the_next_input_as_well_and_wakes_nobody_then() {
    let (mut tasks, holder, mut waiter, next) = granted_by_mail();
    tasks.receive(&mut waiter, &release(0, "x"));
    assert_eq!(transmit(&mut waiter, tasks.now), [acquired(2, 2, "k"), not_held(0, "x")].concat());
    assert_eq!(tasks.hub.poll_mail(), None);
    tasks.expect_nothing_left([holder, waiter, next]);
}

#[test]
fn op_7_a_grant_in_the_mail_of_a_connection_that_ends_is_not_lost() {
    let (mut tasks, holder, waiter, mut next) = granted_by_mail();
    tasks.hub.disconnect(tasks.now, waiter);
    assert_eq!(tasks.mail(&mut next), acquired(3, 3, "k"));
    tasks.expect_nothing_left([holder, next]);
}

#[test]
fn op_7_a_grant_in_the_mail_of_a_connection_that_was_reset_without_the_hub_is_not_lost() {
    let (mut tasks, holder, mut waiter, mut next) = granted_by_mail();
    waiter.handle_disconnected(tasks.now);
    tasks.hub.attend(tasks.now, &mut waiter);
    assert_eq!(tasks.mail(&mut next), acquired(3, 3, "k"));
    assert_eq!(waiter.close_reason(), Some(CloseReason::Disconnected));
    tasks.expect_nothing_left([holder, waiter, next]);
}

#[test]
fn ad_1_a_timeout_in_the_mail_of_a_connection_that_ends_leaves_nothing_in_flight() {
    let mut tasks = Tasks::new();
    let [mut holder, mut waiter] = [(); 2].map(|()| tasks.login());
    tasks.receive(&mut holder, &acquire(0, 250, 1, "k"));
    tasks.receive(&mut waiter, &acquire(1, 250, 2, "k"));
    tasks.now = tasks.now + secs(1);
    tasks.hub.handle_timeout(tasks.now);
    assert_eq!(tasks.hub.poll_mail(), Some(waiter.id()));
    assert_eq!(tasks.hub.usage().acquires.used, 2);
    tasks.hub.disconnect(tasks.now, waiter);
    assert_eq!(tasks.hub.usage().acquires.used, 1);
    tasks.expect_nothing_left([holder]);
}

#[test]
fn op_7_waiters_leave_with_their_connection_whoever_was_told_of_its_departure() {
    let mut tasks = Tasks::new();
    let [mut holder, mut waiter] = [(); 2].map(|()| tasks.login());
    tasks.receive(&mut holder, &acquire(0, 250, 1, "k"));
    tasks.receive(&mut waiter, &acquire(60, 250, 2, "k"));
    waiter.handle_eof(tasks.now);
    assert!(waiter.poll_departure());
    tasks.hub.disconnect(tasks.now, waiter);
    assert_eq!(tasks.hub.usage().waiters.used, 0);
    tasks.expect_nothing_left([holder]);
}

#[test]
fn op_7_a_grant_for_a_connection_that_the_hub_does_not_know_is_released() {
    let mut tasks = Tasks::new();
    let [mut holder, mut next] = [(); 2].map(|()| tasks.login());
    // Its owner's fault; nobody else must pay for it.
    let mut stranger = Connection::new(tasks.now, Id::new(99), Default::default(), [9; 32]);
    tasks.receive(&mut holder, &acquire(0, 250, 1, "k"));
    let response = [b'x'; 43];
    tasks.receive(&mut stranger, &[&response[..], b"\n", &acquire(60, 250, 2, "k")].concat());
    tasks.receive(&mut next, &acquire(60, 250, 3, "k"));
    assert_eq!(tasks.hub.usage().waiters.used, 2);
    tasks.receive(&mut holder, &release(1, "k"));
    assert_eq!(tasks.mail(&mut next), acquired(3, 3, "k"));
    tasks.expect_nothing_left([holder, next]);
}

#[test]
fn tr_10_a_grant_in_the_mail_is_withdrawn_by_the_end_of_the_stream() {
    let (mut tasks, holder, mut waiter, mut next) = granted_by_mail();
    tasks.hub.receive_eof(tasks.now, &mut waiter);
    assert_eq!(transmit(&mut waiter, tasks.now), b"");
    assert!(waiter.is_closed() && waiter.poll_shutdown_write());
    assert_eq!(tasks.mail(&mut next), acquired(3, 3, "k"));
    tasks.expect_nothing_left([holder, waiter, next]);
}

#[test]
fn fr_9_a_grant_in_the_mail_was_decided_before_the_malformed_frame() {
    let (mut tasks, holder, mut waiter, next) = granted_by_mail();
    tasks.receive(&mut waiter, b"?");
    assert_eq!(transmit(&mut waiter, tasks.now), [acquired(2, 2, "k"), error(Reason::BadOp)].concat());
    assert_eq!(tasks.hub.usage().keys.used, 1);
    tasks.expect_nothing_left([holder, waiter, next]);
}

#[test]
fn fr_9_a_grant_in_the_mail_that_comes_after_the_last_frame_is_released() {
    let (mut tasks, holder, mut waiter, mut next) = granted_by_mail();
    waiter.handle_data(tasks.now, b"?", |_, _| {});
    assert!(waiter.wants_attention(), "its waiters must leave");
    tasks.hub.attend(tasks.now, &mut waiter);
    assert_eq!(transmit(&mut waiter, tasks.now), error(Reason::BadOp));
    assert_eq!(tasks.mail(&mut next), acquired(3, 3, "k"));
    tasks.expect_nothing_left([holder, waiter, next]);
}

#[test]
fn what_was_polled_and_not_reported_is_on_its_way_until_it_is_reported() {
    let len = acquired(2, 2, "k").len();
    for reported in [None, Some(0), Some(1), Some(len)] {
        let (mut tasks, holder, mut waiter, mut next) = granted_by_mail();
        assert_eq!(tasks.hub.poll_mail(), Some(waiter.id()));
        tasks.hub.attend(tasks.now, &mut waiter);
        let mut batch = Vec::new();
        assert!(waiter.poll_transmit(&mut batch));
        if let Some(taken) = reported {
            waiter.handle_transmitted(tasks.now, taken);
        }
        tasks.hub.receive_eof(tasks.now, &mut waiter);
        if reported == Some(0) {
            assert_eq!(tasks.mail(&mut next), acquired(3, 3, "k"));
        } else {
            assert_eq!(tasks.hub.poll_mail(), None);
            // The rest of it goes out, and the grant is the peer's.
            let rest = transmit(&mut waiter, tasks.now);
            assert_eq!(rest, acquired(2, 2, "k")[reported.unwrap_or(0)..]);
            assert_eq!(tasks.hub.usage().keys.used, 1);
        }
        tasks.expect_nothing_left([holder, waiter, next]);
    }
}

#[test]
fn what_was_polled_and_not_reported_was_not_taken_when_the_connection_ends() {
    let (mut tasks, holder, mut waiter, mut next) = granted_by_mail();
    assert_eq!(tasks.hub.poll_mail(), Some(waiter.id()));
    tasks.hub.attend(tasks.now, &mut waiter);
    let mut batch = Vec::new();
    assert!(waiter.poll_transmit(&mut batch));
    // The stall of AD-6 ends it, but what is on its way can still be reported...
    tasks.now = tasks.now + secs(10);
    waiter.handle_timeout(tasks.now);
    assert!(waiter.is_closed());
    tasks.hub.attend(tasks.now, &mut waiter);
    assert_eq!(tasks.hub.poll_mail(), None);
    // ... until the transport is given up.
    tasks.hub.disconnect(tasks.now, waiter);
    assert_eq!(tasks.mail(&mut next), acquired(3, 3, "k"));
    tasks.expect_nothing_left([holder, next]);
}

#[test]
fn a_report_after_the_close_says_what_was_taken_of_what_was_on_its_way() {
    let (mut tasks, holder, mut waiter, mut next) = granted_by_mail();
    assert_eq!(tasks.hub.poll_mail(), Some(waiter.id()));
    tasks.hub.attend(tasks.now, &mut waiter);
    let mut batch = Vec::new();
    assert!(waiter.poll_transmit(&mut batch));
    waiter.handle_timeout(tasks.now + secs(10));
    waiter.handle_transmitted(tasks.now, batch.len() - 1);
    tasks.hub.attend(tasks.now, &mut waiter);
    assert_eq!(tasks.mail(&mut next), acquired(3, 3, "k"), "a byte is missing");
    tasks.expect_nothing_left([holder, waiter, next]);
}

#[test]
fn a_timeout_that_the_connection_handles_alone_reaches_the_table_with_the_next_attend() {
    let mut tasks = Tasks::new();
    let [mut holder, mut waiter] = [(); 2].map(|()| tasks.login());
    tasks.receive(&mut holder, &acquire(0, 250, 1, "k"));
    tasks.receive(&mut waiter, &[&acquire(60, 250, 2, "k")[..], b"A"].concat());
    tasks.now = tasks.now + secs(5);
    waiter.handle_timeout(tasks.now);
    assert!(waiter.wants_attention());
    assert_eq!(transmit(&mut waiter, tasks.now), error(Reason::BadRequest));
    tasks.hub.attend(tasks.now, &mut waiter);
    assert!(!waiter.wants_attention());
    assert_eq!(tasks.hub.usage().waiters.used, 0);
    tasks.expect_nothing_left([holder, waiter]);
}

#[test]
fn attending_handles_the_timeout_that_is_due_with_the_mail_before_it() {
    let mut tasks = Tasks::new();
    let [mut holder, mut waiter] = [(); 2].map(|()| tasks.login());
    tasks.receive(&mut holder, &acquire(0, 250, 1, "k"));
    tasks.receive(&mut waiter, &[&acquire(60, 250, 2, "k")[..], b"A"].concat());
    tasks.receive(&mut holder, &release(1, "k"));
    tasks.now = tasks.now + secs(5);
    assert_eq!(tasks.mail(&mut waiter), [acquired(2, 2, "k"), error(Reason::BadRequest)].concat());
    tasks.expect_nothing_left([holder, waiter]);
}

#[test]
fn op_6_due_deadlines_come_before_new_input_without_a_timer() {
    let mut tasks = Tasks::new();
    let [mut holder, mut waiter] = [(); 2].map(|()| tasks.login());
    tasks.receive(&mut holder, &acquire(0, 5, 1, "k"));
    tasks.receive(&mut waiter, &acquire(60, 250, 2, "k"));
    assert_eq!(tasks.hub.poll_timeout(), Some(tasks.now + secs(5)));
    tasks.now = tasks.now + secs(5);
    tasks.receive(&mut waiter, &acquire(0, 5, 3, "k"));
    assert_eq!(transmit(&mut waiter, tasks.now), [acquired(2, 2, "k"), timed_out(3, "k")].concat());
    tasks.expect_nothing_left([holder, waiter]);
}

#[test]
fn the_hubs_timeout_grants_by_mail() {
    let mut tasks = Tasks::new();
    let [mut holder, mut waiter] = [(); 2].map(|()| tasks.login());
    tasks.receive(&mut holder, &acquire(0, 5, 1, "k"));
    tasks.receive(&mut waiter, &[acquire(60, 250, 2, "k"), acquire(5, 5, 3, "k")].concat());
    tasks.now = tasks.now + secs(5);
    tasks.hub.handle_timeout(tasks.now);
    assert_eq!(tasks.mail(&mut waiter), [acquired(2, 2, "k"), timed_out(3, "k")].concat());
    tasks.expect_nothing_left([holder, waiter]);
}

#[test]
fn tr_8_a_shutdown_wakes_every_connection_and_ends_it_when_it_is_attended() {
    let (mut tasks, mut holder, mut waiter, mut next) = granted_by_mail();
    let mut silent = tasks.hub.accept(tasks.now, [0; 32]).expect("room");
    tasks.hub.shut_down(tasks.now);
    assert!(tasks.hub.is_shutting_down());
    assert_eq!(tasks.hub.accept(tasks.now, [1; 32]).err(), Some(Refused::ShuttingDown));
    assert_eq!(tasks.hub.usage().waiters.used, 0);
    assert_eq!(tasks.mail(&mut waiter), [acquired(2, 2, "k"), error(Reason::NotActive)].concat());
    assert_eq!(tasks.mail(&mut holder), error(Reason::NotActive));
    assert_eq!(tasks.mail(&mut next), error(Reason::NotActive));
    assert_eq!(tasks.mail(&mut silent), b"");
    assert!(silent.is_closed() && !silent.poll_shutdown_write());
    tasks.expect_nothing_left([holder, waiter, next, silent]);
}

#[test]
fn tr_8_releases_that_were_read_before_the_shutdown_are_executed_and_acquires_are_not() {
    let mut tasks = Tasks::new();
    let mut peer = tasks.login();
    tasks.receive(&mut peer, &acquire(0, 250, 1, "k"));
    assert_eq!(transmit(&mut peer, tasks.now), acquired(1, 1, "k"));
    tasks.hub.shut_down(tasks.now);
    tasks.receive(&mut peer, &[acquire(0, 5, 2, "l"), release(1, "k"), acquire(9, 5, 3, "k")].concat());
    assert_eq!(transmit(&mut peer, tasks.now), [released(1, "k"), error(Reason::NotActive)].concat());
    assert_eq!(tasks.hub.usage().keys.used, 0);
    assert_eq!(tasks.hub.usage().acquires.used, 0);
    tasks.receive(&mut peer, &release(1, "k"));
    assert_eq!(transmit(&mut peer, tasks.now), b"");
    tasks.expect_nothing_left([peer]);
}

#[test]
fn a_clock_that_goes_back_is_clamped() {
    let mut tasks = Tasks::new();
    let [mut holder, mut waiter] = [(); 2].map(|()| tasks.login());
    tasks.receive(&mut holder, &acquire(0, 5, 1, "k"));
    let later = tasks.now + secs(5);
    tasks.hub.handle_timeout(later);
    // Of a thread that had looked at its clock before it waited for the hub's lock.
    tasks.receive(&mut waiter, &acquire(0, 5, 2, "k"));
    assert_eq!(transmit(&mut waiter, tasks.now), acquired(2, 2, "k"));
    assert!(
        tasks
            .hub
            .accept(tasks.now, [9; 32])
            .is_ok_and(|fresh| fresh.poll_timeout() == Some(later + secs(10)))
    );
}

#[test]
fn connections_are_small_while_idle() {
    // The struct itself; what it keeps on the heap is measured where allocations are counted.
    assert!(size_of::<Connection>() <= 512, "{}", size_of::<Connection>());
}

/// TR-8, TR-10: a peer that leaves while the server shuts down is not waited for, though its waiter had no answer.
#[test]
fn a_peer_that_ends_its_stream_during_a_shutdown_is_done_with_at_once() {
    let mut tasks = Tasks::new();
    let (mut holder, mut waiter) = (tasks.login(), tasks.login());
    tasks.receive(&mut holder, &acquire(0, 30, 1, "k"));
    transmit(&mut holder, tasks.now);
    tasks.receive(&mut waiter, &acquire(60, 30, 2, "k"));
    tasks.hub.shut_down(tasks.now);
    tasks.hub.receive_eof(tasks.now, &mut waiter);
    assert!(waiter.is_closed(), "{waiter:?}");
}
