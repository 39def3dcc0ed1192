//! Peers that do not read, or not as fast as they ask.

use ticketing_proto::limits::{Limits, MAX_BATCH, MAX_OWED, READ_BUFFER_LEN};
use ticketing_proto::server::CloseReason;
use ticketing_proto::wire::Reason;

use crate::rig::*;

/// Releases of nothing: each has a reply of its own length.
fn releases(count: u64) -> (Vec<u8>, Vec<u8>) {
    let requests = (0..count).flat_map(|number| release(number, "nothing")).collect();
    let replies = (0..count).flat_map(|number| not_held(number, "nothing")).collect();
    (requests, replies)
}

#[test]
fn r01_a_peer_that_does_not_read_is_not_read_once_64_kib_are_owed_and_closed_after_10_s() {
    let mut rig = Rig::new();
    let peer = rig.login();
    let (requests, _) = releases(20_000);
    rig.set_room(peer, 0);
    rig.write(peer, &requests);
    let read = requests.len() - rig.unread(peer);
    // Requests and replies of this kind have the same length.
    assert!((MAX_OWED..=MAX_OWED + READ_BUFFER_LEN).contains(&read), "{read}");
    rig.advance(millis(9_999));
    assert_eq!(rig.socket(peer).closed, None);
    rig.advance(millis(1));
    assert_eq!(rig.socket(peer).closed, Some(CloseReason::WriteStalled));
    assert_eq!(requests.len() - rig.unread(peer), read);
    rig.expect_nothing_left();
}

#[test]
fn r01_a_peer_that_reads_late_gets_every_reply() {
    let mut rig = Rig::new();
    let peer = rig.login();
    let (requests, replies) = releases(20_000);
    rig.set_room(peer, 0);
    rig.write(peer, &requests);
    rig.advance(secs(5));
    rig.set_room(peer, usize::MAX);
    assert_eq!(rig.unread(peer), 0);
    assert!(rig.take(peer) == replies, "each reply once, in order");
    rig.expect_quiet(peer);
}

#[test]
fn r01_a_peer_that_asks_ends_and_never_reads_is_closed_after_10_s() {
    let mut rig = Rig::new();
    let peer = rig.login();
    rig.set_room(peer, 0);
    let begun = rig.now;
    rig.write(peer, &releases(20_000).0);
    rig.write_eof(peer);
    rig.advance(secs(60));
    assert_eq!(rig.socket(peer).closed_at, Some(begun + secs(10)));
}

#[test]
fn ad_5_reading_stops_at_64_kib_and_goes_on_below_half_of_that() {
    let mut rig = Rig::new();
    let peer = rig.login();
    rig.set_room(peer, 0);
    // The reply to each has 16 bytes.
    let request = release(0, "6bytes");
    rig.write(peer, &request.repeat(MAX_OWED / 16 - 1));
    assert!(rig.server.wants_read(peer));
    rig.write(peer, &request);
    assert!(!rig.server.wants_read(peer), "exactly 64 KiB are owed");
    rig.set_room(peer, MAX_OWED / 2);
    assert!(!rig.server.wants_read(peer), "exactly half is owed");
    rig.set_room(peer, 1);
    assert!(rig.server.wants_read(peer));
}

#[test]
fn ad_6_every_byte_taken_gives_10_s_more() {
    let mut rig = Rig::new();
    let peer = rig.login();
    rig.set_room(peer, 0);
    rig.send(peer, &acquire(0, 250, 1, "k"));
    for _ in 0..3 {
        rig.advance(millis(9_999));
        assert!(rig.is_open(peer));
        rig.set_room(peer, 1);
    }
    rig.advance(millis(9_999));
    assert!(rig.is_open(peer));
    rig.advance(millis(1));
    assert_eq!(rig.socket(peer).closed, Some(CloseReason::WriteStalled));
    assert_eq!(rig.server.usage().keys.used, 0, "nobody keeps a key by not reading");
    rig.expect_nothing_left();
}

