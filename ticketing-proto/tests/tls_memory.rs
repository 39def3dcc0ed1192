//! What a connection with TLS costs a server in memory (PF-5).

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

#[path = "support/certificates.rs"]
#[expect(dead_code, reason = "other tests need more of it")]
mod certificates;
#[path = "tls/rig.rs"]
#[expect(dead_code, reason = "other tests need more of it")]
mod rig;

use rig::{START, World, connect, exchange, release, server};
use ticketing_proto::limits::READ_BUFFER_LEN;
use ticketing_proto::server::Server;
use ticketing_proto::tls::rustls::SupportedProtocolVersion;
use ticketing_proto::tls::rustls::crypto::ring::default_provider;
use ticketing_proto::tls::rustls::version::{TLS12, TLS13};

thread_local! {
    static LIVE: Cell<usize> = const { Cell::new(0) };
}

/// The system's allocator, with a count per thread.
struct Counting;

// SAFETY: every call goes to the system's allocator as it came.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        LIVE.set(LIVE.get().wrapping_add(layout.size()));
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        LIVE.set(LIVE.get().wrapping_sub(layout.size()));
        // SAFETY: the caller's promise; it came from the system's allocator.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const CONNECTIONS: usize = 100;

/// Bytes per connection, all in but the peer and what the server remembers of sessions: right after the handshake,
/// and after a burst of records of `record` bytes that came in reads.
fn cost(versions: &[&'static SupportedProtocolVersion], record: usize) -> [usize; 2] {
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
            let before = LIVE.get();
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
            let with_peer = LIVE.get() - before;
            let before_drop = LIVE.get();
            drop(peer);
            total += with_peer - (before_drop - LIVE.get());
            ids.push(id);
        }
        for id in ids {
            server.handle_disconnected(START, id);
        }
        total / CONNECTIONS
    };
    [measure(&mut server, false), measure(&mut server, true)]
}

#[test]
fn an_idle_connection_costs_at_most_20_kib_also_after_a_burst() {
    for (versions, record) in [(&[&TLS13], 4000), (&[&TLS13], 16_000), (&[&TLS12], 16_000)] {
        let costs = cost(versions, record);
        println!("{costs:?} bytes, idle and after records of {record} bytes");
        assert!(costs.iter().all(|&cost| cost <= 20 * 1024), "{costs:?}");
    }
}
