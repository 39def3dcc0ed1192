//! The servers, behind one face.

use std::fs::{self, File};
use std::io::{self, BufRead as _, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::{self, JoinHandle};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tempfile::TempDir;
use ticketing_async_std::runtime::AsyncIo;
use ticketing_host::runtime::Runtime;
use ticketing_host::server::{self as host, ServerConfig, fresh_tokens};
use ticketing_tokio::Secret;
use ticketing_tokio::runtime::Tokio;
use ticketing_tokio::tls::{ServerTls, system_time};

use super::certificates::Identity;
use super::{RUNTIME, eventually};
use crate::adapter::{PROGRAM, WITH_LIBRARIES};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ServerKind {
    Tokio,
    Mio,
    AsyncStd,
    /// The package's own.
    Program,
}

/// What a server asks of its clients, and shows them.
#[derive(Clone, Copy)]
pub(crate) struct Terms<'a> {
    pub(crate) secret: &'a str,
    /// Without one it is not inside TLS.
    pub(crate) identity: Option<&'a Identity>,
}

impl Terms<'_> {
    fn secret(self) -> Secret {
        Secret::new(self.secret.as_bytes())
    }

    fn tls(self) -> Option<ServerTls> {
        self.identity.map(|identity| identity.server(system_time()))
    }

    /// The flags of a program, which has all of it in files.
    fn written(self, dir: &Path) -> io::Result<Vec<String>> {
        let mut files = Vec::new();
        if !self.secret.is_empty() {
            files.push(("token-file", self.secret));
        }
        if let Some(Identity { certificate, key }) = self.identity {
            files.extend([("tls-cert", certificate.as_str()), ("tls-key", key)]);
        }
        let write = |(name, text)| {
            let path = dir.join(name);
            fs::write(&path, text)?;
            Ok(format!("--{name}={}", path.display()))
        };
        files.into_iter().map(write).collect()
    }
}

impl ServerKind {
    pub(crate) fn all() -> Vec<Self> {
        let libraries = [Self::Tokio, Self::Mio, Self::AsyncStd];
        libraries.into_iter().filter(|_| WITH_LIBRARIES).chain([Self::Program]).collect()
    }

    /// On a free port.
    pub(crate) fn start(self, terms: Terms<'_>) -> Server {
        self.start_at(([127, 0, 0, 1], 0).into(), terms)
    }

    pub(crate) fn start_at(self, address: SocketAddr, terms: Terms<'_>) -> Server {
        // Somebody else's outgoing connection may have the port for a moment.
        let mut started = None;
        eventually("the port is free", || {
            started = match self.try_start(address, terms) {
                Err(error) if error.kind() == io::ErrorKind::AddrInUse => None,
                started => Some(started.expect("it starts")),
            };
            started.is_some()
        });
        started.expect("just seen")
    }

    fn try_start(self, address: SocketAddr, terms: Terms<'_>) -> io::Result<Server> {
        let mut config = ServerConfig::new(terms.secret(), fresh_tokens()?);
        config.tls = terms.tls();
        match self {
            Self::Tokio => asynchronous::<Tokio>(address, config),
            Self::AsyncStd => asynchronous::<AsyncIo>(address, config),
            Self::Mio => {
                let server = ticketing_mio::Server::bind(address, config)?;
                let (address, stop) = (server.local_addrs()[0], server.shutdown_handle());
                let reload = server.reload_handle();
                let reload = move |tls, secret| reload.reload(tls, secret);
                Ok(Server::of_thread(address, move || stop.shut_down(), reload, || server.run()))
            }
            Self::Program => program(address, terms),
        }
    }
}

fn asynchronous<R: Runtime>(address: SocketAddr, config: ServerConfig) -> io::Result<Server> {
    let server = RUNTIME.block_on(host::Server::<R>::bind(address, config))?;
    let (address, stop) = (server.local_addrs()[0], server.shutdown_handle());
    let reload = server.reload_handle();
    let reload = move |tls, secret| reload.reload(tls, secret);
    Ok(Server::of_thread(address, move || stop.shut_down(), reload, || RUNTIME.block_on(server.serve())))
}

