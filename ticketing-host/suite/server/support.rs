//! A server in a thread of its own, and a client that speaks bytes.

use std::io::{self, Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use ticketing_host::server::ServerConfig;
use ticketing_proto::id::Token;
use ticketing_proto::limits::Limits;
use ticketing_proto::lock::TokenRange;
use ticketing_proto::wire::auth::{self, Secret};

use crate::adapter::{self, Flavour, Prepared, ShutdownHandle};

/// How long a test waits for what must come.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// A server that ends with the test.
pub(crate) struct Running {
    pub(crate) addresses: Vec<SocketAddr>,
    pub(crate) shutdown: ShutdownHandle,
    thread: Option<JoinHandle<io::Result<()>>>,
}

/// All tokens from 1.
pub(crate) fn config() -> ServerConfig {
    let tokens = TokenRange { next: Token::new(1).unwrap(), last: Token::new(u64::MAX).unwrap() };
    ServerConfig::new(Secret::default(), tokens)
}

/// `config` with these limits.
pub(crate) fn limited(edit: impl FnOnce(&mut Limits)) -> ServerConfig {
    let mut config = config();
    edit(&mut config.limits);
    config
}

impl Running {
    /// A server with all defaults.
    pub(crate) fn start() -> Self {
        Self::with(config())
    }

    pub(crate) fn with(config: ServerConfig) -> Self {
        let local = SocketAddr::from(([127, 0, 0, 1], 0));
        Self::on(Flavour::ALL[0], &[local], config).unwrap()
    }

    /// One of each way that the adapter has to run a server.
    pub(crate) fn of_each_flavour(config: impl Fn() -> ServerConfig) -> [Self; Flavour::ALL.len()] {
        let local = SocketAddr::from(([127, 0, 0, 1], 0));
        Flavour::ALL.map(|flavour| Self::on(flavour, &[local], config()).unwrap())
    }

    pub(crate) fn on(flavour: Flavour, addresses: &[SocketAddr], config: ServerConfig) -> io::Result<Self> {
        let Prepared { addresses, shutdown, serve } = adapter::prepare(flavour, addresses, config)?;
        Ok(Self { addresses, shutdown, thread: Some(thread::spawn(serve)) })
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.addresses[0]
    }

    /// A client that is authenticated.
    pub(crate) fn client(&self) -> Client {
        self.client_with(&Secret::default())
    }

    pub(crate) fn client_with(&self, secret: &Secret) -> Client {
        let mut client = self.stranger();
        let nonce = client.challenge();
        client.send(&response(secret, &nonce));
        client
    }

    /// A client that has not read the challenge.
    pub(crate) fn stranger(&self) -> Client {
        Client::connect(self.address())
    }

    /// Waits until the server has ended by itself.
    pub(crate) fn join(mut self) -> io::Result<()> {
        self.thread.take().unwrap().join().unwrap()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let Some(thread) = self.thread.take() else { return };
        self.shutdown.shut_down();
        self.shutdown.shut_down();
        let result = thread.join();
        if !thread::panicking() {
            result.unwrap().unwrap();
        }
    }
}

/// What a server says.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Said {
    Acquired {
        token: u64,
        owner: u64,
        key: String,
    },
    TimedOut {
        owner: u64,
        key: String,
    },
    Busy {
        owner: u64,
        key: String,
    },
    Released {
        token: u64,
        key: String,
    },
    NotHeld {
        token: u64,
        key: String,
    },
    Error(String),
    /// The end of the stream.
    End,
    /// The connection was reset.
    Reset,
}

/// One connection.
pub(crate) struct Client {
    pub(crate) stream: TcpStream,
    input: Vec<u8>,
    at: usize,
    is_reset: bool,
}

impl Client {
    pub(crate) fn connect(address: SocketAddr) -> Self {
        let stream = TcpStream::connect_timeout(&address, PATIENCE).unwrap();
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        Self { stream, input: Vec::new(), at: 0, is_reset: false }
    }

    /// Reads the challenge, and gives its nonce.
    pub(crate) fn challenge(&mut self) -> Vec<u8> {
        let line = self.line().unwrap();
        line.strip_prefix(b"sha256 ").unwrap().to_vec()
    }

    /// Whether the server says anything at all before it closes.
    pub(crate) fn is_let_in(&mut self) -> bool {
        self.line().is_some()
    }

