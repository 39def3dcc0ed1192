//! What loud and deaf connections do to the others, on one thread.

#[expect(dead_code, reason = "only some of it is needed here")]
#[path = "server/support.rs"]
mod support;

use std::io::{Read as _, Write as _};
use std::net::Shutdown;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};

use support::{Client, Running, acquire, release};

/// A connection that writes the same bytes again and again, and reads what is said.
struct Loud {
    is_over: Arc<AtomicBool>,
    /// How often it has written them.
    written: Arc<AtomicUsize>,
    threads: [JoinHandle<()>; 2],
}

impl Loud {
    fn start(server: &Running, bytes: Vec<u8>) -> Self {
        let mut client = server.client();
        client.sentinel("in");
        let (mut reader, mut writer) = (client.stream.try_clone().unwrap(), client.stream);
        let (is_over, written) = (Arc::<AtomicBool>::default(), Arc::<AtomicUsize>::default());
        let (told, count) = (Arc::clone(&is_over), Arc::clone(&written));
        let write = move || {
            while !told.load(Ordering::Relaxed) {
                writer.write_all(&bytes).unwrap();
                count.fetch_add(1, Ordering::Relaxed);
            }
            writer.shutdown(Shutdown::Both).unwrap();
        };
        let read = move || {
            let mut space = vec![0; 64 * 1024];
            while reader.read(&mut space).is_ok_and(|len| len > 0) {}
        };
        Self { is_over, written, threads: [thread::spawn(write), thread::spawn(read)] }
    }

    fn end(self) {
        self.is_over.store(true, Ordering::Relaxed);
        self.threads.into_iter().for_each(|thread| thread.join().unwrap());
    }
}

/// R03, L18, EX-2
#[test]
fn loud_connections_starve_nobody() {
    let server = Running::start();
    let frames = (1..=2000).flat_map(|owner| acquire(0, 1, owner, "hot")).collect();
    let loud = [vec![b'\n'; 64 * 1024], frames].map(|bytes| Loud::start(&server, bytes));
    let written = || loud.each_ref().map(|one| one.written.load(Ordering::Relaxed));

    // Whoever were starved would never be answered.
    let (mut holder, mut waiter, mut quiet) = (server.client(), server.client(), server.client());
    let before = written();
    for round in 1..=2 {
        holder.take(0, 1, round, "lease");
        waiter.ask(60, 60, round, "lease");
        for _ in 0..50 {
            quiet.sentinel("meanwhile");
        }
        let token = waiter.granted(round, "lease");
        waiter.release(token, "lease");
    }
    let after = written();
    assert!(before.iter().zip(after).all(|(before, after)| *before < after), "{before:?} {after:?}");
    loud.into_iter().for_each(Loud::end);
}

/// R01
#[test]
fn deaf_connections_delay_nobody() {
    let server = Running::start();
    let mut holder = server.client();
    holder.take(0, 250, 1, "hot");
    let frames = acquire(0, 1, 1, "hot").repeat(10_000);
    let deaf: Vec<Client> = (0..50).map(|_| server.client()).collect();
    for client in &deaf {
        client.stream.set_nonblocking(true).unwrap();
        while (&client.stream).write_all(&frames).is_ok() {}
    }
    let mut good = server.client();
    for _ in 0..200 {
        good.sentinel("in");
    }
}

/// N17: both directions are full, on many connections, and each goes on.
#[test]
fn saturated_connections_do_not_stall() {
    const CONNECTIONS: usize = 50;
    const ENOUGH: usize = 200_000;
    let server = Running::start();
    // As many of them as have read enough. All go on until all have.
    let satisfied = AtomicUsize::new(0);
    let clients: Vec<Client> = (0..CONNECTIONS).map(|_| server.client()).collect();
    thread::scope(|scope| {
        let satisfied = &satisfied;
        for mut client in clients {
            client.sentinel("in");
            let (mut reader, mut writer) = (client.stream.try_clone().unwrap(), client.stream);
            scope.spawn(move || {
                let frames = release(1, "saturated").repeat(100);
                // It fails when its reader is done.
                while writer.write_all(&frames).is_ok() {}
            });
            scope.spawn(move || {
                let mut space = vec![0; 16 * 1024];
                let mut read = 0;
                while satisfied.load(Ordering::Relaxed) < CONNECTIONS {
                    let len = reader.read(&mut space).expect("it stalls");
                    assert_ne!(len, 0);
                    if (ENOUGH - len..ENOUGH).contains(&read) {
                        satisfied.fetch_add(1, Ordering::Relaxed);
                    }
                    read += len;
                }
                reader.shutdown(Shutdown::Both).unwrap();
            });
        }
    });
}
