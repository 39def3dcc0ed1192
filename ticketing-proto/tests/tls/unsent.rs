//! What a client counts as unsent and as possibly sent, inside TLS (CA-3).

use ticketing_proto::client::{AcquireError, Broker, Event};
use ticketing_proto::id::ConnectionId;
use ticketing_proto::wire::{Decoder, FromClient, Request};

use crate::rig::{
    CHALLENGE, Peer, START, World, broker, carry, failure, millis, offered, options, ready, response_to,
    secs, wanted,
};

/// A client with its two connections: the first one is ready, the second one is not made yet.
fn client(world: &World) -> (Broker, ConnectionId, Peer, ConnectionId) {
    let mut client = broker(Some(world.client_tls()));
    let connections = wanted(&mut client);
    let peer = ready(&mut client, START, connections[0], world);
    (client, connections[0], peer, connections[1])
}

/// The wait and the owner of each acquire.
fn acquires(mut bytes: &[u8]) -> Vec<(u8, u64)> {
    let mut decoder = Decoder::<FromClient>::new();
    let mut found = Vec::new();
    while let Some(frame) = decoder.next(&mut bytes).expect("frames") {
        if let Request::Acquire(acquire) = Request::parse(frame).expect("a request") {
            found.push((acquire.wait.secs(), acquire.owner.value()));
        }
    }
    found
}

#[test]
fn frames_enter_tls_only_after_the_challenge_was_answered() {
    let world = World::new();
    let mut client = broker(Some(world.client_tls()));
    let id = wanted(&mut client)[0];
    let asked = client.acquire(START, "k", options(10)).expect("nothing wrong with the call");
    let mut peer = Peer::server(&world.server_config());
    client.handle_connected(START, id);
    assert_eq!(carry(&mut client, START, id, &mut peer), b"", "no plaintext before the challenge");
    assert!(!client.is_ready() && !client.wants_transmit(id));
    let challenge = peer.seal(CHALLENGE);
    client.handle_data(START + millis(2500), id, &challenge);
    let plain = carry(&mut client, START + millis(2500), id, &mut peer);
    let frames = plain.strip_prefix(&*response_to(CHALLENGE)).expect("the response comes first");
    assert_eq!(acquires(frames), [(8, asked.owner().value())], "the wait is what remains (CA-2)");
}

/// Whether nothing of its record was taken, a part, or all of it: it entered.
#[test]
fn an_acquire_that_entered_tls_is_possibly_sent() {
    let world = World::new();
    for taken in [0, 1, 20] {
        let (mut client, id, _, _) = client(&world);
        let asked = client.acquire(START, "k", options(10)).expect("nothing wrong with the call");
        let record = offered(&mut client, START, id);
        assert!(record.len() > taken);
        client.handle_transmitted(START, id, taken);
        assert_eq!(offered(&mut client, START + secs(1), id), record[taken..], "the same ciphertext");
        client.handle_disconnected(START + secs(1), id);
        assert_eq!(client.claim(START + secs(1), asked), Some(Err(AcquireError::Indeterminate)));
    }
}

#[test]
fn an_acquire_outside_of_tls_is_unsent_while_earlier_ciphertext_is_stuck() {
    let world = World::new();
    let (mut client, id, mut peer, other) = client(&world);
    let first = client.acquire(START, "k", options(60)).expect("nothing wrong with the call");
    let record = offered(&mut client, START, id);
    client.handle_transmitted(START, id, record.len() - 1);
    let short = client.acquire(START, "k", options(2)).expect("nothing wrong with the call");
    let long = client.acquire(START, "k", options(30)).expect("nothing wrong with the call");
    assert_eq!(offered(&mut client, START, id), record[record.len() - 1..]);
    client.handle_transmitted(START, id, 0);
    client.handle_timeout(START + secs(2));
    assert_eq!(client.claim(START + secs(2), short), Some(Err(AcquireError::Timeout)), "certain");
    client.handle_transmitted(START + secs(2), id, 1);
    assert_eq!(offered(&mut client, START + secs(3), id).len(), 1, "what was not polled is not taken");
    client.handle_disconnected(START + secs(3), id);
    assert_eq!(client.claim(START + secs(3), first), Some(Err(AcquireError::Indeterminate)));
    let mut peer_of_other = Peer::server(&world.server_config());
    client.handle_connected(START + secs(3), other);
    carry(&mut client, START + secs(3), other, &mut peer_of_other);
    let challenge = peer_of_other.seal(CHALLENGE);
    client.handle_data(START + secs(3), other, &challenge);
    let plain = carry(&mut client, START + secs(3), other, &mut peer_of_other);
    let frames = plain.strip_prefix(&*response_to(CHALLENGE)).expect("the response comes first");
    assert_eq!(acquires(frames), [(27, long.owner().value())], "with the same owner, and what remains");
    assert_eq!(acquires(&peer.input(&record).expect("good TLS")), [(60, first.owner().value())]);
}

