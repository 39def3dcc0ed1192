//! Scripted servers: they greet as they are told and write down what they are asked. What they answer is the case's.

use std::io::{self, Read as _, Write as _};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use socket2::SockRef;

use super::timeline::{Asked, Event, GivenBack, Peer, Timeline};
use crate::transcript::{Transcript, readable};
use crate::wire::{self, Decoder, Message as _, Reply, Request};

/// How a node receives a connection.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Greeting {
    /// With a challenge.
    Challenge,
    /// With nothing. The case may [greet](Stage::greet) later.
    Silence,
    /// With these bytes.
    Bytes(Vec<u8>),
    /// With a close.
    Close,
    /// With a challenge, and as soon as the response is there with these bytes and a close.
    Farewell(Vec<u8>),
}

/// The nodes of one case, and all connections to them.
pub(super) struct Stage {
    shared: Arc<Shared>,
    nodes: Vec<SocketAddr>,
}

struct Shared {
    timeline: Arc<Timeline>,
    transcript: Transcript,
    secret: Vec<u8>,
    state: Mutex<State>,
    is_over: AtomicBool,
}

#[derive(Default)]
struct State {
    /// By node.
    greetings: Vec<Greeting>,
    connections: Vec<Connection>,
    nonces: u64,
}

struct Connection {
    peer: Peer,
    stream: TcpStream,
    nonce: Vec<u8>,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Stage {
    /// Without nodes yet. Clients are to authenticate with `secret`.
    pub(super) fn new(timeline: &Arc<Timeline>, transcript: &Transcript, secret: &[u8]) -> Self {
        let shared = Shared {
            timeline: Arc::clone(timeline),
            transcript: transcript.clone(),
            secret: secret.to_vec(),
            state: Mutex::default(),
            is_over: AtomicBool::new(false),
        };
        Self { shared: Arc::new(shared), nodes: Vec::new() }
    }

    /// Adds a node.
    pub(super) fn add(&mut self, greeting: Greeting) -> io::Result<SocketAddr> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let address = listener.local_addr()?;
        let node = self.nodes.len();
        self.nodes.push(address);
        self.shared.lock().greetings.push(greeting);
        let shared = Arc::clone(&self.shared);
        thread::spawn(move || accept(&shared, node, &listener));
        Ok(address)
    }

    /// `host:port` of a node.
    pub(super) fn address(&self, node: usize) -> String {
        self.nodes[node].to_string()
    }

    /// How a node receives the connections that come from now on.
    pub(super) fn set_greeting(&self, node: usize, greeting: Greeting) {
        self.shared.lock().greetings[node] = greeting;
    }

    /// Sends a challenge on a connection that was received with silence.
    pub(super) fn greet(&self, peer: Peer) {
        challenge(&self.shared, peer);
    }

    /// Sends a reply.
    pub(super) fn reply(&self, peer: Peer, reply: &Reply) {
        self.say(peer, &reply.encode(), reply.to_string());
    }

    /// Sends any bytes.
    pub(super) fn say(&self, peer: Peer, bytes: &[u8], meaning: impl Into<String>) {
        say(&self.shared, peer, bytes, meaning.into());
    }

    /// Closes a connection as a server does: behind what was sent, and what the client still says is read (`TR-9`).
    pub(super) fn close(&self, peer: Peer) {
        self.shared.transcript.event(&name(peer), "closed by the server");
        self.with(peer, |stream| _ = stream.shutdown(Shutdown::Write));
    }

    /// Resets a connection.
    pub(super) fn reset(&self, peer: Peer) {
        self.shared.transcript.event(&name(peer), "reset by the server");
        self.with(peer, |stream| {
            // The close of the last handle becomes the reset; who reads has one, and ends at the shutdown.
            _ = SockRef::from(stream).set_linger(Some(Duration::ZERO));
            _ = stream.shutdown(Shutdown::Read);
        });
        self.shared.lock().connections.retain(|connection| connection.peer != peer);
    }

    fn with(&self, peer: Peer, act: impl FnOnce(&TcpStream)) {
        if let Some(connection) = self.shared.lock().connections.iter().find(|it| it.peer == peer) {
            act(&connection.stream);
        }
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        self.shared.is_over.store(true, Ordering::Release);
        for node in &self.nodes {
            // Its thread stands in `accept`.
            _ = TcpStream::connect(node);
        }
        for connection in self.shared.lock().connections.drain(..) {
            _ = connection.stream.shutdown(Shutdown::Both);
        }
    }
}

fn name(peer: Peer) -> String {
    format!("node {} #{}", peer.node, peer.number)
}

