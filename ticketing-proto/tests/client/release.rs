//! Releases and the end of a client (`CR`, `CC-6`).

use ticketing_proto::client::{AcquireError, Grant, ReleaseError, Released};
use ticketing_proto::id::ConnectionId;
use ticketing_proto::wire::{Reason, Reply};

use crate::rig::{Rig, Seen, key, millis, secs, wait};

fn granted(rig: &mut Rig, on: ConnectionId, name: &str, token: u64) -> Grant {
    let (id, request) = rig.acquire_on(on, name, wait(secs(20)));
    rig.grant(on, &request, token);
    rig.claim(id).expect("settled").expect("granted")
}

fn released(token: u64, name: &str) -> Reply<'_> {
    Reply::Released { token, key: key(name) }
}

/// CR-2
#[test]
fn both_answers_say_that_the_hold_is_over() {
    let (mut rig, first) = Rig::ready();
    let grant = granted(&mut rig, first, "k", 7);
    let id = rig.release(&grant);
    assert_eq!(rig.claim_release(id), None);
    rig.reply(first, released(7, "k"));
    assert_eq!(rig.claim_release(id), Some(Ok(Released::Released)));
    assert_eq!(rig.claim_release(id), None, "once");
    let id = rig.release(&grant);
    rig.reply(first, Reply::NotHeld { token: 7, key: key("k") });
    assert_eq!(rig.claim_release(id), Some(Ok(Released::NotHeld)));
    assert_eq!(rig.broker.outstanding(), 0);
}

/// CR-2: a release is idempotent, so it is sent again when its connection is lost.
#[test]
fn a_release_is_sent_again_over_another_connection() {
    let (mut rig, first, second) = Rig::both_ready();
    let grant = granted(&mut rig, first, "k", 7);
    let id = rig.release(&grant);
    assert_eq!(rig.peer(second).seen, [Seen::Release { token: 7, key: "k".into() }]);
    rig.reset(second);
    assert_eq!(rig.releases_of(7), 2);
    rig.reply(first, Reply::NotHeld { token: 7, key: key("k") });
    assert_eq!(rig.claim_release(id), Some(Ok(Released::NotHeld)));
}

/// C04, CR-1: 5 s from the call, reconnects included, then the connection that did not answer is given up.
#[test]
fn a_release_without_an_answer_is_unconfirmed_after_5_s() {
    let (mut rig, first) = Rig::ready();
    let grant = granted(&mut rig, first, "k", 7);
    let id = rig.release(&grant);
    rig.pass(millis(4999));
    assert_eq!(rig.claim_release(id), None);
    rig.pass(millis(1));
    assert_eq!(rig.claim_release(id), Some(Err(ReleaseError::Unconfirmed)));
    assert!(!ReleaseError::Unconfirmed.is_certain());
    assert!(rig.peer(first).is_write_shut);
    assert_eq!(rig.broker.outstanding(), 0);
    rig.reply(first, released(7, "k"));
    rig.pass(secs(2));
    assert!(rig.peer(first).failure.is_some(), "its descriptor comes back");
}

/// CR-1: a reconnect does not restart the 5 s.
#[test]
fn reconnects_do_not_move_a_releases_deadline() {
    let (mut rig, first) = Rig::ready();
    let grant = granted(&mut rig, first, "k", 7);
    rig.reset(first);
    let id = rig.release(&grant);
    rig.pass(secs(4));
    let second = rig.peers.iter().rfind(|peer| peer.failure.is_none()).expect("one is under way").id;
    rig.greet(second);
    assert_eq!(rig.releases_of(7), 1, "sent as soon as there is a connection");
    rig.pass(millis(999));
    assert_eq!(rig.claim_release(id), None);
    rig.pass(millis(1));
    assert_eq!(rig.claim_release(id), Some(Err(ReleaseError::Unconfirmed)));
}

/// CR-2
#[test]
fn releases_of_one_token_are_one_request() {
    let (mut rig, first) = Rig::ready();
    let grant = granted(&mut rig, first, "k", 7);
    rig.broker.discard(rig.now, grant.key.clone(), grant.token);
    let one = rig.release(&grant);
    let two = rig.release(&grant);
    rig.broker.forget_release(rig.now, one);
    rig.broker.discard(rig.now, grant.key.clone(), grant.token);
    assert_eq!(rig.releases_of(7), 1);
    rig.reply(first, released(7, "k"));
    assert_eq!(rig.claim_release(one), None);
    assert_eq!(rig.claim_release(two), Some(Ok(Released::Released)));
    assert_eq!(rig.broker.stats().compensations_expired, 0);
}

/// CR-1: who joins a release that is under way has 5 s of its own.
#[test]
fn a_release_that_joins_another_has_its_own_5_s() {
    let (mut rig, first) = Rig::ready();
    let grant = granted(&mut rig, first, "k", 7);
    let early = rig.release(&grant);
    rig.pass(secs(3));
    let late = rig.release(&grant);
    rig.pass(secs(2));
    assert_eq!(rig.claim_release(early), Some(Err(ReleaseError::Unconfirmed)));
    assert_eq!(rig.claim_release(late), None);
    rig.pass(millis(2900));
    rig.reply(first, released(7, "k"));
    assert_eq!(rig.claim_release(late), Some(Ok(Released::Released)));
}

