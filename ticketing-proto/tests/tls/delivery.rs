//! What a server counts as handed out and as delivered, inside TLS.

use std::collections::BTreeSet;

use ticketing_proto::id::ConnectionId;
use ticketing_proto::server::{CloseReason, Server, ServerEvent};
use ticketing_proto::tls::rustls::crypto::ring::default_provider;
use ticketing_proto::tls::{ServerTls, TlsError};

use crate::rig::{
    Peer, START, World, acquire, close_reason, connect, exchange, millis, polled, release, replies, secs,
    server,
};

fn keys_held(server: &Server) -> u64 {
    server.usage().keys.used
}

/// A server, a connection, and a grant that is on its way: sealed and not taken.
fn with_grant(world: &World) -> (Server, ConnectionId, Peer, Vec<u8>) {
    let mut server = server(Some(world.server_tls()));
    let (id, mut peer) = connect(&mut server, START, &world.client_config());
    let request = peer.seal(&acquire(1, 0, "k"));
    server.handle_data(START, id, &request);
    let record = polled(&mut server, id);
    (server, id, peer, record)
}

/// OP-7: less than a whole record is nothing to the peer, so its grant is free at once.
#[test]
fn a_grant_whose_record_was_partly_taken_is_released_at_the_disconnect() {
    let world = World::new();
    let (.., record) = with_grant(&world);
    for taken in 0..=record.len() {
        let (mut server, id, _, record) = with_grant(&world);
        server.handle_transmitted(START, id, taken);
        assert_eq!(keys_held(&server), 1);
        server.handle_disconnected(START, id);
        let is_delivered = taken == record.len();
        assert_eq!(keys_held(&server), u64::from(is_delivered), "{taken} of {} bytes", record.len());
        assert_eq!(server.usage().acquires.used, 0);
    }
}

/// The same when this side ends the connection, here because nothing is taken for 10 s (AD-6).
#[test]
fn a_grant_whose_record_was_partly_taken_is_released_when_the_connection_stalls() {
    let world = World::new();
    let (mut server, id, _, record) = with_grant(&world);
    server.handle_transmitted(START, id, record.len() - 1);
    server.handle_timeout(START + secs(10));
    assert_eq!(close_reason(&mut server, id), Some(CloseReason::WriteStalled));
    assert_eq!(keys_held(&server), 0);
}

#[test]
fn polling_again_gives_the_same_ciphertext_and_new_replies_wait_until_it_is_taken() {
    let world = World::new();
    let (mut server, id, mut peer, record) = with_grant(&world);
    assert_eq!(polled(&mut server, id), record);
    server.handle_transmitted(START, id, 5);
    let request = peer.seal(&release(1, "k"));
    server.handle_data(START, id, &request);
    assert_eq!(polled(&mut server, id), record[5..]);
    server.handle_transmitted(START, id, record.len() - 5);
    let next = polled(&mut server, id);
    server.handle_transmitted(START, id, next.len());
    assert_eq!(server.usage().acquires.used, 0);
    let plain = peer.input(&[record, next].concat()).expect("good TLS");
    assert_eq!(replies(&plain), [(b'A', Some(1)), (b'R', None)]);
}

/// TR-10: what is inside TLS is handed out, what is not can be withdrawn.
#[test]
fn at_the_end_of_stream_a_waiters_grant_is_withdrawn_unless_it_is_inside_tls() {
    let world = World::new();
    for is_sealed in [false, true] {
        let mut server = server(Some(world.server_tls()));
        let config = world.client_config();
        let (holder, mut holders_peer) = connect(&mut server, START, &config);
        let (waiter, mut waiters_peer) = connect(&mut server, START, &config);
        let request = holders_peer.seal(&acquire(1, 0, "k"));
        server.handle_data(START, holder, &request);
        exchange(&mut server, START, holder, &mut holders_peer);
        let request = waiters_peer.seal(&acquire(2, 60, "k"));
        server.handle_data(START, waiter, &request);
        let request = holders_peer.seal(&release(1, "k"));
        server.handle_data(START, holder, &request);
        let mut record = Vec::new();
        if is_sealed {
            record = polled(&mut server, waiter);
            server.handle_transmitted(START, waiter, 0);
        }
        server.handle_eof(START, waiter);
        assert_eq!(keys_held(&server), u64::from(is_sealed));
        let rest = polled(&mut server, waiter);
        assert!(rest.starts_with(&record));
        server.handle_transmitted(START, waiter, rest.len());
        let plain = waiters_peer.input(&rest).expect("good TLS");
        let expected: &[_] = if is_sealed { &[(b'A', Some(2))] } else { &[] };
        assert_eq!(replies(&plain), expected);
    }
}