#[test]
fn ad_6_trying_to_send_gives_no_time() {
    let mut rig = Rig::new();
    let peer = rig.login();
    rig.set_room(peer, 0);
    rig.send(peer, &release(1, "k"));
    for _ in 0..9 {
        rig.advance(secs(1));
        rig.set_room(peer, 0);
    }
    assert!(rig.is_open(peer));
    rig.advance(secs(1));
    assert_eq!(rig.socket(peer).closed, Some(CloseReason::WriteStalled));
}

#[test]
fn ad_6_a_peer_that_is_owed_nothing_may_be_quiet_for_ever() {
    let mut rig = Rig::new();
    let peer = rig.login();
    rig.send(peer, &acquire(0, 1, 1, "k"));
    assert_eq!(rig.take(peer), acquired(1, 1, "k"));
    rig.advance(secs(1_000_000));
    rig.expect_quiet(peer);
}

#[test]
fn ad_6_replies_that_come_later_do_not_extend_the_time_of_those_that_are_owed() {
    let mut rig = Rig::new();
    let peer = rig.login();
    rig.set_room(peer, 0);
    for _ in 0..9 {
        rig.send(peer, &release(1, "k"));
        rig.advance(secs(1));
    }
    rig.send(peer, &release(1, "k"));
    rig.advance(secs(1));
    assert_eq!(rig.socket(peer).closed, Some(CloseReason::WriteStalled));
}

#[test]
fn ad_6_a_waiters_place_is_free_again_when_its_connection_is_closed_for_not_reading() {
    let mut rig = Rig::new();
    let [holder, peer, next] = [(); 3].map(|()| rig.login());
    rig.send(holder, &acquire(0, 250, 1, "k"));
    rig.set_room(peer, 0);
    rig.send(peer, &[acquire(255, 250, 2, "k"), acquire(0, 250, 3, "l")].concat());
    rig.send(next, &[acquire(255, 250, 4, "k"), acquire(255, 250, 5, "l")].concat());
    rig.advance(secs(10));
    assert_eq!(rig.take(next), acquired(3, 5, "l"));
    rig.send(holder, &release(1, "k"));
    assert_eq!(rig.take(next), acquired(4, 4, "k"));
    rig.expect_nothing_left();
}

#[test]
fn fr_6_the_clock_of_a_frame_stands_while_the_server_does_not_read() {
    let mut rig = Rig::new();
    let peer = rig.login();
    let (requests, replies) = releases(10_000);
    let begun = acquire(0, 5, 1, "k");
    rig.send(peer, &begun[..4]);
    rig.advance(secs(3));
    rig.set_room(peer, 0);
    // The frame ends, another begins, and the server stops reading in its middle.
    rig.send(peer, &[&begun[4..], &requests, &begun[..4]].concat());
    assert!(!rig.server.wants_read(peer));
    rig.advance(secs(9));
    assert!(rig.is_open(peer));
    rig.set_room(peer, usize::MAX);
    assert_eq!(rig.take(peer), [acquired(1, 1, "k"), replies].concat());
    rig.advance(millis(4_999));
    assert!(rig.is_open(peer), "it has its 5 s");
    rig.advance(millis(1));
    rig.expect_end(peer, &error(Reason::BadRequest));
}

#[test]
fn fr_6_the_clock_goes_on_where_it_stood() {
    let mut rig = Rig::new();
    let [holder, peer] = [(); 2].map(|()| rig.login());
    rig.set_room(peer, 0);
    let key = "k".repeat(128);
    rig.send(holder, &acquire(0, 3, 1, &key));
    // So many waiters that their replies, which come without a request, stop the reading.
    for owner in 1..=500 {
        rig.send(peer, &acquire(2, 5, owner, &key));
    }
    rig.advance(secs(1));
    rig.send(peer, b"A");
    rig.advance(secs(1));
    assert!(!rig.server.wants_read(peer), "500 times T");
    rig.advance(secs(9));
    rig.set_room(peer, usize::MAX);
    assert_eq!(rig.take(peer).len(), 500 * timed_out(1, &key).len());
    rig.advance(millis(3_999));
    assert!(rig.is_open(peer), "1 s of 5 was used");
    rig.advance(millis(1));
    rig.expect_end(peer, &error(Reason::BadRequest));
}

