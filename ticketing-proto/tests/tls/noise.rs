//! Whatever comes, nobody panics, and a connection that is broken ends.

use proptest::collection::vec;
use proptest::prelude::*;
use ticketing_proto::id::ConnectionId;
use ticketing_proto::server::Server;
use ticketing_proto::tls::rustls;
use ticketing_proto::tls::rustls::crypto::ring::default_provider;
use ticketing_proto::tls::rustls::version::{TLS12, TLS13};

use crate::rig::{
    CHALLENGE, Peer, START, World, acquire, broker, carry, close_reason, connect, exchange, offered, options,
    polled, secs, server, wanted,
};

/// What is done to a stream that was good: at which of its bytes.
#[derive(Clone, Copy, Debug)]
enum Damage {
    Flip(u8),
    Insert(u8),
    Remove,
    Cut,
}

fn damage() -> impl Strategy<Value = (prop::sample::Index, Damage)> {
    let kinds = prop_oneof![
        (1..=255_u8).prop_map(Damage::Flip),
        any::<u8>().prop_map(Damage::Insert),
        Just(Damage::Remove),
        Just(Damage::Cut),
    ];
    (any::<prop::sample::Index>(), kinds)
}

fn damaged(mut bytes: Vec<u8>, (at, damage): (prop::sample::Index, Damage)) -> Vec<u8> {
    let at = at.index(bytes.len());
    match damage {
        Damage::Flip(bits) => bytes[at] ^= bits,
        Damage::Insert(byte) => bytes.insert(at, byte),
        Damage::Remove => _ = bytes.remove(at),
        Damage::Cut => bytes.truncate(at),
    }
    bytes
}

/// Takes whatever it has for its peer; then the peer goes away, and nothing is left.
fn is_left_clean(server: &mut Server, id: ConnectionId) -> bool {
    for _ in 0..3 {
        let bytes = polled(server, id);
        server.handle_transmitted(START, id, bytes.len());
    }
    server.handle_eof(START, id);
    for _ in 0..3 {
        let bytes = polled(server, id);
        server.handle_transmitted(START, id, bytes.len());
    }
    server.handle_timeout(START + secs(10));
    close_reason(server, id).is_some() && server.is_drained() && server.usage().acquires.used == 0
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn a_server_outlives_any_bytes(bytes in vec(any::<u8>(), 0..600), begins_well in any::<bool>()) {
        let world = World::new();
        let mut server = server(Some(world.server_tls()));
        let id = server.accept(START, [7; 32]).expect("room");
        if begins_well {
            server.handle_data(START, id, &[22, 3, 1, 2, 0, 1, 0, 1, 252, 3, 3]);
        }
        server.handle_data(START, id, &bytes);
        prop_assert!(is_left_clean(&mut server, id));
    }

    #[test]
    fn a_server_outlives_a_handshake_and_requests_that_are_damaged(
        damage in damage(),
        in_handshake in any::<bool>(),
        is_new in any::<bool>(),
    ) {
        let world = World::new();
        let config = world.client_config_with(default_provider(), &[if is_new { &TLS13 } else { &TLS12 }]);
        let mut server = server(Some(world.server_tls()));
        let id = if in_handshake {
            let id = server.accept(START, [7; 32]).expect("room");
            let mut peer = Peer::client(&config);
            server.handle_data(START, id, &damaged(peer.output(), damage));
            let flight = polled(&mut server, id);
            server.handle_transmitted(START, id, flight.len());
            let _ = peer.input(&flight);
            server.handle_data(START, id, &peer.output());
            id
        } else {
            let (id, mut peer) = connect(&mut server, START, &config);
            let bytes = [peer.seal(&acquire(1, 0, "k")), peer.seal(&acquire(2, 9, "k"))].concat();
            server.handle_data(START, id, &damaged(bytes, damage));
            id
        };
        prop_assert!(is_left_clean(&mut server, id));
    }

    #[test]
    fn a_client_outlives_a_server_that_is_damaged(damage in damage(), step in 0..3_usize, is_overdue in any::<bool>()) {
        let world = World::new();
        let mut client = broker(Some(world.client_tls()));
        let id = wanted(&mut client)[0];
        let asked = client.acquire(START, "k", options(1)).expect("nothing wrong with the call");
        let mut peer = Peer::server(&world.server_config());
        client.handle_connected(START, id);
        if step > 0 {
            carry(&mut client, START, id, &mut peer);
        } else {
            peer.input(&offered(&mut client, START, id)).expect("good TLS");
        }
        let mut bytes = peer.output();
        if step > 0 {
            bytes = peer.seal(CHALLENGE);
        }
        if step > 1 {
            client.handle_data(START, id, &bytes);
            carry(&mut client, START, id, &mut peer);
            if is_overdue {
                client.handle_timeout(START + secs(1));
            }
            bytes = peer.seal(b"T\0\0\0\0\0\0\0\x01k\n");
        }
        client.handle_data(START, id, &damaged(bytes, damage));
        let mut out = Vec::new();
        if client.poll_transmit(START, id, &mut out) {
            client.handle_transmitted(START, id, out.len());
        }
        client.handle_eof(START, id);
        client.handle_timeout(START + secs(1));
        let outcome = client.claim(START + secs(1), asked);
        prop_assert!(matches!(outcome, Some(Err(_))), "{:?}", outcome);
    }
}

/// The peer asks for new keys, which are answered with the next reply.
#[test]
fn key_updates_are_answered() {
    let world = World::new();
    let mut server = server(Some(world.server_tls()));
    let (id, mut peer) = connect(&mut server, START, &world.client_config());
    for round in 1..100 {
        let rustls::Connection::Client(client) = &mut peer.0 else { unreachable!("it is a client") };
        client.refresh_traffic_keys().expect("TLS 1.3");
        let bytes = peer.seal(&acquire(round, 0, &format!("k{round}")));
        server.handle_data(START, id, &bytes);
        assert_eq!(exchange(&mut server, START, id, &mut peer)[0], b'A');
    }
}
