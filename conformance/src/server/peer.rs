//! One connection of a case to the server.

use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender, SyncSender};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use super::connector::{Ends, Link};
use crate::case::{Stop, Verdict};
use crate::transcript::{Transcript, readable};
use crate::wire::{self, Decoder, Reply, Request};

/// How many reads are kept for a case that does not listen; then nothing more is read.
const READS_AHEAD: usize = 4;

/// What a server says.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Heard {
    Reply(Reply),
    /// The end of the stream.
    End,
    /// The connection was reset.
    Reset,
}

impl std::fmt::Display for Heard {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Reply(reply) => reply.fmt(f),
            Self::End => f.write_str("the end of the stream"),
            Self::Reset => f.write_str("a reset"),
        }
    }
}

/// A connection. Bytes that come are only read as far as the case listens.
pub(crate) struct Peer {
    name: String,
    secret: Vec<u8>,
    patience: Duration,
    has_heard_leader: bool,
    transcript: Transcript,
    to_writer: Sender<Vec<u8>>,
    written: Receiver<io::Result<()>>,
    from_reader: Receiver<Chunk>,
    decoder: Decoder,
    /// How the stream ended, once it has.
    over: Option<Heard>,
    last_at: Instant,
    threads: [JoinHandle<()>; 2],
    ends: Ends,
}

struct Chunk {
    at: Instant,
    read: io::Result<Vec<u8>>,
}

impl Peer {
    pub(super) fn new(
        name: String,
        link: Link,
        transcript: Transcript,
        secret: &[u8],
        patience: Duration,
    ) -> Self {
        let Link { reader, writer, ends } = link;
        let (to_writer, queue) = mpsc::channel();
        let (done, written) = mpsc::channel();
        let (chunks, from_reader) = mpsc::sync_channel(READS_AHEAD);
        let threads = [
            thread::spawn(move || write_all(writer, &queue, &done)),
            thread::spawn(move || read_all(reader, &chunks)),
        ];
        transcript.event(&name, "connected");
        Self {
            name,
            secret: secret.to_vec(),
            patience,
            has_heard_leader: false,
            transcript,
            to_writer,
            written,
            from_reader,
            decoder: Decoder::default(),
            over: None,
            last_at: Instant::now(),
            threads,
            ends,
        }
    }

    /// When the bytes of what was heard last had come.
    pub(crate) const fn heard_at(&self) -> Instant {
        self.last_at
    }

    /// Goes back to an earlier [`heard_at`](Self::heard_at).
    pub(crate) const fn set_heard_at(&mut self, at: Instant) {
        self.last_at = at;
    }

    /// Reads the challenge, whatever it says, and gives the line.
    pub(crate) fn challenge_line(&mut self) -> Result<Vec<u8>, Stop> {
        const RIGHT: &str = "a challenge: one line of at most 192 bytes";
        let deadline = Instant::now() + self.patience;
        loop {
            match self.decoder.line() {
                Some(Ok(line)) => {
                    let bytes = [&line[..], b"\n"].concat();
                    self.transcript.received(self.last_at, &self.name, &bytes, readable(&line));
                    return Ok(line);
                }
                Some(Err(malformed)) => return Err(self.wrong(&malformed.to_string(), RIGHT)),
                None => self.read(deadline, RIGHT)?,
            }
            if let Some(over) = &self.over {
                return Err(Stop::failed(format!("{over} in place of a challenge"), RIGHT));
            }
        }
    }

    /// Reads the challenge, and gives its nonce: what stands behind the first space (`AU-2`).
    pub(crate) fn challenge(&mut self) -> Result<Vec<u8>, Stop> {
        let line = self.challenge_line()?;
        match line.iter().position(|&byte| byte == b' ') {
            Some(space) => Ok(line[space + 1..].to_vec()),
            None => {
                Err(Stop::failed(format!("the line {}", readable(&line)), "`sha256`, a space, a nonce, LF"))
            }
        }
    }

    /// The line that answers a challenge with this nonce.
    pub(crate) fn response(&self, nonce: &[u8]) -> Vec<u8> {
        format!("{}\n", wire::response(&self.secret, nonce)).into_bytes()
    }