fn program(address: SocketAddr, terms: Terms<'_>) -> io::Result<Server> {
    let files = tempfile::tempdir()?;
    let log = files.path().join("log");
    let mut command = Command::new(PROGRAM.path);
    command.env_clear().args(PROGRAM.arguments).args(["--listen", &address.to_string()]);
    command.args(terms.written(files.path())?).stdin(Stdio::null()).stdout(Stdio::piped());
    let mut child = command.stderr(File::create(&log)?).spawn()?;
    let mut line = String::new();
    BufReader::new(child.stdout.take().expect("a pipe")).read_line(&mut line)?;
    let ready = line.trim_end().strip_prefix(PROGRAM.name).and_then(|rest| rest.strip_prefix(": ready on "));
    let Some(address) = ready else {
        assert!(!child.wait()?.success());
        let log = fs::read_to_string(log)?;
        assert!(log.contains("in use"), "it does not start: {log}");
        return Err(io::ErrorKind::AddrInUse.into());
    };
    let address = address.parse().expect("an address");
    Ok(Server { address, body: Body::Process { child, files } })
}

/// A server that ends with the test.
pub(crate) struct Server {
    address: SocketAddr,
    body: Body,
}

enum Body {
    Thread {
        stop: Box<dyn Fn() + Send + Sync>,
        reload: Box<dyn Fn(Option<ServerTls>, Secret) + Send + Sync>,
        thread: Option<JoinHandle<io::Result<()>>>,
    },
    Process {
        child: Child,
        files: TempDir,
    },
}

impl Server {
    fn of_thread(
        address: SocketAddr,
        stop: impl Fn() + Send + Sync + 'static,
        reload: impl Fn(Option<ServerTls>, Secret) + Send + Sync + 'static,
        serve: impl FnOnce() -> io::Result<()> + Send + 'static,
    ) -> Self {
        let body = Body::Thread {
            stop: Box::new(stop),
            reload: Box::new(reload),
            thread: Some(thread::spawn(serve)),
        };
        Self { address, body }
    }

    pub(crate) const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Waits until the log of a program has these words. The libraries' logs have tests of their own.
    pub(crate) fn logs(&self, words: &str) {
        let Body::Process { files, .. } = &self.body else { return };
        let log = || fs::read_to_string(files.path().join("log")).expect("UTF-8");
        eventually(words, || log().contains(words));
    }

    /// Has it ask for another token of clients that come, and show them another certificate.
    pub(crate) fn change(&self, terms: Terms<'_>) {
        match &self.body {
            Body::Thread { reload, .. } => reload(terms.tls(), terms.secret()),
            Body::Process { child, files } => {
                terms.written(files.path()).expect("written");
                signal(child, Signal::SIGHUP);
            }
        }
    }

    /// Ends it as its operator would, and waits until it has ended.
    pub(crate) fn end(mut self) {
        match &mut self.body {
            Body::Thread { stop, thread, .. } => {
                stop();
                join(thread);
            }
            Body::Process { child, .. } => {
                signal(child, Signal::SIGTERM);
                assert!(child.wait().expect("it can be waited for").success());
            }
        }
    }

    /// Ends it without a farewell.
    pub(crate) fn kill(self) {
        drop(self);
    }
}

fn signal(child: &Child, signal: Signal) {
    kill(Pid::from_raw(i32::try_from(child.id()).expect("a pid")), signal).expect("it is there");
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
            Body::Thread { stop, thread, .. } => {
                stop();
                stop();
                join(thread);
            }
            // One that is gone already is as good.
            Body::Process { child, .. } => _ = (child.kill(), child.wait()),
        }
    }
}
