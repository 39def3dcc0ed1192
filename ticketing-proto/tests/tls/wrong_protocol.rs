//! N06: TLS on a port without it, and the other way round. Nobody waits for the other without an end.

use ticketing_proto::client::{AcquireError, Failure, ProtocolError};
use ticketing_proto::server::{CloseReason, ServerEvent, ServerTimeoutReason, TimeoutReason};
use ticketing_proto::tls::TlsError;
use ticketing_proto::wire::Reason;

use crate::rig::{
    Peer, START, World, acquire, broker, close_reason, connect, exchange, failure, millis, offered, options,
    polled, secs, server, wanted,
};

const HTTP: &[u8] = b"GET / HTTP/1.1\r\nHost: server\r\n\r\n";

#[test]
fn plain_text_to_a_tls_port_ends_at_once_with_an_alert() {
    let world = World::new();
    for text in [HTTP, &[b'x'; 44], b"\n\n\n\n\n", b"R\0\0\0\0\0\0\0\x01k\n"] {
        let mut server = server(Some(world.server_tls()));
        let id = server.accept(START, [7; 32]).expect("room");
        assert_eq!(polled(&mut server, id), b"", "no challenge in plain text");
        server.handle_data(START, id, text);
        let alert = polled(&mut server, id);
        assert_eq!(alert[0], 21, "a TLS alert");
        assert!(!alert.contains(&b' '), "no word in plain text");
        server.handle_transmitted(START, id, alert.len());
        server.handle_eof(START, id);
        assert_eq!(close_reason(&mut server, id), Some(CloseReason::Tls(TlsError::NotTls)));
        assert_eq!(server.unauthenticated(), 0);
    }
}

/// TR-7: neither silence nor a peer that does not go away keeps a place for longer.
#[test]
fn a_place_is_kept_for_10_s_whatever_the_peer_does() {
    let world = World::new();
    for (at, bytes) in
        [(0, &b""[..]), (0, HTTP), (9900, HTTP), (9900, &[22, 3, 1]), (9900, &[22, 3, 1, 0, 1, 9])]
    {
        for is_taken in [false, true] {
            let mut server = server(Some(world.server_tls()));
            let id = server.accept(START, [7; 32]).expect("room");
            server.handle_timeout(START + millis(at));
            server.handle_data(START + millis(at), id, bytes);
            if is_taken {
                let alert = polled(&mut server, id).len();
                server.handle_transmitted(START + millis(at), id, alert);
            }
            while let Some(at) = server.poll_timeout() {
                assert!(at <= START + secs(10));
                server.handle_timeout(at);
            }
            assert!(server.is_drained(), "{at} ms, {bytes:?}");
        }
    }
}

#[test]
fn silence_on_a_tls_port_ends_at_10_s_and_silently() {
    let world = World::new();
    let mut server = server(Some(world.server_tls()));
    let id = server.accept(START, [7; 32]).expect("room");
    let reason = Some(ServerTimeoutReason::Connection { connection: id, reason: TimeoutReason::Handshake });
    assert_eq!((server.poll_timeout(), server.timeout_reason()), (Some(START + secs(10)), reason));
    server.handle_timeout(START + secs(10));
    assert_eq!(polled(&mut server, id), b"");
    assert_eq!(close_reason(&mut server, id), Some(CloseReason::HandshakeTimedOut));
}

#[test]
fn a_stream_that_ends_inside_the_tls_handshake_ends_the_connection() {
    let world = World::new();
    let mut server = server(Some(world.server_tls()));
    let id = server.accept(START, [7; 32]).expect("room");
    let hello = Peer::client(&world.client_config()).output();
    server.handle_data(START, id, &hello[..hello.len() / 2]);
    server.handle_eof(START, id);
    assert_eq!(polled(&mut server, id), b"");
    assert_eq!(close_reason(&mut server, id), Some(CloseReason::HandshakeEnded));
}

#[test]
fn tls_to_a_plain_port_is_refused_in_plain_text_and_named() {
    let hello = Peer::client(&World::new().client_config()).output();
    for piece in [hello.len(), 1, 100] {
        let mut server = server(None);
        let id = server.accept(START, [7; 32]).expect("room");
        for piece in hello.chunks(piece) {
            server.handle_data(START, id, piece);
        }
        let text = polled(&mut server, id);
        server.handle_transmitted(START, id, text.len());
        let is_short = text.ends_with(b"Ebad_request\n");
        assert!(is_short || text.ends_with(b"Eline_too_long\n"));
        server.handle_eof(START, id);
        let reason = if is_short { Reason::BadRequest } else { Reason::LineTooLong };
        assert_eq!(close_reason(&mut server, id), Some(CloseReason::UnexpectedTls(reason)));
    }
}