fn accept(shared: &Arc<Shared>, node: usize, listener: &TcpListener) {
    for number in 1.. {
        let Ok((stream, _)) = listener.accept() else { return };
        if shared.is_over.load(Ordering::Acquire) {
            return;
        }
        let at = Instant::now();
        let peer = Peer { node, number };
        // Without it nothing is wrong, only later.
        _ = stream.set_nodelay(true);
        let Ok(reading) = stream.try_clone() else { return };
        let greeting = {
            let mut state = shared.lock();
            state.connections.push(Connection { peer, stream, nonce: Vec::new() });
            state.greetings[node].clone()
        };
        shared.transcript.event(&name(peer), "connected");
        shared.timeline.add(at, Event::Connected(peer));
        let farewell = match greeting {
            Greeting::Challenge => {
                challenge(shared, peer);
                None
            }
            Greeting::Silence => None,
            Greeting::Bytes(bytes) => {
                say(shared, peer, &bytes, "a greeting".to_owned());
                None
            }
            Greeting::Close => {
                shared.transcript.event(&name(peer), "closed by the server");
                _ = reading.shutdown(Shutdown::Both);
                None
            }
            Greeting::Farewell(bytes) => {
                challenge(shared, peer);
                Some(bytes)
            }
        };
        let shared = Arc::clone(shared);
        thread::spawn(move || read(&shared, peer, reading, farewell.as_deref()));
    }
}

/// Sends a challenge whose nonce no other connection of the case has.
fn challenge(shared: &Shared, peer: Peer) {
    let nonce = {
        let mut state = shared.lock();
        state.nonces += 1;
        let nonce = format!("{:043}", state.nonces).into_bytes();
        if let Some(connection) = state.connections.iter_mut().find(|it| it.peer == peer) {
            connection.nonce.clone_from(&nonce);
        }
        nonce
    };
    say(shared, peer, &[b"sha256 ", &nonce[..], b"\n"].concat(), "the challenge".to_owned());
}

fn say(shared: &Shared, peer: Peer, bytes: &[u8], meaning: String) {
    let stream = {
        let state = shared.lock();
        let connection = state.connections.iter().find(|it| it.peer == peer);
        connection.and_then(|connection| connection.stream.try_clone().ok())
    };
    shared.transcript.sent(&name(peer), bytes, meaning);
    // A client that has gone is seen by who reads.
    _ = stream.map(|mut stream| stream.write_all(bytes));
}

fn read(shared: &Shared, peer: Peer, mut stream: TcpStream, farewell: Option<&[u8]>) {
    let who = name(peer);
    let mut decoder = Decoder::default();
    let mut has_responded = false;
    let mut buffer = [0; 4096];
    loop {
        let len = stream.read(&mut buffer).unwrap_or(0);
        let at = Instant::now();
        if len == 0 {
            shared.transcript.event(&who, "the client's end of stream");
            return shared.timeline.add(at, Event::Ended(peer));
        }
        decoder.push(&buffer[..len]);
        if !has_responded {
            match decoder.line() {
                None => continue,
                Some(Ok(line)) => {
                    has_responded = true;
                    receive_response(shared, peer, at, line);
                    if let Some(farewell) = farewell {
                        say(shared, peer, farewell, readable(farewell));
                        _ = stream.shutdown(Shutdown::Write);
                    }
                }
                Some(Err(error)) => return receive_noise(shared, peer, at, decoder.rest(), &error),
            }
        }
        while let Some(next) = decoder.message::<Request>() {
            match next {
                Ok((request, bytes)) => {
                    shared.transcript.received(at, &who, &bytes, request.to_string());
                    shared.timeline.add(at, receive(peer, at, request));
                }
                Err(error) => return receive_noise(shared, peer, at, decoder.rest(), &error),
            }
        }
    }
}

fn receive_response(shared: &Shared, peer: Peer, at: Instant, line: Vec<u8>) {
    let nonce = {
        let state = shared.lock();
        let connection = state.connections.iter().find(|it| it.peer == peer);
        connection.map(|connection| connection.nonce.clone()).unwrap_or_default()
    };
    let is_right = !nonce.is_empty() && line == wire::response(&shared.secret, &nonce).as_bytes();
    let meaning = if is_right { "the right response" } else { "a line that is not the response" };
    shared.transcript.received(at, &name(peer), &line, meaning);
    shared.timeline.add(at, Event::Responded { peer, line, is_right });
}

fn receive_noise(shared: &Shared, peer: Peer, at: Instant, bytes: &[u8], error: &wire::Malformed) {
    shared.transcript.received(at, &name(peer), bytes, error.to_string());
    shared.timeline.add(at, Event::Noise { peer, what: error.to_string() });
}

fn receive(peer: Peer, at: Instant, request: Request) -> Event {
    match request {
        Request::Acquire { wait, lease, owner, key } => {
            Event::Asked(Asked { peer, at, wait, lease, owner, key })
        }
        Request::Release { token, key } => Event::GivenBack(GivenBack { peer, at, token, key }),
    }
}
