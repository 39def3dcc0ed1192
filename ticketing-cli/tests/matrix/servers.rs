//! The servers, behind one face.

use std::io::{self, BufRead as _, BufReader};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::thread::{self, JoinHandle};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use ticketing_async_std::runtime::AsyncIo;
use ticketing_host::runtime::Runtime;
use ticketing_host::server::{self as host, ServerConfig, fresh_tokens};
use ticketing_tokio::Secret;
use ticketing_tokio::runtime::Tokio;

use super::{RUNTIME, eventually};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ServerKind {
    Tokio,
    Mio,
    AsyncStd,
    /// `ticketing serve`
    Program,
}

impl ServerKind {
    pub(crate) const ALL: [Self; 4] = [Self::Tokio, Self::Mio, Self::AsyncStd, Self::Program];

    /// On a free port.
    pub(crate) fn start(self, secret: &str) -> Server {
        self.start_at(([127, 0, 0, 1], 0).into(), secret)
    }

    pub(crate) fn start_at(self, address: SocketAddr, secret: &str) -> Server {
        // Somebody else's outgoing connection may have the port for a moment.
        let mut started = None;
        eventually("the port is free", || {
            started = match self.try_start(address, secret) {
                Err(error) if error.kind() == io::ErrorKind::AddrInUse => None,
                started => Some(started.expect("it starts")),
            };
            started.is_some()
        });
        started.expect("just seen")
    }

    fn try_start(self, address: SocketAddr, secret: &str) -> io::Result<Server> {
        let config =
            || Ok::<_, io::Error>(ServerConfig::new(Secret::new(secret.as_bytes()), fresh_tokens()?));
        match self {
            Self::Tokio => asynchronous::<Tokio>(address, config()?),
            Self::AsyncStd => asynchronous::<AsyncIo>(address, config()?),
            Self::Mio => {
                let server = ticketing_mio::Server::bind(address, config()?)?;
                let (address, stop) = (server.local_addrs()[0], server.shutdown_handle());
                Ok(Server::of_thread(address, move || stop.shut_down(), || server.run()))
            }
            Self::Program => program(address, secret),
        }
    }
}

fn asynchronous<R: Runtime>(address: SocketAddr, config: ServerConfig) -> io::Result<Server> {
    let server = RUNTIME.block_on(host::Server::<R>::bind(address, config))?;
    let (address, stop) = (server.local_addrs()[0], server.shutdown_handle());
    Ok(Server::of_thread(address, move || stop.shut_down(), || RUNTIME.block_on(server.serve())))
}

fn program(address: SocketAddr, secret: &str) -> io::Result<Server> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ticketing"));
    command.env_clear().args(["serve", "--listen", &address.to_string()]).env("TICKETING_TOKEN", secret);
    if secret.is_empty() {
        command.env_remove("TICKETING_TOKEN");
    }
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?;
    let mut line = String::new();
    BufReader::new(child.stdout.take().expect("a pipe")).read_line(&mut line)?;
    let Some(address) = line.trim_end().strip_prefix("ticketing: ready on ") else {
        let status = child.wait()?;
        assert!(!status.success());
        return Err(io::ErrorKind::AddrInUse.into());
    };
    Ok(Server { address: address.parse().expect("an address"), body: Body::Process(child) })
}

/// A server that ends with the test.
pub(crate) struct Server {
    address: SocketAddr,
    body: Body,
}

enum Body {
    Thread { stop: Box<dyn Fn() + Send + Sync>, thread: Option<JoinHandle<io::Result<()>>> },
    Process(Child),
}

impl Server {
    fn of_thread(
        address: SocketAddr,
        stop: impl Fn() + Send + Sync + 'static,
        serve: impl FnOnce() -> io::Result<()> + Send + 'static,
    ) -> Self {
        let body = Body::Thread { stop: Box::new(stop), thread: Some(thread::spawn(serve)) };
        Self { address, body }
    }

    pub(crate) const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Ends it as its operator would, and waits until it has ended.
    pub(crate) fn end(mut self) {
        match &mut self.body {
            Body::Thread { stop, thread } => {
                stop();
                join(thread);
            }
            Body::Process(child) => {
                let pid = Pid::from_raw(i32::try_from(child.id()).expect("a pid"));
                kill(pid, Signal::SIGTERM).expect("it is there");
                assert!(child.wait().expect("it can be waited for").success());
            }
        }
    }

    /// Ends it without a farewell.
    pub(crate) fn kill(self) {
        drop(self);
    }
}

fn join(thread: &mut Option<JoinHandle<io::Result<()>>>) {
    if let Some(thread) = thread.take() {
        thread.join().expect("it does not panic").expect("it serves to its end");
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        match &mut self.body {
            // The second time ends all connections at once.
            Body::Thread { stop, thread } => {
                stop();
                stop();
                join(thread);
            }
            // One that is gone already is as good.
            Body::Process(child) => _ = (child.kill(), child.wait()),
        }
    }
}
