//! What loud and deaf connections do to the others, on one thread.

#[expect(dead_code, reason = "only some of it is needed here")]
#[path = "server/support.rs"]
mod support;

use std::io::{Read as _, Write as _};
use std::net::Shutdown;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use support::{Client, Running, Said, acquire, release};

/// Writes `bytes` again and again until `is_over`, and reads what is said.
fn loud(server: &Running, bytes: Vec<u8>, is_over: &Arc<AtomicBool>) -> Vec<JoinHandle<()>> {
    let mut client = server.client();
    client.sentinel("in");
    let (mut reader, mut writer) = (client.stream.try_clone().unwrap(), client.stream);
    let is_over = Arc::clone(is_over);
    let write = move || {
        while !is_over.load(Ordering::Relaxed) {
            writer.write_all(&bytes).unwrap();
        }
        writer.shutdown(Shutdown::Both).unwrap();
    };
    let read = move || {
        let mut space = vec![0; 64 * 1024];
        while reader.read(&mut space).is_ok_and(|len| len > 0) {}
    };
    vec![thread::spawn(write), thread::spawn(read)]
}

/// The time within which 99 % of some hundred requests are answered, or of as many as are in some seconds.
fn p99(client: &mut Client) -> Duration {
    let mut times = Vec::new();
    let first = Instant::now();
    while times.len() < 200 && first.elapsed() < Duration::from_secs(5) {
        let start = Instant::now();
        client.send(&release(1, "measured"));
        assert_eq!(client.hear(), Said::NotHeld { token: 1, key: "measured".to_owned() });
        times.push(start.elapsed());
        thread::sleep(Duration::from_millis(1));
    }
    times.sort();
    times[times.len() * 99 / 100]
}

/// Starvation delays every try; a busy machine only some.
fn is_fast(client: &mut Client) -> bool {
    (0..3).any(|_| p99(client) < Duration::from_millis(50))
}

/// R03, L18, EX-2
#[test]
fn loud_connections_starve_nobody() {
    let server = Running::start();
    let is_over = Arc::new(AtomicBool::new(false));
    let frames = (1..=2000).flat_map(|owner| acquire(0, 1, owner, "hot")).collect();
    let mut threads = loud(&server, vec![b'\n'; 64 * 1024], &is_over);
    threads.extend(loud(&server, frames, &is_over));

    let (mut holder, mut waiter) = (server.client(), server.client());
    let late: Vec<Duration> = (1..=2)
        .map(|round| {
            holder.take(0, 1, round, "lease");
            let start = Instant::now();
            waiter.ask(60, 1, round, "lease");
            let token = waiter.granted(round, "lease");
            let late = start.elapsed().saturating_sub(Duration::from_millis(1000));
            waiter.release(token, "lease");
            late
        })
        .collect();
    assert!(is_fast(&mut server.client()), "p99 is above 50 ms");
    assert!(late.iter().min().unwrap() < &Duration::from_millis(250), "{late:?}");
    is_over.store(true, Ordering::Relaxed);
    threads.into_iter().for_each(|thread| thread.join().unwrap());
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
    good.sentinel("in");
    assert!(is_fast(&mut good), "p99 is above 50 ms");
}

/// N17: both directions are full, on many connections.
#[test]
fn saturated_connections_do_not_stall() {
    const CONNECTIONS: usize = 50;
    let server = Running::start();
    let is_over = AtomicBool::new(false);
    let clients: Vec<Client> = (0..CONNECTIONS).map(|_| server.client()).collect();
    thread::scope(|scope| {
        let is_over = &is_over;
        let mut reading = Vec::new();
        for mut client in clients {
            client.sentinel("in");
            let (mut reader, mut writer) = (client.stream.try_clone().unwrap(), client.stream);
            scope.spawn(move || {
                let frames = release(1, "saturated").repeat(100);
                // It fails when its reader is done.
                while writer.write_all(&frames).is_ok() {}
            });
            reading.push(scope.spawn(move || {
                let mut space = vec![0; 16 * 1024];
                let (mut last, mut longest) = (Instant::now(), Duration::ZERO);
                while !is_over.load(Ordering::Relaxed) {
                    assert_ne!(reader.read(&mut space).unwrap(), 0);
                    longest = longest.max(last.elapsed());
                    last = Instant::now();
                }
                reader.shutdown(Shutdown::Both).unwrap();
                longest
            }));
        }
        thread::sleep(Duration::from_secs(3));
        is_over.store(true, Ordering::Relaxed);
        for reading in reading {
            let longest = reading.join().unwrap();
            assert!(longest < Duration::from_secs(1), "nothing came for {longest:?}");
        }
    });
}
