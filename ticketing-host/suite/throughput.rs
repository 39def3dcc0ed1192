//! Operations a second against the ceiling of the same runtime, in one run: the same load for each adapter.
//!
//! One operation is an acquire and its release of a lock that nobody else wants. `C x W` stands for C connections
//! with W operations in flight on each, in a closed loop, with keys of 16 bytes. The ceiling is a server that cuts
//! the same frames and answers with frames of the same sizes, and knows no locks. Both run on a thread of their
//! own, the clients on another one. The two take turns, and the medians are compared: what counts is the ratio,
//! for the numbers move from machine to machine.

use std::fs;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::time::{Duration, Instant};

use ticketing_proto::wire::auth::{self, Secret};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinSet;

const KEY_LEN: usize = 16;
const HEADER_OF_A: usize = 10;
const HEADER_OF_R: usize = 8;
const LEN_OF_A: usize = 1 + 16 + KEY_LEN + 1;
const LEN_OF_R: usize = 1 + 8 + KEY_LEN + 1;

/// Connections, and operations in flight on each.
const SHAPES: [(usize, usize); 5] = [(1, 1), (1, 64), (64, 1), (64, 64), (1, 512)];

/// A server that serves for ever, after it has told where it listens.
pub(crate) type Serve = fn(&Sender<SocketAddr>) -> io::Result<()>;

/// Arguments: how many rounds, how many seconds each, and which of the shapes, as `64x1`.
pub(crate) fn compare(ours: Serve, ceiling: Serve) {
    let is_bench = std::env::args().any(|argument| argument == "--bench");
    let mut numbers = std::env::args().skip(1).filter_map(|argument| argument.parse::<f64>().ok());
    let rounds = numbers.next().unwrap_or(if is_bench { 5.0 } else { 1.0 }) as usize;
    let span = Duration::from_secs_f64(numbers.next().unwrap_or(if is_bench { 1.0 } else { 0.05 }));

    let (ours, ceiling) = (start("ours", ours), start("ceiling", ceiling));
    println!("  C x W |   ceiling |      ours | op/s ratio | CPU ratio | us/request of ours");
    let wanted: Vec<String> = std::env::args().skip(1).filter(|argument| argument.contains('x')).collect();
    for (connections, depth) in SHAPES {
        if !wanted.is_empty() && !wanted.contains(&format!("{connections}x{depth}")) {
            continue;
        }
        let mut measured = [Vec::new(), Vec::new()];
        for _ in 0..rounds.max(1) {
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
        let is_over = Arc::new(AtomicBool::new(false));
        let mut clients = JoinSet::new();
        for client in 0..connections {
            let stream = connect(server.address).await.expect("a connection");
            clients.spawn(operate(stream, client, depth, Arc::clone(&is_over)));
        }
        let (start, cpu) = (Instant::now(), cpu_time(server.name));
        tokio::time::sleep(span).await;
        is_over.store(true, Ordering::Relaxed);
        let counts = clients.join_all().await;
        let (elapsed, cpu) = (start.elapsed().as_secs_f64(), cpu_time(server.name) - cpu);
        let operations = counts.into_iter().map(|count| count.expect("a whole run")).sum::<u64>() as f64;
        (operations / elapsed, cpu.as_secs_f64() * 1e6 / (2.0 * operations))
    })
}

async fn connect(address: SocketAddr) -> io::Result<TcpStream> {
    let mut stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    let mut challenge = vec![0; auth::ALGORITHM.len() + 1 + auth::TEXT_LEN + 1];
    stream.read_exact(&mut challenge).await?;
    let nonce = &challenge[auth::ALGORITHM.len() + 1..challenge.len() - 1];
    let mut response = auth::respond(&Secret::default(), nonce).to_vec();
    response.push(b'\n');
    stream.write_all(&response).await?;
    Ok(stream)
}

/// Keeps `depth` operations in flight until all is over. Gives how many have ended.
async fn operate(
    mut stream: TcpStream,
    client: usize,
    depth: usize,
    is_over: Arc<AtomicBool>,
) -> io::Result<u64> {
    let (mut input, mut start) = (vec![0; 64 * 1024], 0);
    let mut output = Vec::new();
    for slot in 0..depth {
        acquire(slot, &key(client, slot), &mut output);
    }
    let (mut in_flight, mut operations) = (depth, 0);
    loop {
        stream.write_all(&output).await?;
        output.clear();
        if in_flight == 0 {
            return Ok(operations);
        }
        let end = start + stream.read(&mut input[start..]).await?;
        if end == start {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let is_over = is_over.load(Ordering::Relaxed);
        let mut used = 0;
        loop {
            let reply = &input[used..end];
            let (len, header) = if reply.first() == Some(&b'A') { (LEN_OF_A, 16) } else { (LEN_OF_R, 8) };
            if reply.len() < len {
                break;
            }
            used += len;
            let key = &reply[1 + header..len];
            match reply[0] {
                b'A' => release(&reply[1..9], key, &mut output),
                b'R' => {
                    operations += 1;
                    if is_over {
                        in_flight -= 1;
                    } else {
                        let slot = usize::from_str_radix(std::str::from_utf8(&key[8..16]).unwrap_or(""), 16);
                        acquire(slot.map_err(io::Error::other)?, key, &mut output);
                    }
                }
                other => return Err(io::Error::other(format!("a reply {other:#x}"))),
            }
        }
        input.copy_within(used..end, 0);
        start = end - used;
    }
}

/// With its LF.
fn key(client: usize, slot: usize) -> Vec<u8> {
    format!("{client:08x}{slot:08x}\n").into_bytes()
}

fn acquire(slot: usize, key: &[u8], output: &mut Vec<u8>) {
    output.extend_from_slice(&[b'A', 0, 30]);
    output.extend_from_slice(&(slot as u64 + 1).to_be_bytes());
    output.extend_from_slice(key);
}

fn release(token: &[u8], key: &[u8], output: &mut Vec<u8>) {
    output.push(b'R');
    output.extend_from_slice(token);
    output.extend_from_slice(key);
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
