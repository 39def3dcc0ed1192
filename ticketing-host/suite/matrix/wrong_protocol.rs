//! Silence, other protocols, and the end, at ports with and without TLS.

use std::io::{ErrorKind, Read, Write as _};
use std::thread;
use std::time::{Duration, Instant};

use ticketing_tokio::AcquireError;
use ticketing_tokio::tls::TlsError;

use super::raw::{Raw, tcp};
use super::refusals::tls_fault;
use super::servers::ServerKind;
use super::{OPTIONS, Pair, SECOND, Security, trust, with_each};

/// How long a connection has for its handshake (`TR-7`).
const HANDSHAKE: Duration = Duration::from_secs(10);
const ALERT: u8 = 21;

/// All that comes until the end, which is an end of stream or a reset.
fn rest(stream: &mut impl Read) -> Vec<u8> {
    let mut bytes = Vec::new();
    if let Err(error) = stream.read_to_end(&mut bytes) {
        assert_eq!(error.kind(), ErrorKind::ConnectionReset);
    }
    bytes
}

/// N04, N06: those that say nothing are in nobody's way, and are closed after 10 s. So is a client in plain text,
/// which waits for the server to speak; its acquire ends at its own deadline.
#[test]
fn the_silent_are_in_nobodys_way_and_have_10_seconds() {
    with_each(Pair::with(|security| security == Security::Tls), |pair| {
        let (server, good) = pair.start();
        let began = Instant::now();
        let silent: Vec<_> = (0..20).map(|_| tcp(server.address())).collect();
        let ticket = good.acquire("k", OPTIONS).expect("it is free");
        let plain = pair.client.connect(server.address(), "", None);
        let error = plain.acquire("k", OPTIONS.wait(SECOND)).err();
        assert_eq!(error, Some(AcquireError::Timeout));
        for mut stream in silent {
            assert_eq!(rest(&mut stream), b"", "no word in plain text");
        }
        // It began to count when it accepted them, which may have been a little later.
        assert!(began.elapsed() >= HANDSHAKE, "{:?}", began.elapsed());
        drop(ticket);
        server.logs("not authenticated within 10 s");
    });
}

/// N06: what is no TLS is answered with an alert and closed.
#[test]
fn other_protocols_are_closed_and_logged() {
    with_each(ServerKind::all(), |kind| {
        let server = kind.start(Security::Tls.terms());
        for words in ["GET / HTTP/1.1\r\nHost: locks.example\r\n\r\n", &format!("{}\n", "x".repeat(43))] {
            let mut stream = tcp(server.address());
            stream.write_all(words.as_bytes()).expect("it is open");
            let heard = rest(&mut stream);
            assert!(heard.is_empty() || heard[0] == ALERT, "{heard:?}");
        }
        server.logs("the peer does not speak TLS");
    });
}

/// N06: a client inside TLS sees that the server is not, and its acquire ends at its own deadline.
#[test]
fn a_client_inside_tls_sees_a_server_that_is_not() {
    with_each(Pair::with(|security| security == Security::Plain), |pair| {
        let server = pair.server.start(pair.security.terms());
        let client = pair.client.connect(server.address(), "", Some(trust()));
        assert_eq!(tls_fault(&*client), TlsError::NotTls);
    });
}

/// N06: a ClientHello at the plain port ends as what it is there, a wrong first line.
#[test]
fn tls_at_a_plain_port_is_told_so_in_plain_text() {
    with_each(ServerKind::all(), |kind| {
        let server = kind.start(Security::Plain.terms());
        let mut stream = tcp(server.address());
        let hello = [&b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"[..], &[7; 506]].concat();
        stream.write_all(&hello).expect("it is open");
        let heard = String::from_utf8(rest(&mut stream)).expect("plain text");
        let (challenge, fault) = heard.split_once('\n').expect("a challenge");
        assert!(challenge.starts_with("sha256 "), "{challenge}");
        assert_eq!(fault, "Eline_too_long\n");
        server.logs("the peer speaks TLS, and the server has no certificate");
    });
}

/// N12: those inside the TLS handshake, and those behind it who are not authenticated, don't hold up the end;
/// whoever waits is told, inside TLS.
#[test]
fn a_shutdown_waits_for_nobody_inside_a_handshake() {
    with_each(ServerKind::all(), |kind| {
        let server = kind.start(Security::Tls.terms());
        let silent: Vec<_> = (0..10).map(|_| tcp(server.address())).collect();
        let mut half = tcp(server.address());
        half.write_all(b"\x16\x03\x01\x02\x00\x01").expect("it is open");
        let mut behind = Raw::connect(server.address(), Security::Tls);
        behind.read_exact(&mut [0; 51]).expect("the challenge");
        let mut peer = Raw::authenticated(server.address(), Security::Tls);
        // A release of what is not held shows that it is authenticated.
        peer.write_all(b"R\0\0\0\0\0\0\0\x01k\n").expect("it is open");
        let mut reply = [0; 11];
        peer.read_exact(&mut reply).expect("a reply");
        assert_eq!(reply[0], b'N');
        let hearing = thread::spawn(move || rest(&mut peer));
        let began = Instant::now();
        server.end();
        assert!(began.elapsed() < HANDSHAKE, "{:?}, by when nobody is inside any more", began.elapsed());
        assert_eq!(hearing.join().expect("it hears to the end"), b"Enot_active\n");
        drop((silent, half, behind));
    });
}
