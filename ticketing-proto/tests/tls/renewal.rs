//! Certificate and secret change while a server runs, and those who come back resume their sessions.

use ticketing_proto::id::ConnectionId;
use ticketing_proto::server::Server;
use ticketing_proto::tls::rustls::HandshakeKind;
use ticketing_proto::wire::auth::{Secret, respond};

use crate::rig::{
    Peer, START, World, acquire, broker, connect, exchange, release, replies, secs, server, wanted,
};

fn serves(server: &mut Server, id: ConnectionId, peer: &mut Peer, key: &str) -> bool {
    let request = peer.seal(&acquire(1, 0, key));
    server.handle_data(START, id, &request);
    let got = replies(&exchange(server, START, id, peer));
    let [(b'A', Some(token))] = got[..] else { return false };
    let request = peer.seal(&release(token, key));
    server.handle_data(START, id, &request);
    replies(&exchange(server, START, id, peer)) == [(b'R', None)]
}

#[test]
fn a_client_that_comes_back_resumes_its_session() {
    let world = World::new();
    let mut server = server(Some(world.server_tls()));
    let config = world.client_config();
    let kinds: Vec<_> = (0..4)
        .map(|_| {
            let (id, mut peer) = connect(&mut server, START, &config);
            assert!(serves(&mut server, id, &mut peer, "k"));
            let kind = peer.0.handshake_kind();
            server.handle_disconnected(START, id);
            kind
        })
        .collect();
    let resumed = Some(HandshakeKind::Resumed);
    assert_eq!(kinds, [Some(HandshakeKind::Full), resumed, resumed, resumed]);
}

#[test]
fn our_client_resumes_its_session_when_it_reconnects() {
    let world = World::new();
    let mut client = broker(Some(world.client_tls()));
    let config = world.server_config();
    let mut kinds = Vec::new();
    let mut now = START;
    for _ in 0..3 {
        let id = wanted(&mut client)[0];
        let mut peer = Peer::server(&config);
        client.handle_connected(now, id);
        crate::rig::carry(&mut client, now, id, &mut peer);
        kinds.push(peer.0.handshake_kind());
        client.handle_disconnected(now, id);
        now = now + secs(10);
        client.handle_timeout(now);
        while client.poll_timeout().is_some_and(|at| at <= now) {
            client.handle_timeout(now);
        }
    }
    let resumed = Some(HandshakeKind::Resumed);
    assert_eq!(kinds, [Some(HandshakeKind::Full), resumed, resumed]);
}

#[test]
fn a_new_certificate_is_seen_by_all_who_come_and_the_others_live_on() {
    let mut world = World::new();
    let mut server = server(Some(world.server_tls()));
    let config = world.client_config();
    let (old, mut old_peer) = connect(&mut server, START, &config);
    let mut seen = vec![old_peer.0.peer_certificates().expect("a chain").to_vec()];
    for _ in 0..3 {
        world.identity = world.authority.identity(&["server"]);
        server.set_tls(Some(world.server_tls()));
        let (new, mut new_peer) = connect(&mut server, START, &config);
        assert_eq!(new_peer.0.handshake_kind(), Some(HandshakeKind::Full));
        let certificates = new_peer.0.peer_certificates().expect("a chain").to_vec();
        assert!(!seen.contains(&certificates));
        seen.push(certificates);
        assert!(serves(&mut server, new, &mut new_peer, "k"));
        assert!(serves(&mut server, old, &mut old_peer, "k"));
    }
}

#[test]
fn a_new_secret_is_asked_of_those_who_come() {
    let world = World::new();
    let mut server = server(Some(world.server_tls()));
    let config = world.client_config();
    let (old, mut old_peer) = connect(&mut server, START, &config);
    let under_way = server.accept(START, [7; 32]).expect("room");
    let mut peer_under_way = Peer::client(&config);
    server.set_secret(Secret::new(*b"battery staple"));
    assert!(serves(&mut server, old, &mut old_peer, "k"));
    let challenge = exchange(&mut server, START, under_way, &mut peer_under_way);
    let response = peer_under_way.seal(&crate::rig::response_to(&challenge));
    server.handle_data(START, under_way, &response);
    assert!(serves(&mut server, under_way, &mut peer_under_way, "k"), "it was accepted before");
    for (secret, is_right) in [(&b"correct horse"[..], false), (b"battery staple", true)] {
        let id = server.accept(START, [7; 32]).expect("room");
        let mut peer = Peer::client(&config);
        let challenge = exchange(&mut server, START, id, &mut peer);
        let mut line = respond(&Secret::new(secret), &challenge[7..challenge.len() - 1]).to_vec();
        line.push(b'\n');
        let response = peer.seal(&line);
        server.handle_data(START, id, &response);
        let answer = exchange(&mut server, START, id, &mut peer);
        assert_eq!(answer, if is_right { &b""[..] } else { b"Eauth_failed\n" });
    }
}

#[test]
fn tls_can_be_taken_away_and_given_again() {
    let world = World::new();
    let mut server = server(None);
    let plain = server.accept(START, [7; 32]).expect("room");
    assert!(crate::rig::polled(&mut server, plain).starts_with(b"sha256 "));
    server.set_tls(Some(world.server_tls()));
    let (id, mut peer) = connect(&mut server, START, &world.client_config());
    assert!(serves(&mut server, id, &mut peer, "k"));
    server.set_tls(None);
    let plain = server.accept(START, [8; 32]).expect("room");
    assert!(crate::rig::polled(&mut server, plain).starts_with(b"sha256 "));
    assert!(serves(&mut server, id, &mut peer, "k"));
}
