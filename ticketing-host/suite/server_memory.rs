//! What connections cost: this process counts what it allocates.

#[expect(dead_code, reason = "the bytes are counted here, so that most of it allocates too much")]
#[path = "server/support.rs"]
mod support;

use std::alloc::{GlobalAlloc, Layout, System};
use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use support::{Client, Running, Said, config, limited, response};
use ticketing_proto::wire::auth::Secret;

struct Counting;

static LIVE: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);
/// The tests take turns: each counts all that the process allocates.
static TURN: Mutex<()> = Mutex::new(());

#[global_allocator]
static ALLOCATOR: Counting = Counting;

// SAFETY: everything is left to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let live = LIVE.fetch_add(layout.size(), Ordering::Relaxed) + layout.size();
        PEAK.fetch_max(live, Ordering::Relaxed);
        // SAFETY: the caller keeps the contract, which is the same one.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        LIVE.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: as above.
        unsafe { System.dealloc(pointer, layout) }
    }
}

fn turn() -> MutexGuard<'static, ()> {
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

fn live() -> usize {
    LIVE.load(Ordering::Relaxed)
}

const CONNECTIONS: usize = 1000;

/// Bytes for each of many connections that a server holds. The clients allocate nothing.
pub(crate) fn cost(address: SocketAddr, talk: fn(&mut TcpStream)) -> usize {
    let mut clients = Vec::with_capacity(CONNECTIONS);
    // What the first connections bring about stays out of it.
    let mut first: [TcpStream; 2] = std::array::from_fn(|_| TcpStream::connect(address).unwrap());
    first.iter_mut().for_each(talk);
    let before = live();
    for _ in 0..CONNECTIONS {
        let mut client = TcpStream::connect(address).unwrap();
        talk(&mut client);
        clients.push(client);
    }
    (live() - before) / CONNECTIONS
}

/// The handshake, 64 acquires of one lock in one write, and all of their replies.
fn burst(client: &mut TcpStream) {
    let mut challenge = [0; 51];
    client.read_exact(&mut challenge).unwrap();
    let mut output = [0; 44 + 64 * 16];
    output[..44].copy_from_slice(&response(&Secret::default(), &challenge[7..50]));
    for acquire in output[44..].chunks_exact_mut(16) {
        acquire.copy_from_slice(b"A\0\x01\0\0\0\0\0\0\0\x01hold\n");
    }
    client.write_all(&output).unwrap();
    // `T`, the owner, the key, LF; for the first one of all `A`, with a token.
    let mut replies = [0; 64 * 14];
    client.read_exact(&mut replies).unwrap();
    if replies[0] == b'A' {
        client.read_exact(&mut [0; 8]).unwrap();
    }
}

/// PF-5
#[test]
fn a_quiet_connection_costs_at_most_1_kib_beyond_the_runtimes_own() {
    let _turn = turn();
    let own = crate::runtimes_own();
    let server = Running::with(config());
    let mut holder = server.client();
    holder.take(0, 250, 1, "hold");
    let all = cost(server.address(), burst);
    println!("a quiet connection: {all} bytes, of which the runtime's own are {own}");
    assert!(all - own <= 1024, "{all} bytes, of which the runtime's own are {own}");
}

/// Writes 100 MB of one byte, or as much as the server takes.
fn flood(client: &Client, byte: u8) -> thread::JoinHandle<()> {
    let mut writer = client.stream.try_clone().unwrap();
    thread::spawn(move || {
        let bytes = [byte; 10_000];
        for _ in 0..10_000 {
            if writer.write_all(&bytes).is_err() {
                return;
            }
        }
    })
}

/// How far memory rises above what it was meanwhile.
fn rise<R>(of: impl FnOnce() -> R) -> (usize, R) {
    let before = live();
    PEAK.store(before, Ordering::Relaxed);
    let result = of();
    (PEAK.load(Ordering::Relaxed) - before, result)
}

/// F04, F09, A08
#[test]
fn memory_stays_flat_whatever_comes() {
    let _turn = turn();
    let server = Running::with(config());
    let mut client = server.client();
    client.sentinel("in");

    let (keep_alives, ()) = rise(|| {
        flood(&client, b'\n').join().unwrap();
        client.sentinel("behind 100 MB of keep-alives");
    });
    assert!(keep_alives < 200_000, "{keep_alives} bytes");

    client.send(b"A\0\x05\0\0\0\0\0\0\0\x01");
    let end_of_flood = |mut peer: Client| {
        let (rise, said) = rise(|| {
            let flooding = flood(&peer, b'x');
            let said = peer.hear_all();
            drop(peer);
            flooding.join().unwrap();
            said
        });
        assert_eq!(said[0], Said::Error("line_too_long".to_owned()));
        assert!(matches!(said[1..], [Said::End | Said::Reset]), "{said:?}");
        assert!(rise < 200_000, "{rise} bytes");
    };
    end_of_flood(client);
    let mut stranger = server.stranger();
    stranger.challenge();
    end_of_flood(stranger);
}

/// R01, `AD-5`
#[test]
fn replies_that_nobody_reads_take_a_bounded_space() {
    let _turn = turn();
    let server = Running::with(limited(|limits| limits.acquires_per_connection = u32::MAX));
    let mut holder = server.client();
    holder.take(0, 250, 1, "hold");
    let frames = b"A\0\x01\0\0\0\0\0\0\0\x01hold\n".repeat(600);
    let mut deaf = server.client();
    deaf.sentinel("in");
    let (rise, ()) = rise(|| {
        deaf.stream.set_write_timeout(Some(Duration::from_secs(1))).unwrap();
        // Much more than what the system keeps for both sides.
        let refused = (0..10_000).find_map(|_| deaf.stream.write_all(&frames).err());
        assert_eq!(refused.expect("the server goes on reading").kind(), io::ErrorKind::WouldBlock);
    });
    assert!(rise < 500_000, "{rise} bytes");
}
