//! What TLS costs a server, in memory: `cargo bench -p ticketing-proto --bench tls`.
//!
//! Requests of one connection, as many in flight as a batch has, each an acquire or its release; the peer's own part
//! is not counted. The goal over sockets is 0.6 of what plain text does at 1 × 64 (PF-9).

use std::hint::black_box;
use std::time::{Duration, Instant};

use ticketing_proto::tls::rustls::SupportedProtocolVersion;
use ticketing_proto::tls::rustls::crypto::ring::default_provider;
use ticketing_proto::tls::rustls::version::{TLS12, TLS13};

#[path = "../tests/support/certificates.rs"]
#[expect(dead_code, reason = "tests need more of it")]
mod certificates;
#[path = "../tests/tls/rig.rs"]
#[expect(dead_code, reason = "tests need more of it")]
mod rig;

use rig::{Peer, START, World, acquire, connect, exchange, release, server};

const BATCHES: [usize; 3] = [1, 16, 64];
const REQUESTS: usize = 64 * 1000;
const HANDSHAKES: usize = 300;

/// The middle time of one request, the reply's ciphertext included.
fn request(world: &World, versions: &[&'static SupportedProtocolVersion], batch: usize) -> Duration {
    let mut server = server((!versions.is_empty()).then(|| world.server_tls()));
    let (id, mut peer) = if versions.is_empty() {
        let id = server.accept(START, [7; 32]).expect("room");
        let mut challenge = Vec::new();
        assert!(server.poll_transmit(id, &mut challenge));
        server.handle_transmitted(START, id, challenge.len());
        server.handle_data(START, id, &rig::response_to(&challenge));
        (id, None)
    } else {
        let config = world.client_config_with(default_provider(), versions);
        let (id, peer) = connect(&mut server, START, &config);
        (id, Some(peer))
    };
    let mut times = Vec::new();
    let mut out = Vec::with_capacity(1 << 16);
    let mut token = 1;
    for _ in 0..REQUESTS / (2 * batch) {
        let keys = (0..batch).map(|number| format!("lock-of-16-{number:05}"));
        let (mut acquires, mut releases) = (Vec::new(), Vec::new());
        for (owner, key) in (1..).zip(keys) {
            acquires.extend(acquire(owner, 0, &key));
            releases.extend(release(token, &key));
            token += 1;
        }
        for bytes in [acquires, releases] {
            let bytes = peer.as_mut().map_or(bytes.clone(), |peer| peer.seal(&bytes));
            let start = Instant::now();
            server.handle_data(START, id, &bytes);
            out.clear();
            assert!(server.poll_transmit(id, &mut out));
            server.handle_transmitted(START, id, out.len());
            while server.poll_event().is_some() {}
            times.push(start.elapsed());
            if let Some(peer) = &mut peer {
                black_box(peer.input(&out).expect("good TLS"));
            }
        }
    }
    assert_eq!(server.usage().keys.used, 0, "all was granted and released");
    middle(times) / batch as u32
}

fn middle(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}

/// The middle time of a server's part of both handshakes: full ones, and resumed ones.
fn handshakes(world: &World) -> [Duration; 2] {
    let mut server = server(Some(world.server_tls()));
    let known = world.client_config();
    connect(&mut server, START, &known);
    let mut measure = |is_known: bool| {
        let mut times = Vec::new();
        for _ in 0..HANDSHAKES {
            let config = if is_known { known.clone() } else { world.client_config() };
            let mut peer = Peer::client(&config);
            let hello = peer.output();
            let start = Instant::now();
            let id = server.accept(START, [7; 32]).expect("room");
            server.handle_data(START, id, &hello);
            let mut flight = Vec::new();
            assert!(server.poll_transmit(id, &mut flight));
            server.handle_transmitted(START, id, flight.len());
            let first = start.elapsed();
            peer.input(&flight).expect("good TLS");
            let finished = peer.output();
            let start = Instant::now();
            server.handle_data(START, id, &finished);
            times.push(first + start.elapsed());
            exchange(&mut server, START, id, &mut peer);
            server.handle_disconnected(START, id);
            while server.poll_event().is_some() {}
        }
        middle(times)
    };
    [measure(false), measure(true)]
}

fn main() {
    let world = World::new();
    for batch in BATCHES {
        let [plain, new, old] =
            [&[][..], &[&TLS13], &[&TLS12]].map(|versions| request(&world, versions, batch));
        println!(
            "a request, {batch:>2} in a batch:  plain {plain:>8.0?}  TLS 1.3 {new:>8.0?}  TLS 1.2 {old:>8.0?}"
        );
    }
    let [full, resumed] = handshakes(&world);
    println!("a handshake, ECDSA P-256:  full {full:.0?}  resumed {resumed:.0?}");
}