#[test]
fn the_stamp_is_taken_when_the_frame_enters_tls() {
    let world = World::new();
    let (mut client, id, mut peer, _) = client(&world);
    let first = client.acquire(START, "k", options(60)).expect("nothing wrong with the call");
    let record = offered(&mut client, START, id);
    let second = client.acquire(START, "k", options(60)).expect("nothing wrong with the call");
    client.handle_transmitted(START + secs(5), id, record.len());
    assert_eq!(acquires(&peer.input(&record).expect("good TLS")), [(60, first.owner().value())]);
    let plain = carry(&mut client, START + secs(5), id, &mut peer);
    assert_eq!(acquires(&plain), [(55, second.owner().value())]);
    let mut grant = b"A\0\0\0\0\0\0\0\x09\0\0\0\0\0\0\0".to_vec();
    grant.extend([second.owner().value() as u8, b'k', b'\n']);
    let grant = peer.seal(&grant);
    client.handle_data(START + secs(6), id, &grant);
    let grant = client.claim(START + secs(6), second).expect("an answer").expect("a grant");
    assert_eq!(grant.valid_until, START + secs(5) + millis(29_970), "from when it entered (CD-3)");
}

/// CA-5: writing is shut down at once, and what the server had under way is still read.
#[test]
fn a_connection_with_an_overdue_request_is_read_on() {
    let world = World::new();
    let (mut client, id, mut peer, _) = client(&world);
    let held = client.acquire(START, "held", options(60)).expect("nothing wrong with the call");
    let overdue = client.acquire(START, "k", options(1)).expect("nothing wrong with the call");
    carry(&mut client, START, id, &mut peer);
    while client.poll_event().is_some() {}
    let now = START + secs(1);
    client.handle_timeout(now);
    assert_eq!(client.claim(now, overdue), Some(Err(AcquireError::Indeterminate)));
    let events: Vec<_> = std::iter::from_fn(|| client.poll_event()).collect();
    assert!(events.contains(&Event::ShutdownWrite { connection: id }), "{events:?}");
    assert_eq!(offered(&mut client, now, id), b"");
    let grant = [b"A\0\0\0\0\0\0\0\x07\0\0\0\0\0\0\0", &[held.owner().value() as u8][..], b"held\n"].concat();
    let grant = peer.seal(&grant);
    client.handle_data(now, id, &grant);
    assert_eq!(client.claim(now, held).expect("an answer").expect("a grant").token.value(), 7);
    // Not even TLS that is broken brings anything out again.
    client.handle_data(now, id, b"broken");
    assert!(!client.wants_transmit(id));
}

#[test]
fn close_notify_is_an_end_of_stream() {
    let world = World::new();
    let (mut client, id, mut peer, _) = client(&world);
    let asked = client.acquire(START, "k", options(60)).expect("nothing wrong with the call");
    carry(&mut client, START, id, &mut peer);
    peer.0.send_close_notify();
    let notify = peer.output();
    client.handle_data(START, id, &notify);
    assert_eq!(client.claim(START, asked), Some(Err(AcquireError::Indeterminate)));
    assert!(failure(&mut client, id).is_some());
}

/// CC-6: the client is closed when its last word inside TLS is taken.
#[test]
fn a_closed_client_says_close_notify() {
    let world = World::new();
    let (mut client, id, mut peer, other) = client(&world);
    while client.poll_event().is_some() {}
    client.close(START);
    let events: Vec<_> = std::iter::from_fn(|| client.poll_event()).collect();
    assert!(!events.contains(&Event::Closed));
    assert!(
        events
            .iter()
            .any(|event| matches!(event, Event::Disconnect { connection, .. } if *connection == other))
    );
    carry(&mut client, START, id, &mut peer);
    assert!(peer.0.process_new_packets().expect("good TLS").peer_has_closed());
    let events: Vec<_> = std::iter::from_fn(|| client.poll_event()).collect();
    assert_eq!(events.first(), Some(&Event::ShutdownWrite { connection: id }));
    assert_eq!(events.last(), Some(&Event::Closed));
    assert_eq!(client.poll_timeout(), None);
}

#[test]
fn a_closed_client_does_not_wait_long_for_its_close_notify_to_be_taken() {
    let world = World::new();
    let (mut client, _, _, _) = client(&world);
    client.close(START);
    assert_eq!(client.poll_timeout(), Some(START + secs(1)));
    client.handle_timeout(START + secs(1));
    let events: Vec<_> = std::iter::from_fn(|| client.poll_event()).collect();
    assert_eq!(events.last(), Some(&Event::Closed));
    assert_eq!(client.poll_timeout(), None);
}

/// CA-9: a write that fails is no proof that nothing more can be read.
#[test]
fn after_a_failed_write_inside_tls_the_answers_are_read() {
    let world = World::new();
    let (mut client, id, mut peer, _) = client(&world);
    let asked = client.acquire(START, "k", options(60)).expect("nothing wrong with the call");
    carry(&mut client, START, id, &mut peer);
    let later = client.acquire(START, "l", options(60)).expect("nothing wrong with the call");
    assert!(!offered(&mut client, START, id).is_empty());
    client.handle_transmitted(START, id, 0);
    client.handle_write_failed(START, id);
    assert_eq!(offered(&mut client, START, id), b"");
    let grant = [b"A\0\0\0\0\0\0\0\x07\0\0\0\0\0\0\0", &[asked.owner().value() as u8][..], b"k\n"].concat();
    let grant = peer.seal(&grant);
    client.handle_data(START, id, &grant);
    assert!(matches!(client.claim(START, asked), Some(Ok(_))));
    client.handle_eof(START, id);
    assert_eq!(client.claim(START, later), Some(Err(AcquireError::Indeterminate)));
}