/// CR-4
#[test]
fn releases_pass_before_acquires() {
    let (mut rig, first) = Rig::ready();
    let grant = granted(&mut rig, first, "k", 7);
    rig.takes = 0;
    for n in 0..100 {
        rig.acquire(&format!("k{n}"), wait(secs(20)));
    }
    rig.release(&grant);
    rig.takes = usize::MAX;
    rig.pump();
    assert_eq!(rig.peer(first).seen[1], Seen::Release { token: 7, key: "k".into() });
}

/// A forgotten release goes on as a compensation.
#[test]
fn a_forgotten_release_is_still_sent() {
    let mut rig = Rig::new(&["a:1"]);
    let first = rig.peers[0].id;
    let name = key("k").to_key();
    let id = rig.broker.release(rig.now, &name, crate::rig::token(7));
    rig.broker.forget_release(rig.now, id);
    rig.greet(first);
    assert_eq!(rig.releases_of(7), 1);
    rig.reply(first, released(7, "k"));
    assert_eq!(rig.broker.outstanding(), 0);
}

/// FR-10: an answer to a release that was not made, or with another key.
#[test]
fn an_answer_to_no_release_ends_the_connection() {
    for name in ["k", "other"] {
        let (mut rig, first, second) = Rig::both_ready();
        let grant = granted(&mut rig, first, "k", 7);
        if name == "other" {
            let id = rig.release(&grant);
            rig.reply(second, released(7, "other"));
            assert!(rig.peer(second).failure.is_some());
            assert_eq!(rig.claim_release(id), None, "it is asked again elsewhere");
            assert_eq!(rig.releases_of(7), 2);
        } else {
            rig.reply(second, released(7, "k"));
            assert!(rig.peer(second).failure.is_some());
        }
    }
}

/// CA-10 for releases: after a redirect they are sent again, with a pause.
#[test]
fn a_redirected_release_is_sent_elsewhere() {
    let (mut rig, first, second) = Rig::both_ready();
    let grant = granted(&mut rig, first, "k", 7);
    let id = rig.release(&grant);
    rig.reply(second, Reply::Error(Reason::NoLeader));
    rig.pass(millis(10));
    assert_eq!(rig.peer(first).seen.len(), 2);
    rig.reply(first, released(7, "k"));
    assert_eq!(rig.claim_release(id), Some(Ok(Released::Released)));
}

/// CC-6
#[test]
fn closing_ends_each_request_in_its_way() {
    let (mut rig, first) = Rig::ready();
    let kept = granted(&mut rig, first, "kept", 7);
    let (sent, request) = rig.acquire_on(first, "sent", wait(secs(20)));
    rig.takes = 0;
    let unsent = rig.acquire("unsent", wait(secs(20)));
    rig.broker.close(rig.now);
    rig.takes = usize::MAX;
    rig.pump();
    assert_eq!(rig.error(unsent), AcquireError::Closed);
    assert_eq!(rig.error(sent), AcquireError::Indeterminate);
    assert_eq!(rig.broker.acquire(rig.now, "new", wait(secs(1))), Err(AcquireError::Closed));
    rig.grant(first, &request, 8);
    assert_eq!(rig.releases_of(8), 1, "a ghost's grant is released");
    rig.reply(first, released(8, "sent"));
    assert!(!rig.is_closed, "a ticket is out");
    rig.broker.discard(rig.now, kept.key, kept.token);
    rig.pump();
    assert_eq!(rig.releases_of(7), 1, "a ticket that is dropped meanwhile is released");
    rig.reply(first, released(7, "kept"));
    assert!(rig.is_closed);
    assert!(rig.peers.iter().all(|peer| peer.failure.is_some()));
    assert_eq!(rig.broker.poll_timeout(), None);
}

/// CC-6
#[test]
fn a_close_lasts_5_s_at_most() {
    let (mut rig, first) = Rig::ready();
    let kept = granted(&mut rig, first, "kept", 7);
    let (sent, _) = rig.acquire_on(first, "sent", wait(secs(200)));
    let unanswered = rig.release(&granted(&mut Rig::ready().0, first, "x", 9));
    rig.broker.close(rig.now);
    rig.pass(millis(4999));
    assert!(!rig.is_closed);
    rig.pass(millis(1));
    assert!(rig.is_closed);
    assert_eq!(rig.error(sent), AcquireError::Indeterminate);
    assert_eq!(rig.claim_release(unanswered), Some(Err(ReleaseError::Unconfirmed)));
    assert_eq!(rig.broker.outstanding(), 0);
    let late = rig.release(&kept);
    assert_eq!(rig.claim_release(late), Some(Err(ReleaseError::Unconfirmed)));
    rig.broker.discard(rig.now, kept.key, kept.token);
    assert_eq!(rig.broker.stats().compensations_expired, 1);
    assert_eq!(rig.broker.poll_timeout(), None);
}

/// CC-6: an idle client closes at once.
#[test]
fn an_idle_client_closes_at_once() {
    let (mut rig, first) = Rig::ready();
    rig.broker.close(rig.now);
    rig.pump();
    assert!(rig.is_closed);
    assert!(rig.peer(first).failure.is_some());
}