#[test]
fn our_client_with_tls_knows_a_plain_server_by_its_challenge() {
    let world = World::new();
    let mut server = server(None);
    let mut client = broker(Some(world.client_tls()));
    let here = wanted(&mut client)[0];
    let asked = client.acquire(START, "k", options(3)).expect("nothing wrong with the call");
    let there = server.accept(START, [7; 32]).expect("room");
    client.handle_connected(START, here);
    let challenge = polled(&mut server, there);
    client.handle_data(START, here, &challenge);
    assert_eq!(failure(&mut client, here), None, "its alert goes out first");
    let alert = offered(&mut client, START, here);
    client.handle_transmitted(START, here, alert.len());
    assert_eq!(failure(&mut client, here), Some(Failure::Tls(TlsError::NotTls)));
    client.handle_timeout(START + secs(3));
    let error = AcquireError::Protocol(ProtocolError::Tls(TlsError::NotTls));
    assert_eq!(client.claim(START + secs(3), asked), Some(Err(error)));
}

#[test]
fn an_alert_that_is_not_taken_holds_nothing_up() {
    let world = World::new();
    let mut client = broker(Some(world.client_tls()));
    let here = wanted(&mut client)[0];
    client.handle_connected(START, here);
    client.handle_data(START, here, HTTP);
    assert!(client.wants_transmit(here));
    client.handle_timeout(START + secs(1));
    assert_eq!(failure(&mut client, here), Some(Failure::Tls(TlsError::NotTls)));
}

/// A server with TLS says nothing to a client without: CC-4 ends it.
#[test]
fn our_client_without_tls_gives_a_silent_server_10_s() {
    let mut client = broker(None);
    let here = wanted(&mut client)[0];
    let asked = client.acquire(START, "k", options(20)).expect("nothing wrong with the call");
    client.handle_connected(START, here);
    assert_eq!(offered(&mut client, START, here), b"", "it waits for the challenge");
    client.handle_timeout(START + secs(10));
    assert_eq!(failure(&mut client, here), Some(Failure::HandshakeTimeout));
    assert_eq!(client.last_failure(), Some(Failure::HandshakeTimeout));
    client.handle_timeout(START + secs(20));
    assert_eq!(client.claim(START + secs(20), asked), Some(Err(AcquireError::Timeout)));
}

/// CC-4: TLS is part of the 10 s.
#[test]
fn our_client_with_tls_gives_a_silent_server_10_s() {
    let mut client = broker(Some(World::new().client_tls()));
    let here = wanted(&mut client)[0];
    client.handle_connected(START + secs(2), here);
    let hello = offered(&mut client, START + secs(2), here);
    client.handle_transmitted(START + secs(2), here, hello.len());
    client.handle_timeout(START + secs(10));
    assert_eq!(failure(&mut client, here), Some(Failure::HandshakeTimeout));
}

/// N04: who says nothing keeps nobody waiting.
#[test]
fn fifty_silent_peers_do_not_keep_a_good_one_waiting() {
    let world = World::new();
    let mut server = server(Some(world.server_tls()));
    let silent: Vec<_> = (0..50).map(|_| server.accept(START, [7; 32]).expect("room")).collect();
    let (id, mut peer) = connect(&mut server, START + millis(1), &world.client_config());
    let request = peer.seal(&acquire(1, 0, "k"));
    server.handle_data(START + millis(1), id, &request);
    assert_eq!(exchange(&mut server, START + millis(1), id, &mut peer)[0], b'A');
    server.handle_timeout(START + secs(10));
    let closed: Vec<_> = std::iter::from_fn(|| server.poll_event())
        .filter_map(|event| match event {
            ServerEvent::Close { connection, reason: CloseReason::HandshakeTimedOut } => Some(connection),
            _ => None,
        })
        .collect();
    assert_eq!(closed, silent);
    assert_eq!((server.connections(), server.unauthenticated()), (1, 0));
}
