//! Operations a second against the ceiling of the same runtime, in one run: the same load for each adapter.
//!
//! The ceiling is a server that cuts the same frames and answers with frames of the same sizes, and knows no locks.
//! Both run on a thread of their own, the clients on another one. The two take turns, and the medians are compared:
//! what counts is the ratio, for the numbers move from machine to machine.

#[path = "load.rs"]
mod load;

use std::fs;
use std::io;
use std::net::SocketAddr;
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

use ticketing_proto::wire::auth;
use tokio::net::TcpStream;
use tokio::runtime::{Builder, Runtime};

/// Connections, and operations in flight on each.
const SHAPES: [(usize, usize); 5] = [(1, 1), (1, 64), (64, 1), (64, 64), (1, 512)];
const HEADER_OF_A: usize = 10;
const HEADER_OF_R: usize = 8;

/// A server that serves for ever, after it has told where it listens.
pub(crate) type Serve = fn(&Sender<SocketAddr>) -> io::Result<()>;

/// Arguments: how many rounds, how many seconds each, and which of the shapes, as `64x1`.
pub(crate) fn compare(ours: Serve, ceiling: Serve) {
    let (rounds, span) = load::rounds();
    let (ours, ceiling) = (start("ours", ours), start("ceiling", ceiling));
    println!("  C x W |   ceiling |      ours | op/s ratio | CPU ratio | us/request of ours");
    for (connections, depth) in load::wanted_shapes(&SHAPES) {
        let mut measured = [Vec::new(), Vec::new()];
        for _ in 0..rounds {
            for (server, measured) in [&ceiling, &ours].into_iter().zip(&mut measured) {
                measured.push(measure(server, connections, depth, span));
            }
        }
        let [(ceiling, ceiling_cpu), (ours, ours_cpu)] = measured.map(median);
        println!(
            "{connections:3} x {depth:3} | {ceiling:9.0} | {ours:9.0} | {:10.2} | {:9.2} | {ours_cpu:.2}",
            ours / ceiling,
            ours_cpu / ceiling_cpu,
        );
    }
}

/// A server in a thread of its own.
struct Measured {
    name: &'static str,
    address: SocketAddr,
}

fn start(name: &'static str, serve: Serve) -> Measured {
    let (tell, told) = channel();
    let run = move || serve(&tell).expect("the server serves");
    std::thread::Builder::new().name(name.to_owned()).spawn(run).expect("a thread");
    Measured { name, address: told.recv().expect("the server listens") }
}

fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().expect("a runtime")
}

/// The challenge of a ceiling, which takes any response.
pub(crate) fn challenge() -> Vec<u8> {
    let mut challenge = Vec::new();
    auth::encode_challenge(&[b'x'; auth::TEXT_LEN], &mut challenge);
    challenge
}

/// Answers all whole frames as a ceiling does, and gives how many bytes they have.
pub(crate) fn answer_frames(input: &[u8], output: &mut Vec<u8>) -> usize {
    let mut used = 0;
    loop {
        let frame = &input[used..];
        let header = match frame.first() {
            Some(b'A') => HEADER_OF_A,
            Some(_) => HEADER_OF_R,
            None => return used,
        };
        let Some(body) = frame.get(1 + header..) else { return used };
        let Some(lf) = body.iter().position(|&byte| byte == b'\n') else { return used };
        output.push(frame[0]);
        output.extend_from_slice(&1u64.to_be_bytes());
        if header == HEADER_OF_A {
            output.extend_from_slice(&frame[3..11]);
        }
        output.extend_from_slice(&body[..=lf]);
        used += 1 + header + lf + 1;
    }
}

/// Operations a second, and the server's CPU time for a request in microseconds.
fn measure(server: &Measured, connections: usize, depth: usize, span: Duration) -> (f64, f64) {
    runtime().block_on(async {
        let mut links = Vec::new();
        for _ in 0..connections {
            links.push(connect(server.address).await.expect("a connection"));
        }
        let cpu = cpu_time(server.name);
        let (operations, elapsed) = load::drive(links, depth, span).await;
        let cpu = cpu_time(server.name) - cpu;
        let operations = operations as f64;
        (operations / elapsed.as_secs_f64(), cpu.as_secs_f64() * 1e6 / (2.0 * operations))
    })
}

async fn connect(address: SocketAddr) -> io::Result<TcpStream> {
    let stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    load::authenticated(stream).await
}

/// How long the thread with this name was on a processor; zero where the system does not say.
fn cpu_time(thread: &str) -> Duration {
    let read = || {
        let threads = fs::read_dir("/proc/self/task").ok()?;
        let paths = threads.filter_map(|entry| Some(entry.ok()?.path()));
        let mut ours = paths
            .filter(|path| fs::read_to_string(path.join("comm")).is_ok_and(|name| name.trim_end() == thread));
        let schedstat = fs::read_to_string(ours.next()?.join("schedstat")).ok()?;
        schedstat.split(' ').next()?.parse().ok().map(Duration::from_nanos)
    };
    read().unwrap_or_default()
}

/// Of each of the two.
fn median(mut measured: Vec<(f64, f64)>) -> (f64, f64) {
    let middle = measured.len() / 2;
    measured.sort_by(|one, other| one.0.total_cmp(&other.0));
    let rate = measured[middle].0;
    measured.sort_by(|one, other| one.1.total_cmp(&other.1));
    (rate, measured[middle].1)
}
