//! The generator of load that all measurements share: operations in a closed loop, on one thread.
//!
//! One operation is an acquire and its release of a lock that nobody else wants, with a key of 16 bytes. `C x W` stands
//! for C connections with W operations in flight on each.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use ticketing_proto::wire::auth::{self, Secret};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

const KEY_LEN: usize = 16;
const LEN_OF_A: usize = 1 + 16 + KEY_LEN + 1;
const LEN_OF_R: usize = 1 + 8 + KEY_LEN + 1;

/// A connection to a server.
pub(crate) trait Link: Send + 'static {
    /// All of these bytes.
    fn send(&mut self, bytes: &[u8]) -> impl Future<Output = io::Result<()>> + Send;

    /// Some bytes; none at the end of the stream.
    fn receive(&mut self, space: &mut [u8]) -> impl Future<Output = io::Result<usize>> + Send;
}

impl Link for TcpStream {
    async fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.write_all(bytes).await
    }

    async fn receive(&mut self, space: &mut [u8]) -> io::Result<usize> {
        self.read(space).await
    }
}

/// What was asked for on the command line: which of the shapes, as `64x1`, all by default.
pub(crate) fn wanted_shapes(of: &[(usize, usize)]) -> Vec<(usize, usize)> {
    let wanted: Vec<String> = std::env::args().skip(1).filter(|argument| is_shape(argument)).collect();
    let is_wanted = |(connections, depth): &(usize, usize)| {
        wanted.is_empty() || wanted.contains(&format!("{connections}x{depth}"))
    };
    of.iter().copied().filter(is_wanted).collect()
}

fn is_shape(argument: &str) -> bool {
    argument
        .split_once('x')
        .is_some_and(|(one, other)| one.parse::<usize>().is_ok() && other.parse::<usize>().is_ok())
}

/// What was asked for on the command line: how many rounds, and how long each is. Without `--bench` it is a test that
/// the measurement works.
pub(crate) fn rounds() -> (usize, Duration) {
    let is_bench = std::env::args().any(|argument| argument == "--bench");
    let mut numbers = std::env::args().skip(1).filter_map(|argument| argument.parse::<f64>().ok());
    let rounds = numbers.next().unwrap_or(if is_bench { 5.0 } else { 1.0 }) as usize;
    let span = Duration::from_secs_f64(numbers.next().unwrap_or(if is_bench { 1.0 } else { 0.05 }));
    (rounds.max(1), span)
}

/// Keeps these connections busy for this long. Gives how many operations have ended, and in which time.
pub(crate) async fn drive(links: Vec<impl Link>, depth: usize, span: Duration) -> (u64, Duration) {
    let is_over = Arc::new(AtomicBool::new(false));
    let mut clients = JoinSet::new();
    for (client, link) in links.into_iter().enumerate() {
        clients.spawn(operate(link, client, depth, Arc::clone(&is_over)));
    }
    let start = Instant::now();
    tokio::time::sleep(span).await;
    is_over.store(true, Ordering::Relaxed);
    let counts = clients.join_all().await;
    (counts.into_iter().map(|count| count.expect("a whole run")).sum(), start.elapsed())
}

/// Comes in without a token.
pub(crate) async fn authenticated<L: Link>(mut link: L) -> io::Result<L> {
    let mut challenge = [0; auth::ALGORITHM.len() + 1 + auth::TEXT_LEN + 1];
    let mut len = 0;
    while len < challenge.len() {
        match link.receive(&mut challenge[len..]).await? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            more => len += more,
        }
    }
    let nonce = &challenge[auth::ALGORITHM.len() + 1..len - 1];
    link.send(&[&auth::respond(&Secret::default(), nonce)[..], b"\n"].concat()).await?;
    Ok(link)
}

/// Keeps `depth` operations in flight until all is over. Gives how many have ended.
async fn operate(
    mut link: impl Link,
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
        link.send(&output).await?;
        output.clear();
        if in_flight == 0 {
            return Ok(operations);
        }
        let end = start + link.receive(&mut input[start..]).await?;
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
