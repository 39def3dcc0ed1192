//! A server that does what a test tells it, frame by frame.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::task::Poll;
use std::time::{Duration, Instant};

use ticketing_proto::wire::{Acquire, Decoder, FromClient, Release, Request};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;

use crate::adapter::{Client, ClientBuilder};

/// Whatever a test waits for comes within this time, or the test fails.
const PATIENCE: Duration = Duration::from_secs(30);

const CHALLENGE: &[u8] = b"sha256 aB3dEf_gaB3dEf_gaB3dEf_gaB3dEf_gaB3dEf_gaB3\n";

/// Gives up on what does not come.
pub(crate) async fn soon<T>(what: impl Future<Output = T>) -> T {
    timeout(PATIENCE, what).await.expect("it comes in time")
}

/// That it lasted so long since then, and no wait of another kind on top of it: the machine may be busy.
pub(crate) fn assert_took(began: Instant, wanted: Duration) {
    let took = began.elapsed();
    assert!((wanted..wanted + Duration::from_secs(10)).contains(&took), "{took:?} instead of {wanted:?}");
}

/// A request, as it came.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Asked {
    Acquire { wait: u8, lease: u8, owner: u64, key: String },
    Release { token: u64, key: String },
}

impl Asked {
    pub(crate) fn key(&self) -> &str {
        match self {
            Self::Acquire { key, .. } | Self::Release { key, .. } => key,
        }
    }

    pub(crate) fn release(token: u64, key: &str) -> Self {
        Self::Release { token, key: key.into() }
    }
}

pub(crate) struct Scripted {
    listener: TcpListener,
}

impl Scripted {
    pub(crate) async fn bind() -> Self {
        Self { listener: TcpListener::bind("127.0.0.1:0").await.expect("loopback is there") }
    }

    /// With little room for what is not read yet.
    pub(crate) async fn bind_narrow() -> Self {
        let scripted = Self::bind().await;
        socket2::SockRef::from(&scripted.listener).set_recv_buffer_size(65_536).expect("it is bound");
        scripted
    }

    pub(crate) fn port(&self) -> u16 {
        self.listener.local_addr().expect("it is bound").port()
    }

    pub(crate) fn client(&self) -> ClientBuilder {
        Client::builder().address(format!("127.0.0.1:{}", self.port()))
    }

    /// The next connection, before the challenge.
    pub(crate) async fn accept(&self) -> Peer {
        soon(self.accept_ever()).await
    }

    pub(crate) async fn accept_ever(&self) -> Peer {
        let (stream, _) = self.listener.accept().await.expect("it can accept");
        stream.set_nodelay(true).expect("it is connected");
        Peer { stream, decoder: Decoder::new(), input: Vec::new() }
    }

    /// The next connection, past its handshake.
    pub(crate) async fn accept_greeted(&self) -> Peer {
        let mut peer = self.accept().await;
        peer.greet().await;
        peer
    }

    /// Does the same with each connection, all at once, for ever.
    pub(crate) async fn serve_each(&self, serve: impl AsyncFn(Peer)) {
        let mut serving: Vec<Pin<Box<dyn Future<Output = ()> + '_>>> = Vec::new();
        let mut accepting = Box::pin(self.accept_ever());
        poll_fn(|cx| {
            while let Poll::Ready(peer) = accepting.as_mut().poll(cx) {
                serving.push(Box::pin(serve(peer)));
                accepting = Box::pin(self.accept_ever());
            }
            serving.retain_mut(|one| one.as_mut().poll(cx).is_pending());
            Poll::<()>::Pending
        })
        .await;
    }

    /// A client of one usable connection: the other one waits for its challenge for as long as it is kept.
    pub(crate) async fn one(&self, client: ClientBuilder) -> (Client, Peer, Peer) {
        let client = client.build().expect("a good configuration");
        let usable = self.accept_greeted().await;
        let silent = self.accept().await;
        soon(client.wait_ready()).await.expect("it is open");
        (client, usable, silent)
    }
}