    pub(crate) fn send(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).unwrap();
    }

    /// An acquire.
    pub(crate) fn ask(&mut self, wait: u8, lease: u8, owner: u64, key: &str) {
        self.send(&acquire(wait, lease, owner, key));
    }

    /// An acquire that is granted.
    pub(crate) fn take(&mut self, wait: u8, lease: u8, owner: u64, key: &str) -> u64 {
        self.ask(wait, lease, owner, key);
        self.granted(owner, key)
    }

    pub(crate) fn granted(&mut self, expected_owner: u64, expected_key: &str) -> u64 {
        match self.hear() {
            Said::Acquired { token, owner, key } if owner == expected_owner && key == expected_key => token,
            other => panic!("no grant of {expected_key} for {expected_owner}, but {other:?}"),
        }
    }

    pub(crate) fn release(&mut self, token: u64, key: &str) -> Said {
        self.send(&release(token, key));
        self.hear()
    }

    /// Shows that the server serves this connection, and that nothing was said to it before.
    pub(crate) fn sentinel(&mut self, name: &str) {
        let key = format!("sentinel-{}", name.replace(' ', "-"));
        assert_eq!(self.release(1, &key), Said::NotHeld { token: 1, key });
    }

    /// The next thing that the server says.
    pub(crate) fn hear(&mut self) -> Said {
        let Some(op) = self.byte() else { return if self.is_reset { Said::Reset } else { Said::End } };
        let mut number = || u64::from_be_bytes(std::array::from_fn(|_| self.byte().expect("the header")));
        let (first, second) = match op {
            b'A' => (number(), number()),
            b'T' | b'B' | b'R' | b'N' => (number(), 0),
            b'E' => (0, 0),
            other => panic!("op {other:#x}"),
        };
        let text = String::from_utf8(self.line().expect("the LF")).unwrap();
        match op {
            b'A' => Said::Acquired { token: first, owner: second, key: text },
            b'T' => Said::TimedOut { owner: first, key: text },
            b'B' => Said::Busy { owner: first, key: text },
            b'R' => Said::Released { token: first, key: text },
            b'N' => Said::NotHeld { token: first, key: text },
            _ => Said::Error(text),
        }
    }

    /// All that is said until the end.
    pub(crate) fn hear_all(&mut self) -> Vec<Said> {
        let mut all = Vec::new();
        loop {
            all.push(self.hear());
            if matches!(all.last(), Some(Said::End | Said::Reset)) {
                return all;
            }
        }
    }

    pub(crate) fn shut_down_write(&self) {
        self.stream.shutdown(Shutdown::Write).unwrap();
    }

    /// Closes with a reset.
    pub(crate) fn reset(self) {
        socket2::SockRef::from(&self.stream).set_linger(Some(Duration::ZERO)).unwrap();
    }

    fn line(&mut self) -> Option<Vec<u8>> {
        let mut line = Vec::new();
        loop {
            match self.byte()? {
                b'\n' => return Some(line),
                byte => line.push(byte),
            }
        }
    }

    fn byte(&mut self) -> Option<u8> {
        if self.at == self.input.len() {
            self.input.resize(16 * 1024, 0);
            let read = self.stream.read(&mut self.input);
            self.input.truncate(*read.as_ref().unwrap_or(&0));
            self.at = 0;
            match read {
                Err(error) if error.kind() == io::ErrorKind::ConnectionReset => self.is_reset = true,
                other => _ = other.expect("the server says nothing"),
            }
        }
        let byte = *self.input.get(self.at)?;
        self.at += 1;
        Some(byte)
    }
}

/// The bytes of an acquire.
pub(crate) fn acquire(wait: u8, lease: u8, owner: u64, key: &str) -> Vec<u8> {
    [&[b'A', wait, lease][..], &owner.to_be_bytes(), key.as_bytes(), b"\n"].concat()
}

/// The bytes of a release.
pub(crate) fn release(token: u64, key: &str) -> Vec<u8> {
    [&b"R"[..], &token.to_be_bytes(), key.as_bytes(), b"\n"].concat()
}

/// The line that answers a challenge.
pub(crate) fn response(secret: &Secret, nonce: &[u8]) -> Vec<u8> {
    [auth::respond(secret, nonce).as_slice(), b"\n"].concat()
}
