//! How long a request waits for its answer while other connections are loud, deaf, or many, against one on a server
//! with nothing else to do, in one run: the same for each adapter.
//!
//! What counts is the ratio of the medians: the slowest of a hundred show what else the machine had to do.

use std::io::{self, Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::mpsc::{Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use socket2::{Domain, Socket, Type};

const REQUESTS: usize = 500;
const DEAF: usize = 50;
const BURST: usize = 3000;

/// Any response will do for a server without a token; a request is right behind it.
const HELLO: &[u8] = b"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\nR\0\0\0\0\0\0\0\x01k\n";
const CHALLENGE_LEN: usize = 51;
const RELEASE: &[u8] = b"R\0\0\0\0\0\0\0\x01k\n";
/// An acquire that is refused at once while the lock is held.
const TRY: &[u8] = b"A\0\x01\0\0\0\0\0\0\0\x01hot\n";
const HOLD: &[u8] = b"A\0\xfa\0\0\0\0\0\0\0\x02hot\n";

/// A server that serves for ever, after it has told where it listens.
pub(crate) type Serve = fn(&Sender<SocketAddr>) -> io::Result<()>;

pub(crate) fn compare(serve: Serve) -> io::Result<()> {
    let (tell, told) = channel();
    thread::spawn(move || serve(&tell).expect("the server serves"));
    let address = told.recv().expect("the server listens");

    let mut holder = connect(address)?;
    holder.write_all(HOLD)?;
    holder.read_exact(&mut [0; 1 + 8 + 8 + 4])?;
    let mut quiet = connect(address)?;
    println!("                    |  median us |     p99 us | median ratio");
    let alone = requests(&mut quiet)?;
    print("alone", &alone, &alone);
    let loud = [vec![b'\n'; 1 << 16], TRY.repeat(4000)];
    let loud = loud.map(|bytes| connect(address).map(|stream| be_loud(stream, bytes)));
    print("2 loud connections", &requests(&mut quiet)?, &alone);
    for stream in loud {
        stream?.shutdown(Shutdown::Both)?;
    }
    let deaf = (0..DEAF).map(|_| be_deaf(connect(address)?)).collect::<io::Result<Vec<_>>>()?;
    print("50 deaf connections", &requests(&mut quiet)?, &alone);
    drop(deaf);

    let one_by_one = (0..100).map(|_| burst(address, 1)).collect::<io::Result<Vec<_>>>()?.concat();
    print("a connect alone", &one_by_one, &one_by_one);
    print("3000 connects", &burst(address, BURST)?, &one_by_one);
    Ok(())
}

fn print(what: &str, times: &[Duration], alone: &[Duration]) {
    let [times, alone] = [times, alone].map(|times| {
        let mut times: Vec<f64> = times.iter().map(|time| time.as_secs_f64() * 1e6).collect();
        times.sort_by(f64::total_cmp);
        times
    });
    let (median, usual) = (times[times.len() / 2], alone[alone.len() / 2]);
    println!("{what:19} | {median:10.0} | {:10.0} | {:.1}", times[times.len() * 99 / 100], median / usual);
}

fn connect(address: SocketAddr) -> io::Result<TcpStream> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_nodelay(true)?;
    stream.write_all(HELLO)?;
    stream.read_exact(&mut [0; CHALLENGE_LEN + RELEASE.len()])?;
    Ok(stream)
}

fn requests(stream: &mut TcpStream) -> io::Result<Vec<Duration>> {
    let request = |_| {
        thread::sleep(Duration::from_millis(1));
        let start = Instant::now();
        stream.write_all(RELEASE)?;
        stream.read_exact(&mut [0; RELEASE.len()])?;
        Ok(start.elapsed())
    };
    (0..REQUESTS).map(request).collect()
}

/// Writes the same again and again, and reads what is said, until the connection is shut down.
fn be_loud(stream: TcpStream, bytes: Vec<u8>) -> TcpStream {
    let [mut reader, mut writer] = [(); 2].map(|()| stream.try_clone().expect("a descriptor"));
    thread::spawn(move || while writer.write_all(&bytes).is_ok() {});
    thread::spawn(move || {
        let mut space = vec![0; 1 << 16];
        while reader.read(&mut space).is_ok_and(|len| len > 0) {}
    });
    stream
}

/// Writes until nothing more is taken, and reads nothing.
fn be_deaf(mut stream: TcpStream) -> io::Result<TcpStream> {
    let frames = TRY.repeat(10_000);
    stream.set_write_timeout(Some(Duration::from_millis(50)))?;
    while stream.write_all(&frames).is_ok() {}
    Ok(stream)
}

/// Connects so often at once. How long after its connect each had its answer.
fn burst(address: SocketAddr, count: usize) -> io::Result<Vec<Duration>> {
    let begin = |_| {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
        socket.set_nonblocking(true)?;
        let start = Instant::now();
        // In progress.
        let _ = socket.connect(&address.into());
        socket.set_nonblocking(false)?;
        Ok((start, TcpStream::from(socket)))
    };
    let mut begun = (0..count).map(begin).collect::<io::Result<Vec<_>>>()?;
    for (_, stream) in &mut begun {
        stream.write_all(HELLO)?;
    }
    let answered = |(start, mut stream): (Instant, TcpStream)| {
        stream.read_exact(&mut [0; CHALLENGE_LEN + RELEASE.len()])?;
        Ok(start.elapsed())
    };
    begun.into_iter().map(answered).collect()
}
