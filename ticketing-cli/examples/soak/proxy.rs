//! A TCP proxy that does to connections what networks do.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use fastrand::Rng;
use ticketing_host::socket;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::{ReadHalf, WriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout, timeout_at};

use crate::tally::Tally;

const BUFFER: usize = 4096;
/// A direction of a connection is left alone for so many milliseconds before its next fault.
const CALM_MILLIS: std::ops::Range<u64> = 200..20_000;
/// Around the times after which a server gives up on a peer.
const STALL_MILLIS: std::ops::Range<u64> = 100..12_000;
const DRIP_MILLIS: std::ops::Range<u64> = 1..60;
/// A fault strikes amid the next bytes, or after this time in silence.
const SILENCE: Duration = Duration::from_secs(1);

/// What happens to one direction of a connection.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fault {
    /// Both ends lose the connection. What was under way is lost.
    Cut,
    /// Both ends lose it by a reset, behind bytes that they may not have read.
    Reset,
    /// Nothing goes on for a while.
    Stall,
    /// Bytes come one by one.
    Drip,
    /// The direction ends; the other one goes on.
    HalfClose,
}

impl Fault {
    const ALL: [Self; 5] = [Self::Cut, Self::Reset, Self::Stall, Self::Drip, Self::HalfClose];

    const fn name(self) -> &'static str {
        match self {
            Self::Cut => "cut",
            Self::Reset => "reset",
            Self::Stall => "stall",
            Self::Drip => "drip",
            Self::HalfClose => "half-close",
        }
    }
}

/// The names of all kinds of faults.
pub(crate) fn faults() -> [&'static str; 5] {
    Fault::ALL.map(Fault::name)
}

pub(crate) struct Proxy {
    address: SocketAddr,
    has_faults: watch::Sender<bool>,
}

/// What all connections know.
struct Shared {
    server: SocketAddr,
    faults: Arc<Tally>,
    has_faults: watch::Receiver<bool>,
}

impl Proxy {
    /// Begins to carry connections to the server, without faults at first. They are counted in `faults`.
    pub(crate) async fn start(server: SocketAddr, mut chance: Rng, faults: Arc<Tally>) -> io::Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let address = listener.local_addr()?;
        let (sender, has_faults) = watch::channel(false);
        let shared = Arc::new(Shared { server, faults, has_faults });
        tokio::spawn(async move {
            loop {
                match listener.accept().await {
                    Ok((client, _)) => {
                        tokio::spawn(Arc::clone(&shared).carry(client, chance.fork()));
                    }
                    Err(error) => {
                        println!("the proxy cannot accept: {error}");
                        sleep(socket::ACCEPT_PAUSE).await;
                    }
                }
            }
        });
        Ok(Self { address, has_faults: sender })
    }

    pub(crate) const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Begins with faults, or ends them: stalls are over then.
    pub(crate) fn set_faults(&self, has_faults: bool) {
        self.has_faults.send_replace(has_faults);
    }
}

/// A connection is over, in both directions.
enum Over {
    Lost,
    Reset,
}

impl From<io::Error> for Over {
    fn from(_: io::Error) -> Self {
        Self::Lost
    }
}

impl Shared {
    async fn carry(self: Arc<Self>, mut client: TcpStream, mut chance: Rng) {
        let Ok(mut server) = TcpStream::connect(self.server).await else { return };
        if client.set_nodelay(true).and(server.set_nodelay(true)).is_err() {
            return;
        }
        let end = {
            let (from_client, to_client) = client.split();
            let (from_server, to_server) = server.split();
            let up = self.pass(from_client, to_server, chance.fork());
            let down = self.pass(from_server, to_client, chance);
            tokio::try_join!(up, down)
        };
        if let Err(Over::Reset) = end {
            for stream in [&client, &server] {
                // One that is gone already needs no reset.
                let _ = socket::reset_at_close(stream);
            }
        }
    }

    fn has_faults(&self) -> bool {
        *self.has_faults.borrow()
    }

    /// One direction, until it ends.
    async fn pass(&self, mut from: ReadHalf<'_>, mut to: WriteHalf<'_>, mut chance: Rng) -> Result<(), Over> {
        let mut space = [0; BUFFER];
        loop {
            let calm = Instant::now() + Duration::from_millis(chance.u64(CALM_MILLIS));
            while let Ok(read) = timeout_at(calm, from.read(&mut space)).await {
                let len = read?;
                if len == 0 {
                    return Ok(to.shutdown().await?);
                }
                to.write_all(&space[..len]).await?;
            }
            let bytes = match timeout(SILENCE, from.read(&mut space)).await {
                Err(_) => &[],
                Ok(read) => &space[..read?],
            };
            if !self.has_faults() {
                to.write_all(bytes).await?;
                continue;
            }
            let (before, after) = bytes.split_at(chance.usize(..=bytes.len()));
            to.write_all(before).await?;
            let fault = Fault::ALL[chance.usize(..Fault::ALL.len())];
            self.faults.count(fault.name());
            match fault {
                Fault::Cut => return Err(Over::Lost),
                Fault::Reset => return Err(Over::Reset),
                Fault::HalfClose => return Ok(to.shutdown().await?),
                Fault::Stall => {
                    let stall = Duration::from_millis(chance.u64(STALL_MILLIS));
                    let mut has_faults = self.has_faults.clone();
                    // Whichever comes first.
                    let _ = timeout(stall, has_faults.wait_for(|has_faults| !has_faults)).await;
                    to.write_all(after).await?;
                }
                Fault::Drip => {
                    let mut drops = after.iter();
                    while self.has_faults()
                        && let Some(&drop) = drops.next()
                    {
                        sleep(Duration::from_millis(chance.u64(DRIP_MILLIS))).await;
                        to.write_all(&[drop]).await?;
                    }
                    to.write_all(drops.as_slice()).await?;
                }
            }
        }
    }
}