    /// Goes through the handshake. The report does not show the response: with it and the nonce anyone could try out
    /// tokens.
    pub(crate) fn authenticate(&mut self) -> Verdict {
        let nonce = self.challenge()?;
        let response = self.response(&nonce);
        self.transcript.event(&self.name, format!("sends the response, {} bytes", response.len()));
        self.write(&response)
    }

    /// Writes bytes, and waits until the transport has taken them.
    pub(crate) fn send(&mut self, bytes: &[u8]) -> Verdict {
        let meaning = meaning(bytes);
        self.send_meaning(bytes, &meaning)
    }

    pub(crate) fn send_meaning(&mut self, bytes: &[u8], meaning: &str) -> Verdict {
        self.transcript.sent(&self.name, bytes, meaning);
        self.write(bytes)
    }

    fn write(&mut self, bytes: &[u8]) -> Verdict {
        self.hand_over(bytes);
        match self.written.recv_timeout(self.patience) {
            Ok(Ok(())) => Ok(()),
            // The server closed: what it said before that is still to be read, and tells more.
            Ok(Err(error)) => {
                self.transcript.event(&self.name, format!("writing failed: {error}"));
                Ok(())
            }
            Err(_) => Err(Stop::failed(
                format!("the server did not take {} bytes within {:?}", bytes.len(), self.patience),
                "the server reads",
            )),
        }
    }

    /// Writes bytes in the background.
    pub(crate) fn post(&mut self, bytes: &[u8], meaning: &str) {
        self.transcript.sent(&self.name, bytes, meaning);
        self.hand_over(bytes);
    }

    fn hand_over(&self, bytes: &[u8]) {
        // A writer that has ended says why in `written`.
        _ = self.to_writer.send(bytes.to_vec());
    }

    /// Whether the transport has taken all of what was posted last, after this long at most.
    pub(crate) fn is_taken(&mut self, patience: Duration) -> Result<bool, Stop> {
        match self.written.recv_timeout(patience) {
            Ok(Ok(())) => Ok(true),
            Ok(Err(error)) => {
                Err(Stop::failed(format!("writing failed: {error}"), "the server takes all of it"))
            }
            Err(_) => Ok(false),
        }
    }

