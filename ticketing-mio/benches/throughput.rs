//! Operations a second against the ceiling of mio, in one run.
//!
//! ```console
//! $ cargo bench -p ticketing-mio --bench throughput -- [ROUNDS [SECONDS]] [CxW...]
//! ```

#[path = "../../ticketing-host/suite/throughput.rs"]
mod throughput;

use std::collections::HashMap;
use std::io::{self, Read as _, Write as _};
use std::net::SocketAddr;
use std::sync::mpsc::Sender;

use mio::net::{TcpListener, TcpStream};
use mio::{Events, Interest, Poll, Token};
use ticketing_mio::{Secret, Server, ServerConfig, fresh_tokens};
use ticketing_proto::wire::auth;

fn main() {
    throughput::compare(serve, answer);
}

fn serve(tell: &Sender<SocketAddr>) -> io::Result<()> {
    let server = Server::bind("127.0.0.1:0", ServerConfig::new(Secret::default(), fresh_tokens()?))?;
    let _ = tell.send(server.local_addrs()[0]);
    server.run()
}

/// The ceiling: reads of 4 KiB, a write for each, no fairness, and no thought of a peer that does not read.
fn answer(tell: &Sender<SocketAddr>) -> io::Result<()> {
    let mut poll = Poll::new()?;
    let mut listener = TcpListener::bind(([127, 0, 0, 1], 0).into())?;
    poll.registry().register(&mut listener, Token(0), Interest::READABLE)?;
    let _ = tell.send(listener.local_addr()?);
    let mut peers = HashMap::new();
    let mut events = Events::with_capacity(1024);
    loop {
        poll.poll(&mut events, None)?;
        for event in &events {
            if event.token() == Token(0) {
                while let Ok((mut stream, _)) = listener.accept() {
                    stream.set_nodelay(true)?;
                    stream.write_all(&throughput::challenge())?;
                    let token = Token(peers.len() + 1);
                    poll.registry().register(&mut stream, token, Interest::READABLE)?;
                    peers.insert(token, Peer { stream, input: [0; 4096], len: 0, is_let_in: false });
                }
            } else if let Some(peer) = peers.get_mut(&event.token()) {
                peer.answer()?;
            }
        }
    }
}

struct Peer {
    stream: TcpStream,
    input: [u8; 4096],
    len: usize,
    is_let_in: bool,
}

impl Peer {
    fn answer(&mut self) -> io::Result<()> {
        let mut output = Vec::new();
        loop {
            let len = match self.stream.read(&mut self.input[self.len..]) {
                Ok(0) => return Ok(()),
                Ok(len) => len,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            };
            let is_all = self.len + len < self.input.len();
            self.len += len;
            if !self.is_let_in {
                if self.len <= auth::TEXT_LEN {
                    continue;
                }
                self.is_let_in = true;
                self.input.copy_within(auth::TEXT_LEN + 1..self.len, 0);
                self.len -= auth::TEXT_LEN + 1;
            }
            output.clear();
            let used = throughput::answer_frames(&self.input[..self.len], &mut output);
            let mut written = 0;
            while written < output.len() {
                match self.stream.write(&output[written..]) {
                    Ok(len) => written += len,
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => std::thread::yield_now(),
                    Err(error) => return Err(error),
                }
            }
            self.input.copy_within(used..self.len, 0);
            self.len -= used;
            if is_all {
                return Ok(());
            }
        }
    }
}
