//! Silence, other protocols, and the end, at a port with TLS.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use ticketing_tokio::tls::TlsError;
use ticketing_tokio::{AcquireError, Failure, ProtocolError, Secret};
use tokio::task::spawn_blocking;

use crate::certificates::Authority;
use crate::support::{OPTIONS, Running, client, peer, rest, serve, soon, tcp};

/// How long a connection has for its handshake (`TR-7`).
const HANDSHAKE: Duration = Duration::from_secs(10);
const ALERT: u8 = 21;

async fn with_tls(authority: &Authority) -> Running {
    serve(Some(authority.identity(&["127.0.0.1"]).server()), &Secret::default()).await
}

/// N04, N06: those that say nothing are in nobody's way, and are closed after 10 s. So is a client in plain text,
/// which waits for the server to speak; its acquire ends at its own deadline before that.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_silent_are_in_nobodys_way_and_have_10_seconds() {
    let authority = Authority::new("own");
    let running = with_tls(&authority).await;
    let address = running.address;
    let began = Instant::now();
    let silent: Vec<_> = (0..50).map(|_| tcp(address)).collect();
    let good = client(address, Some(authority.trust()), &Secret::default());
    let _ticket = soon(good.acquire("k", OPTIONS)).await.expect("it is free");
    let served = began.elapsed();
    assert!(served < Duration::from_secs(5), "{served:?}, which is long before the silent are closed");

    let plain = client(address, None, &Secret::default());
    let asked = Instant::now();
    let error =
        soon(plain.acquire("k", OPTIONS.wait(Duration::from_secs(1)))).await.expect_err("no challenge");
    assert_eq!(error, AcquireError::Timeout);
    assert!(asked.elapsed() < Duration::from_secs(3), "{:?}", asked.elapsed());

    let closed = spawn_blocking(move || {
        for mut stream in silent {
            assert_eq!(rest(&mut stream), b"", "no word in plain text");
        }
        began.elapsed()
    });
    let closed = closed.await.expect("no assertion fails");
    assert!(
        (HANDSHAKE - Duration::from_millis(500)..HANDSHAKE + Duration::from_secs(5)).contains(&closed),
        "{closed:?}"
    );
    while plain.last_failure().is_none() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let seen = asked.elapsed();
    assert!(seen < HANDSHAKE + Duration::from_secs(5), "{seen:?}");
    assert!(matches!(plain.last_failure(), Some(Failure::HandshakeTimeout | Failure::Lost)));
}

/// N06: what is no TLS is answered with an alert and closed at once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn other_protocols_are_closed_at_once() {
    let authority = Authority::new("own");
    let running = with_tls(&authority).await;
    let address = running.address;
    let say = move |words: &[u8]| {
        let began = Instant::now();
        let mut stream = tcp(address);
        stream.write_all(words).expect("it is open");
        let heard = rest(&mut stream);
        assert!(heard.is_empty() || heard[0] == ALERT, "{heard:?}");
        assert!(began.elapsed() < HANDSHAKE / 2, "{:?}", began.elapsed());
    };
    spawn_blocking(move || {
        say(b"GET / HTTP/1.1\r\nHost: locks.example\r\n\r\n");
        say(format!("{}\n", "x".repeat(43)).as_bytes());
    })
    .await
    .expect("no assertion fails");
    let good = client(address, Some(authority.trust()), &Secret::default());
    let _ticket = soon(good.acquire("k", OPTIONS)).await.expect("it is free");
}

/// N06: a client inside TLS sees at once that the server is not, and its acquire ends at its own deadline.
#[tokio::test]
async fn a_client_inside_tls_sees_a_server_that_is_not() {
    let running = serve(None, &Secret::default()).await;
    let client = client(running.address, Some(Authority::new("any").trust()), &Secret::default());
    let error = soon(client.acquire("k", OPTIONS.wait(Duration::from_secs(1)))).await.expect_err("no TLS");
    assert_eq!(error, AcquireError::Protocol(ProtocolError::Tls(TlsError::NotTls)));
    assert!(error.is_certain());
    assert_eq!(client.last_failure(), Some(Failure::Tls(TlsError::NotTls)));
}

/// N06: a ClientHello at the plain port ends as what it is there, a wrong first line or an end at 10 s.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tls_at_a_plain_port_is_told_so_in_plain_text() {
    let running = serve(None, &Secret::default()).await;
    let address = running.address;
    let heard = spawn_blocking(move || {
        let mut stream = tcp(address);
        stream
            .write_all(&[b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03".as_slice(), &[7; 506]].concat())
            .unwrap();
        rest(&mut stream)
    });
    let heard = String::from_utf8(heard.await.expect("it ends")).expect("plain text");
    let (challenge, fault) = heard.split_once('\n').expect("a challenge");
    assert!(challenge.starts_with("sha256 "), "{challenge}");
    assert_eq!(fault, "Eline_too_long\n");
}

/// N12: those inside the TLS handshake, and those behind it who are not authenticated, don't hold up the end;
/// whoever waits is told, inside TLS.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_shutdown_waits_for_nobody_inside_a_handshake() {
    let authority = Authority::new("own");
    let running = with_tls(&authority).await;
    let address = running.address;
    let (silent, half, waiting) = spawn_blocking(move || peers(address, &authority)).await.expect("peers");
    let began = Instant::now();
    running.shutdown.shut_down();
    running.serving.await.expect("no panic").expect("a good end");
    // 5 s for flushing and 1 s for lingering, and the machine may be busy.
    assert!(began.elapsed() < Duration::from_secs(8), "{:?}", began.elapsed());
    let heard = waiting.join().expect("the waiter hears to the end");
    assert_eq!(heard, b"Enot_active\n");
    drop((silent, half));
}

type Waiting = std::thread::JoinHandle<Vec<u8>>;

/// Silent ones, one in the middle of its handshake, and an authenticated one that listens.
fn peers(
    address: SocketAddr,
    authority: &Authority,
) -> (Vec<std::net::TcpStream>, std::net::TcpStream, Waiting) {
    let silent: Vec<_> = (0..10).map(|_| tcp(address)).collect();
    let mut half = tcp(address);
    half.write_all(b"\x16\x03\x01\x02\x00\x01").expect("it is open");
    let mut behind = BufReader::new(peer(address, authority));
    let mut challenge = String::new();
    behind.read_line(&mut challenge).expect("a challenge");
    assert!(challenge.starts_with("sha256 "), "{challenge}");
    behind.get_mut().write_all(format!("{}\n", "0".repeat(43)).as_bytes()).expect("it is open");
    // A release of what is not held shows that it is authenticated.
    behind.get_mut().write_all(b"R\0\0\0\0\0\0\0\x01k\n").expect("it is open");
    let mut reply = [0; 11];
    behind.read_exact(&mut reply).expect("a reply");
    assert_eq!(reply[0], b'N');
    let waiting = std::thread::spawn(move || {
        let mut heard = Vec::new();
        behind.read_to_end(&mut heard).expect("close_notify");
        heard
    });
    (silent, half, waiting)
}