    /// Writes the same again and again, reading nothing, until that fails.
    pub(crate) fn flood_until_cut(&mut self, bytes: &[u8], meaning: &str, patience: Duration) -> Verdict {
        const MOST: usize = 16 << 20;
        const GLANCE: Duration = Duration::from_millis(200);
        let deadline = Instant::now() + patience;
        let mut sent = 0;
        loop {
            if sent < MOST {
                self.post(bytes, meaning);
                sent += bytes.len();
            } else {
                thread::sleep(GLANCE);
                self.post(b"\n", "an empty frame");
            }
            match self.written.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                Ok(Ok(())) => {}
                Ok(Err(error)) => {
                    self.transcript.event(&self.name, format!("writing failed: {error}"));
                    return Ok(());
                }
                Err(_) => {
                    let got = format!("still open after {:.1} s", patience.as_secs_f64());
                    return Err(Stop::failed(got, "the connection is closed"));
                }
            }
        }
    }

    /// Sends an acquire.
    pub(crate) fn acquire(&mut self, wait: u8, lease: u8, owner: u64, key: &[u8]) -> Verdict {
        self.send(&wire::acquire(wait, lease, owner, key))
    }

    /// Sends a release.
    pub(crate) fn release(&mut self, token: u64, key: &[u8]) -> Verdict {
        self.send(&wire::release(token, key))
    }

    /// The next thing that the server says. `right` is what would be right.
    pub(crate) fn hear(&mut self, right: &str) -> Result<Heard, Stop> {
        self.hear_until(Instant::now() + self.patience, right)
    }

    /// The same, with another patience.
    pub(crate) fn hear_within(&mut self, patience: Duration, right: &str) -> Result<Heard, Stop> {
        self.hear_until(Instant::now() + patience, right)
    }

    fn hear_until(&mut self, deadline: Instant, right: &str) -> Result<Heard, Stop> {
        loop {
            match self.decoder.message::<Reply>() {
                Some(Ok((reply, bytes))) => {
                    self.transcript.received(self.last_at, &self.name, &bytes, reply.to_string());
                    match reply {
                        // It may come at any time, and answers nothing (`RD-3`).
                        Reply::LeaderChanged { .. } => self.has_heard_leader = true,
                        reply => return Ok(Heard::Reply(reply)),
                    }
                }
                Some(Err(malformed)) => return Err(self.wrong(&malformed.to_string(), right)),
                None => match &self.over {
                    Some(_) if !self.decoder.rest().is_empty() => {
                        return Err(self.wrong("the stream ended inside a frame", right));
                    }
                    Some(over) => return Ok(over.clone()),
                    None => self.read(deadline, right)?,
                },
            }
        }
    }

    /// Whether an `L` was among what was heard.
    pub(crate) const fn has_heard_leader(&self) -> bool {
        self.has_heard_leader
    }

    /// Whether the connection has ended, as far as it was heard.
    pub(crate) const fn is_over(&self) -> bool {
        self.over.is_some()
    }

    /// All bytes until the end, whatever they mean.
    pub(crate) fn hear_raw(&mut self, patience: Duration, right: &str) -> Result<(Vec<u8>, Heard), Stop> {
        let deadline = Instant::now() + patience;
        loop {
            if let Some(over) = &self.over {
                return Ok((self.decoder.rest().to_vec(), over.clone()));
            }
            self.read(deadline, right)?;
        }
    }

    /// This reply, and nothing before it.
    pub(crate) fn expect(&mut self, reply: &Reply) -> Verdict {
        let right = reply.to_string();
        match self.hear(&right)? {
            Heard::Reply(heard) if heard == *reply => Ok(()),
            other => Err(Stop::failed(other.to_string(), right)),
        }
    }

    /// An `E` with this reason.
    pub(crate) fn expect_error(&mut self, reason: &str) -> Verdict {
        self.expect(&Reply::error(reason))
    }

    /// The end of the connection, by an end of stream or a reset.
    pub(crate) fn expect_closed(&mut self) -> Verdict {
        match self.hear("the connection is closed")? {
            Heard::End | Heard::Reset => Ok(()),
            Heard::Reply(reply) => Err(Stop::failed(reply.to_string(), "the connection is closed")),
        }
    }

    /// The end of the connection, whatever is said before it.
    pub(crate) fn expect_closed_after_replies(&mut self) -> Verdict {
        loop {
            if let Heard::End | Heard::Reset = self.hear("the connection is closed")? {
                return Ok(());
            }
        }
    }

    /// A grant for this owner and key; gives its token.
    pub(crate) fn granted(&mut self, owner: u64, key: &[u8]) -> Result<u64, Stop> {
        let right = format!("A, acquired {}: owner {owner}", readable(key));
        match self.hear(&right)? {
            Heard::Reply(Reply::Acquired { token, owner: echoed, key: name })
                if echoed == owner && name == key =>
            {
                Ok(token)
            }
            other => Err(Stop::failed(other.to_string(), right)),
        }
    }

    /// An acquire that is granted; gives its token.
    pub(crate) fn take(&mut self, lease: u8, owner: u64, key: &[u8]) -> Result<u64, Stop> {
        self.acquire(0, lease, owner, key)?;
        self.granted(owner, key)
    }

    /// A release that ends a hold.
    pub(crate) fn give_back(&mut self, token: u64, key: &[u8]) -> Verdict {
        self.release(token, key)?;
        self.expect(&Reply::Released { token, key: key.to_vec() })
    }

    /// Sends the release of a hold that never was, and waits for its `N`: the connection lives, what was sent before has
    /// taken effect, and nothing else was said until then.
    pub(crate) fn sentinel(&mut self, key: &[u8]) -> Verdict {
        self.release(1, key)?;
        self.expect(&Reply::NotHeld { token: 1, key: key.to_vec() })
    }

    /// Ends writing. What the server says may still be heard.
    pub(crate) fn end_writing(&mut self) -> Verdict {
        self.end(|ends| ends.shutdown.as_ref().map(|end| end(Shutdown::Write)), "half-close")
    }

    /// Ends the transport beneath TLS, without `close_notify`.
    pub(crate) fn cut(&mut self) -> Verdict {
        self.end(|ends| ends.cut.as_ref().map(|cut| cut(())), "end beneath TLS")
    }

    /// Resets the connection. Once it returns, the reset is on its way.
    pub(crate) fn reset(mut self) -> Verdict {
        self.end(|ends| ends.reset.as_ref().map(|end| end(())), "reset")?;
        let Self { to_writer, from_reader, threads, mut ends, .. } = self;
        // An end of stream must not come before it. It goes out when the last one lets the socket go.
        ends.shutdown = None;
        drop((ends, to_writer, from_reader));
        // A thread that panicked has let go, too.
        threads.into_iter().for_each(|thread| _ = thread.join());
        Ok(())
    }

    fn end(&mut self, how: impl Fn(&Ends) -> Option<io::Result<()>>, what: &str) -> Verdict {
        match how(&self.ends) {
            None => Err(Stop::not_run(format!("this connector has no {what}"))),
            Some(Ok(())) => {
                self.transcript.event(&self.name, what);
                Ok(())
            }
            Some(Err(error)) => {
                self.transcript.event(&self.name, format!("{what} failed: {error}"));
                Ok(())
            }
        }
    }

    /// Bytes that are no reply.
    fn wrong(&self, what: &str, right: &str) -> Stop {
        let rest = self.decoder.rest();
        self.transcript.received(self.last_at, &self.name, rest, what);
        Stop::failed(format!("{what}: {}", readable(rest)), right)
    }

    fn read(&mut self, deadline: Instant, right: &str) -> Verdict {
        let patience = deadline.saturating_duration_since(Instant::now());
        match self.from_reader.recv_timeout(patience) {
            Ok(Chunk { at, read }) => {
                self.last_at = at;
                match read {
                    Ok(bytes) if !bytes.is_empty() => self.decoder.push(&bytes),
                    other => self.ended(at, other.err()),
                }
                Ok(())
            }
            Err(RecvTimeoutError::Timeout) => {
                let rest = self.decoder.rest();
                let got =
                    if rest.is_empty() { String::new() } else { format!(" more than {}", readable(rest)) };
                Err(Stop::failed(
                    format!("nothing{got}, though the suite waited {:.1} s", patience.as_secs_f64()),
                    right,
                ))
            }
            Err(RecvTimeoutError::Disconnected) => {
                self.over = Some(Heard::End);
                Ok(())
            }
        }
    }

    fn ended(&mut self, at: Instant, error: Option<io::Error>) {
        let over = match error {
            None => Heard::End,
            Some(error) if error.kind() == io::ErrorKind::UnexpectedEof => Heard::End,
            Some(_) => Heard::Reset,
        };
        self.transcript.received(at, &self.name, &[], over.to_string());
        self.over = Some(over);
    }
}

