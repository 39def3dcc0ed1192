//! The servers, behind one face.

use std::io;
use std::net::SocketAddr;
use std::thread::{self, JoinHandle};

use ticketing_async_std::runtime::AsyncIo;
use ticketing_host::runtime::Runtime;
use ticketing_host::server::{self as host, ServerConfig, fresh_tokens};
use ticketing_proto::limits::Limits;
use ticketing_tokio::Secret;
use ticketing_tokio::runtime::Tokio;
use ticketing_tokio::tls::ServerTls;

#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub(crate) enum ServerKind {
    Tokio,
    Mio,
    AsyncStd,
}

/// A server on threads of its own.
pub(crate) struct Server {
    address: SocketAddr,
    stop: Box<dyn Fn() + Send>,
    thread: JoinHandle<io::Result<()>>,
}

impl Server {
    pub(crate) fn start(kind: ServerKind, limits: Limits, tls: Option<ServerTls>) -> io::Result<Self> {
        let mut config = ServerConfig::new(Secret::default(), fresh_tokens()?);
        config.limits = limits;
        config.tls = tls;
        match kind {
            ServerKind::Tokio => asynchronous::<Tokio>(config),
            ServerKind::AsyncStd => asynchronous::<AsyncIo>(config),
            ServerKind::Mio => {
                let server = ticketing_mio::Server::bind("127.0.0.1:0", config)?;
                let (address, stop) = (server.local_addrs()[0], server.shutdown_handle());
                let thread = thread::spawn(|| server.run());
                Ok(Self { address, stop: Box::new(move || stop.shut_down()), thread })
            }
        }
    }

    pub(crate) const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Ends it, and gives what it ended with.
    pub(crate) fn end(self) -> io::Result<()> {
        (self.stop)();
        self.thread.join().unwrap_or_else(|_| Err(io::Error::other("the server's thread has panicked")))
    }
}

/// One of an async runtime. Where that is tokio it has a runtime of its own.
fn asynchronous<R: Runtime>(config: ServerConfig) -> io::Result<Server> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let server = runtime.block_on(host::Server::<R>::bind("127.0.0.1:0", config))?;
    let (address, stop) = (server.local_addrs()[0], server.shutdown_handle());
    let thread = thread::spawn(move || runtime.block_on(server.serve()));
    Ok(Server { address, stop: Box::new(move || stop.shut_down()), thread })
}