/// A configuration from elsewhere may ask for small records: a grant is delivered with its own.
#[test]
fn with_small_records_each_grant_is_delivered_with_its_own() {
    let world = World::new();
    let mut config = world.server_config_with(default_provider());
    config.max_fragment_size = Some(40);
    let tls = ServerTls::new(config.into()).expect("a good size");
    let all = {
        let (mut server, id, _) = with_three_grants(&tls, &world);
        polled(&mut server, id).len()
    };
    let mut counts = BTreeSet::new();
    for taken in 0..=all {
        let (mut server, id, mut peer) = with_three_grants(&tls, &world);
        let records = polled(&mut server, id);
        server.handle_transmitted(START, id, taken);
        server.handle_disconnected(START, id);
        let plain = peer.input(&records[..taken]).expect("good TLS");
        let arrived = plain.iter().filter(|&&byte| byte == b'\n').count() as u64;
        assert_eq!(keys_held(&server), arrived, "{taken} of {all} bytes");
        counts.insert(arrived);
    }
    assert!(counts.into_iter().eq([0, 1, 3]), "the second one lies in two records");
}

fn with_three_grants(tls: &ServerTls, world: &World) -> (Server, ConnectionId, Peer) {
    let mut server = server(Some(tls.clone()));
    let (id, mut peer) = connect(&mut server, START, &world.client_config());
    let request = peer.seal(&[acquire(1, 0, "a"), acquire(2, 0, "b"), acquire(3, 0, "c")].concat());
    server.handle_data(START, id, &request);
    (server, id, peer)
}

/// TR-12: with close_notify or without, and close_notify is what the peer gets.
#[test]
fn the_end_of_a_stream_is_one_with_and_without_close_notify() {
    let world = World::new();
    for is_notified in [false, true] {
        let (mut server, id, mut peer, record) = with_grant(&world);
        server.handle_transmitted(START, id, record.len());
        if is_notified {
            peer.0.send_close_notify();
            let notify = peer.output();
            server.handle_data(START, id, &notify);
        } else {
            server.handle_eof(START, id);
        }
        assert!(!server.wants_read(id));
        let rest = polled(&mut server, id);
        server.handle_transmitted(START, id, rest.len());
        peer.input(&record).expect("good TLS");
        peer.input(&rest).expect("good TLS");
        assert!(peer.0.process_new_packets().expect("good TLS").peer_has_closed());
        assert_eq!(close_reason(&mut server, id), Some(CloseReason::Ended));
        assert_eq!(keys_held(&server), 1, "a delivered grant outlives its connection");
    }
}

/// TR-9: writing is shut down behind close_notify, not before it.
#[test]
fn writing_is_shut_down_when_close_notify_is_taken() {
    let world = World::new();
    let mut server = server(Some(world.server_tls()));
    let (id, mut peer) = connect(&mut server, START, &world.client_config());
    server.shut_down(START);
    let farewell = polled(&mut server, id);
    server.handle_transmitted(START, id, farewell.len());
    assert_eq!(peer.input(&farewell).expect("good TLS"), b"Enot_active\n");
    let is_shut = |server: &mut Server| {
        std::iter::from_fn(|| server.poll_event()).any(|event| event == ServerEvent::ShutdownWrite(id))
    };
    assert!(!is_shut(&mut server));
    let notify = polled(&mut server, id);
    server.handle_transmitted(START, id, notify.len() - 1);
    assert!(!is_shut(&mut server));
    server.handle_transmitted(START, id, 1);
    assert!(!is_shut(&mut server), "1 byte was not polled");
    assert_eq!(polled(&mut server, id).len(), 1);
    server.handle_transmitted(START, id, 1);
    assert!(is_shut(&mut server));
    peer.input(&notify).expect("good TLS");
    assert!(peer.0.process_new_packets().expect("good TLS").peer_has_closed());
}

/// What came whole before it is executed; what was decided goes out if it is inside already; the rest is released.
#[test]
fn a_damaged_record_ends_the_connection_with_an_alert() {
    let world = World::new();
    let (mut server, id, mut peer, record) = with_grant(&world);
    server.handle_transmitted(START, id, 1);
    let good = peer.seal(&acquire(2, 0, "good"));
    let mut bad = peer.seal(&acquire(3, 0, "bad"));
    *bad.last_mut().expect("bytes") ^= 1;
    server.handle_data(START, id, &[good, bad].concat());
    assert_eq!(keys_held(&server), 1, "a reply that can't go out any more is a grant released");
    let rest = polled(&mut server, id);
    server.handle_transmitted(START, id, rest.len());
    let all = [&record[..1], &rest].concat();
    assert_eq!(replies(&peer.input(&all[..record.len()]).expect("good TLS")), [(b'A', Some(1))]);
    peer.input(&all[record.len()..]).expect_err("an alert");
    server.handle_eof(START + millis(1), id);
    assert_eq!(close_reason(&mut server, id), Some(CloseReason::Tls(TlsError::BadRecord)));
    assert_eq!(keys_held(&server), 1, "the first grant was delivered");
}