#[test]
fn one_batch_has_at_most_64_replies() {
    let mut rig = Rig::new();
    let peer = rig.login();
    let (requests, replies) = releases(150);
    rig.server.handle_data(rig.now, peer, &requests);
    let mut all = Vec::new();
    for count in [64, 64, 22] {
        let mut batch = Vec::new();
        assert!(rig.server.poll_transmit(peer, &mut batch));
        assert_eq!(batch.len(), count * replies.len() / 150);
        rig.server.handle_transmitted(rig.now, peer, batch.len());
        all.extend(batch);
    }
    assert_eq!(all, replies);
    assert!(!rig.server.poll_transmit(peer, &mut all));
    assert_eq!(MAX_BATCH, 64);
}

#[test]
fn r03_one_call_handles_a_bounded_number_of_timeouts_and_the_rest_is_due_at_once() {
    let limits = Limits { unauthenticated: 5000, ..Limits::default() };
    let mut rig = Rig::with_limits(limits);
    for _ in 0..5000 {
        rig.connect();
    }
    rig.now = rig.now + secs(10);
    let mut left = 5000;
    while left > 0 {
        assert!(rig.server.poll_timeout().is_some_and(|next| next <= rig.now));
        rig.server.handle_timeout(rig.now);
        let closed = left - rig.server.connections();
        assert!((1..=1024).contains(&closed), "{closed}");
        left -= closed;
    }
    assert_eq!(rig.server.poll_timeout(), None);
}

#[test]
fn r03_one_call_ends_a_bounded_number_of_leases_and_the_rest_is_due_at_once() {
    const LOCKS: u64 = 3000;
    let mut rig = Rig::new();
    let holder = rig.login();
    let waiters = [(); 3].map(|()| rig.login());
    for number in 1..=LOCKS {
        let key = format!("key-{number}");
        rig.send(holder, &acquire(0, 5, number, &key));
        rig.send(waiters[number as usize % 3], &acquire(60, 250, number, &key));
    }
    rig.now = rig.now + secs(5);
    let mut left = LOCKS;
    while left > 0 {
        assert!(rig.server.poll_timeout().is_some_and(|next| next <= rig.now));
        rig.server.handle_timeout(rig.now);
        rig.pump();
        let granted = left - rig.server.usage().waiters.used;
        assert!((1..=1100).contains(&granted), "{granted} grants in one call");
        left -= granted;
    }
    rig.expect_nothing_left();
}

#[test]
fn r03_floods_of_one_connection_delay_no_reply_of_another() {
    let mut rig = Rig::new();
    let [keep_alives, requests, waiter] = [(); 3].map(|()| rig.login());
    rig.send(requests, &acquire(0, 3, 1, "k"));
    rig.send(waiter, &acquire(10, 3, 2, "k"));
    let begun = rig.now;
    let flood: Vec<u8> = (1..=300).flat_map(|owner| acquire(0, 1, owner, "flood")).collect();
    while rig.now < begun + secs(3) {
        assert_eq!(rig.take(waiter), b"");
        rig.send(keep_alives, &[b'\n'; READ_BUFFER_LEN]);
        rig.send(requests, &flood);
        rig.now = rig.now + millis(10);
    }
    // No timer was looked at: the first piece of input at the deadline brings the grant with it.
    rig.send(keep_alives, b"\n");
    assert_eq!(rig.take(waiter), acquired(3 + 2, 2, "k"));
}