/// The server's end of one connection.
pub(crate) struct Peer {
    stream: TcpStream,
    decoder: Decoder<FromClient>,
    input: Vec<u8>,
}

impl Peer {
    pub(crate) async fn greet(&mut self) {
        soon(self.try_greet()).await.expect("the client answers");
    }

    pub(crate) async fn try_greet(&mut self) -> io::Result<()> {
        self.stream.write_all(CHALLENGE).await?;
        let mut line = [0; 44];
        self.stream.read_exact(&mut line).await?;
        assert_eq!(line[43], b'\n');
        Ok(())
    }

    pub(crate) async fn send(&mut self, bytes: &[u8]) {
        self.try_send(bytes).await.expect("the client reads");
    }

    async fn try_send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.write_all(bytes).await
    }

    /// The next request; `None` at the end of the stream, a reset included.
    pub(crate) async fn next(&mut self) -> Option<Asked> {
        soon(self.next_ever()).await
    }

    pub(crate) async fn next_ever(&mut self) -> Option<Asked> {
        loop {
            let mut rest = self.input.as_slice();
            let frame = self.decoder.next(&mut rest).expect("a frame");
            let asked = frame.map(|frame| match Request::parse(frame).expect("a request") {
                Request::Acquire(Acquire { wait, lease, owner, key }) => Asked::Acquire {
                    wait: wait.secs(),
                    lease: lease.secs(),
                    owner: owner.value(),
                    key: key.as_str().into(),
                },
                Request::Release(Release { token, key }) => Asked::release(token, key.as_str()),
            });
            let taken = self.input.len() - rest.len();
            self.input.drain(..taken);
            if asked.is_some() {
                return asked;
            }
            if self.stream.read_buf(&mut self.input).await.unwrap_or(0) == 0 {
                return None;
            }
        }
    }

    pub(crate) async fn grant(&mut self, asked: &Asked, token: u64) {
        self.try_grant(asked, token).await.expect("the client reads");
    }

    pub(crate) async fn try_grant(&mut self, asked: &Asked, token: u64) -> io::Result<()> {
        let Asked::Acquire { owner, key, .. } = asked else { panic!("{asked:?} can't be granted") };
        let mut frame = vec![b'A'];
        frame.extend_from_slice(&token.to_be_bytes());
        frame.extend_from_slice(&owner.to_be_bytes());
        frame.extend_from_slice(key.as_bytes());
        frame.push(b'\n');
        self.try_send(&frame).await
    }

    /// `T` or `B`.
    pub(crate) async fn refuse(&mut self, op: u8, asked: &Asked) {
        let Asked::Acquire { owner, key, .. } = asked else { panic!("{asked:?} can't be refused") };
        let frame = [&[op][..], &owner.to_be_bytes(), key.as_bytes(), b"\n"].concat();
        self.send(&frame).await;
    }

    /// `R`
    pub(crate) async fn confirm(&mut self, asked: &Asked) {
        self.try_confirm(asked, b'R').await.expect("the client reads");
    }

    /// `R` or `N`
    pub(crate) async fn try_confirm(&mut self, asked: &Asked, op: u8) -> io::Result<()> {
        let Asked::Release { token, key } = asked else { panic!("{asked:?} is no release") };
        let frame = [&[op][..], &token.to_be_bytes(), key.as_bytes(), b"\n"].concat();
        self.try_send(&frame).await
    }

    /// Reads an acquire of this key and grants it.
    pub(crate) async fn grant_next(&mut self, key: &str, token: u64) {
        let asked = self.next().await.expect("an acquire");
        assert_eq!(asked.key(), key);
        self.grant(&asked, token).await;
    }

    /// Reads the release of this very token and confirms it.
    pub(crate) async fn confirm_next(&mut self, key: &str, token: u64) {
        let asked = self.next().await.expect("a release");
        assert_eq!(asked, Asked::release(token, key));
        self.confirm(&asked).await;
    }

    /// Ends the connection with an RST.
    pub(crate) fn reset(self) {
        let socket = socket2::SockRef::from(&self.stream);
        socket.set_linger(Some(Duration::ZERO)).expect("it is connected");
    }
}
