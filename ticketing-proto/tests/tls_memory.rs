//! What a connection with TLS costs a server in memory (PF-5).

#[path = "support/certificates.rs"]
#[expect(dead_code, reason = "other tests need more of it")]
mod certificates;
#[path = "support/counting.rs"]
#[expect(dead_code, reason = "other tests need more of it")]
mod counting;
#[path = "tls/rig.rs"]
#[expect(dead_code, reason = "other tests need more of it")]
mod rig;

use counting::{assert_as_recorded, live_bytes};
use rig::{START, World, connect, exchange, release, server};
use ticketing_proto::limits::READ_BUFFER_LEN;
use ticketing_proto::server::Server;
use ticketing_proto::tls::rustls::SupportedProtocolVersion;
use ticketing_proto::tls::rustls::crypto::ring::default_provider;
use ticketing_proto::tls::rustls::version::{TLS12, TLS13};

const CONNECTIONS: usize = 100;

/// Bytes per connection, all in but the peer and what the server remembers of sessions: right after the handshake,
/// and after a burst of records of `record` bytes that came in reads.
fn cost(versions: &[&'static SupportedProtocolVersion], record: usize) -> [f64; 2] {
    let world = World::new();
    let mut server = server(Some(world.server_tls()));
    let config = world.client_config_with(default_provider(), versions);
    // What is made once, such as the room for sessions, is not a connection's.
    let (first, _) = connect(&mut server, START, &config);
    server.handle_disconnected(START, first);

    let measure = |server: &mut Server, with_burst: bool| {
        let mut ids = Vec::with_capacity(CONNECTIONS);
        let mut total = 0;
        for _ in 0..CONNECTIONS {
            let before = live_bytes();
            let (id, mut peer) = connect(server, START, &config);
            if with_burst {
                let one = release(1, "lock-of-16-bytes");
                let requests = one.repeat(record / one.len());
                let sealed = peer.seal(&requests);
                for piece in sealed.chunks(READ_BUFFER_LEN) {
                    server.handle_data(START, id, piece);
                }
                exchange(server, START, id, &mut peer);
            }
            let with_peer = live_bytes() - before;
            let before_drop = live_bytes();
            drop(peer);
            total += with_peer - (before_drop - live_bytes());
            ids.push(id);
        }
        for id in ids {
            server.handle_disconnected(START, id);
        }
        total as f64 / CONNECTIONS as f64
    };
    [measure(&mut server, false), measure(&mut server, true)]
}

#[test]
fn an_idle_connection_costs_at_most_20_kib_also_after_a_burst() {
    for (versions, record, recorded) in [
        (&[&TLS13], 4000, [8563.1, 8698.5]),
        (&[&TLS13], 16_000, [8563.1, 8698.5]),
        (&[&TLS12], 16_000, [8381.1, 8594.5]),
    ] {
        let costs = cost(versions, record);
        assert!(costs.iter().all(|&cost| cost <= 20.0 * 1024.0), "{costs:?}");
        let version = versions[0].version;
        assert_as_recorded(&format!("an idle connection of {version:?}"), costs[0], recorded[0]);
        assert_as_recorded(&format!("the same after a record of {record} bytes"), costs[1], recorded[1]);
    }
}