fn write_all(mut writer: Box<dyn Write + Send>, queue: &Receiver<Vec<u8>>, done: &Sender<io::Result<()>>) {
    for bytes in queue {
        let result = writer.write_all(&bytes).and_then(|()| writer.flush());
        if done.send(result).is_err() {
            break;
        }
    }
}

fn read_all(mut reader: Box<dyn Read + Send>, chunks: &SyncSender<Chunk>) {
    let mut buffer = vec![0; 16 * 1024];
    loop {
        let read = reader.read(&mut buffer).map(|len| buffer[..len].to_vec());
        let is_over = !matches!(&read, Ok(bytes) if !bytes.is_empty());
        if chunks.send(Chunk { at: Instant::now(), read }).is_err() || is_over {
            break;
        }
    }
}

/// What bytes from the suite mean: the frames in them, if that is what they are.
fn meaning(bytes: &[u8]) -> String {
    const MAX_FRAMES: usize = 4;
    let mut decoder = Decoder::default();
    decoder.push(bytes);
    let mut parts = Vec::new();
    while let Some(Ok((request, _))) = decoder.message::<Request>() {
        if parts.len() == MAX_FRAMES {
            parts.push("more".to_owned());
            return parts.join("; ");
        }
        parts.push(request.to_string());
    }
    if !decoder.rest().is_empty() {
        parts.push(readable(decoder.rest()));
    }
    if parts.is_empty() { "empty frames".to_owned() } else { parts.join("; ") }
}
