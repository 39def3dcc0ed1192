//! Requests a second of every server, in plain text and inside TLS 1.3, under one load, in one run.
//!
//! ```console
//! $ cargo build --release --workspace
//! $ cargo bench -p ticketing-mio --bench servers -- [ROUNDS [SECONDS]] [CxW...]
//! ```
//!
//! With `--features ticketing-async-std/smol` the row of async-std is smol's. Each server is a process of its own; the
//! libraries' servers are this program, told so. In each round all of them take their turns, so that what else the
//! machine does meets all alike, and the medians are compared. What counts is the ratio: the numbers move from machine
//! to machine, and on a shared one by a tenth from run to run.

#[expect(dead_code, reason = "tests need more of it")]
#[path = "../../ticketing-proto/tests/support/certificates.rs"]
mod certificates;
#[path = "../../ticketing-host/suite/load.rs"]
mod load;

use std::env;
use std::fs;
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use certificates::Authority;
use load::Link;
use ticketing_async_std::runtime::AsyncIo;
use ticketing_host::runtime::Runtime;
use ticketing_host::server::{Server, ServerConfig, fresh_tokens};
use ticketing_mio::Secret;
use ticketing_mio::tls::ServerFiles;
use ticketing_mio::tls::rustls::RootCertStore;
use ticketing_mio::tls::rustls::client::{ClientConfig, ClientConnection};
use ticketing_mio::tls::rustls::crypto::ring;
use ticketing_mio::tls::rustls::pki_types::pem::PemObject as _;
use ticketing_mio::tls::rustls::pki_types::{CertificateDer, ServerName};
use ticketing_mio::tls::rustls::version::TLS13;
use ticketing_tokio::runtime::Tokio;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::runtime::Builder;

/// One connection with many operations under way, many with one each, many with many.
const SHAPES: [(usize, usize); 3] = [(1, 64), (64, 1), (64, 64)];
/// The first one in plain text is what all are compared with.
const LIBRARIES: [&str; 3] = ["tokio", "mio", "async-std"];
/// What makes this program a server, of the library that is named behind it.
const SERVE: &str = "--serve";
/// What a server says before its address.
const READY: &str = ": ready on ";

fn main() -> io::Result<()> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [SERVE, library] => serve(library, None),
        [SERVE, library, certificate, key] => serve(library, Some(ServerFiles::new(certificate, key))),
        _ => compare(),
    }
}

/// Serves for ever.
fn serve(library: &str, files: Option<ServerFiles>) -> io::Result<()> {
    let mut config = ServerConfig::new(Secret::default(), fresh_tokens()?);
    config.tls = files.map(|files| files.read()).transpose().map_err(io::Error::other)?;
    match library {
        "mio" => {
            let server = ticketing_mio::Server::bind(ANY_PORT, config)?;
            println!("{library}{READY}{}", server.local_addrs()[0]);
            server.run()
        }
        "tokio" => serve_async::<Tokio>(library, config),
        "async-std" => serve_async::<AsyncIo>(library, config),
        other => Err(io::Error::other(format!("no library is called {other}"))),
    }
}

const ANY_PORT: &str = "127.0.0.1:0";

fn serve_async<R: Runtime>(library: &str, config: ServerConfig) -> io::Result<()> {
    Builder::new_current_thread().enable_all().build()?.block_on(async {
        let server = Server::<R>::bind(ANY_PORT, config).await?;
        println!("{library}{READY}{}", server.local_addrs()[0]);
        server.serve().await
    })
}

fn compare() -> io::Result<()> {
    let (rounds, span) = load::rounds();
    let dir = tempfile::tempdir()?;
    let authority = Authority::new("authority");
    let identity = authority.identity(&["127.0.0.1"]);
    let files = [dir.path().join("certificate"), dir.path().join("key")];
    fs::write(&files[0], identity.certificate)?;
    fs::write(&files[1], identity.key)?;
    let trust = trust(&authority)?;
    let servers = start_all(&files)?;

    for (connections, depth) in load::wanted_shapes(&SHAPES) {
        let mut measured = vec![Vec::new(); servers.len()];
        for _ in 0..rounds {
            for (server, measured) in servers.iter().zip(&mut measured) {
                measured.push(measure(server, &trust, connections, depth, span)?);
            }
        }
        let medians: Vec<f64> = measured.into_iter().map(median).collect();
        println!("\n{:20} | requests/s | to tokio | TLS to plain", format!("{connections} x {depth}"));
        let mut plain = medians[0];
        for (server, &rate) in servers.iter().zip(&medians) {
            let ratio = rate / medians[0];
            if server.has_tls {
                println!(
                    "{:20} | {rate:10.0} | {ratio:8.2} | {:.2}",
                    format!("{}, TLS", server.name),
                    rate / plain
                );
            } else {
                println!("{:20} | {rate:10.0} | {ratio:8.2} |", server.name);
                plain = rate;
            }
        }
    }
    Ok(())
}

/// Each without TLS and then with it.
fn start_all(files: &[PathBuf; 2]) -> io::Result<Vec<Process>> {
    let own = env::current_exe()?;
    let small = Path::new(env!("CARGO_BIN_EXE_ticketing-mio"));
    let full = small.with_file_name("ticketing");
    let mut servers = Vec::new();
    for library in LIBRARIES {
        for tls in [None, Some(files)] {
            let mut command = Command::new(&own);
            command.args([SERVE, library]).args(tls.into_iter().flatten());
            servers.push(Process::start(library, tls.is_some(), command)?);
        }
    }
    for (name, program, subcommand) in
        [("ticketing-mio", small, None), ("ticketing serve", &*full, Some("serve"))]
    {
        if !program.exists() {
            println!("{name} is left out: {} is not built", program.display());
            continue;
        }
        for tls in [None, Some(files)] {
            let mut command = Command::new(program);
            command.env_clear().args(subcommand).args(["--listen", ANY_PORT]);
            if let Some([certificate, key]) = tls {
                command.arg("--tls-cert").arg(certificate).arg("--tls-key").arg(key);
            }
            servers.push(Process::start(name, tls.is_some(), command)?);
        }
    }
    Ok(servers)
}

/// A server that ends with the measurement.
struct Process {
    name: &'static str,
    has_tls: bool,
    address: SocketAddr,
    child: Child,
}

impl Process {
    fn start(name: &'static str, has_tls: bool, mut command: Command) -> io::Result<Self> {
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?;
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().expect("a pipe")).read_line(&mut line)?;
        let address = line.trim_end().split_once(READY).and_then(|(_, address)| address.parse().ok());
        let address = address.ok_or_else(|| io::Error::other(format!("{name} is not ready: {line}")))?;
        Ok(Self { name, has_tls, address, child })
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // One that is gone already is as good.
        _ = (self.child.kill(), self.child.wait());
    }
}

fn trust(authority: &Authority) -> io::Result<Arc<ClientConfig>> {
    let mut roots = RootCertStore::empty();
    let certificate = CertificateDer::from_pem_slice(authority.pem().as_bytes()).map_err(io::Error::other)?;
    roots.add(certificate).map_err(io::Error::other)?;
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let builder = builder.with_protocol_versions(&[&TLS13]).map_err(io::Error::other)?;
    Ok(Arc::new(builder.with_root_certificates(roots).with_no_client_auth()))
}

/// Requests a second.
fn measure(
    server: &Process,
    trust: &Arc<ClientConfig>,
    connections: usize,
    depth: usize,
    span: Duration,
) -> io::Result<f64> {
    Builder::new_current_thread().enable_all().build()?.block_on(async {
        let (mut plain, mut inside) = (Vec::new(), Vec::new());
        for _ in 0..connections {
            let stream = TcpStream::connect(server.address).await?;
            stream.set_nodelay(true)?;
            if server.has_tls {
                inside.push(load::authenticated(Tls::new(stream, trust)?).await?);
            } else {
                plain.push(load::authenticated(stream).await?);
            }
        }
        let (operations, elapsed) = if server.has_tls {
            load::drive(inside, depth, span).await
        } else {
            load::drive(plain, depth, span).await
        };
        Ok(2.0 * operations as f64 / elapsed.as_secs_f64())
    })
}

fn median(mut rates: Vec<f64>) -> f64 {
    rates.sort_by(f64::total_cmp);
    rates[rates.len() / 2]
}

/// A connection inside TLS.
struct Tls {
    stream: TcpStream,
    connection: ClientConnection,
    /// Ciphertext from the server.
    space: Vec<u8>,
}

impl Tls {
    fn new(stream: TcpStream, trust: &Arc<ClientConfig>) -> io::Result<Self> {
        let name = ServerName::from(stream.peer_addr()?.ip());
        let connection = ClientConnection::new(Arc::clone(trust), name).map_err(io::Error::other)?;
        Ok(Self { stream, connection, space: vec![0; 64 * 1024] })
    }

    async fn flush(&mut self) -> io::Result<()> {
        let mut sealed = Vec::new();
        while self.connection.wants_write() {
            self.connection.write_tls(&mut sealed)?;
        }
        self.stream.write_all(&sealed).await
    }
}

impl Link for Tls {
    async fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.connection.set_buffer_limit(None);
        self.connection.writer().write_all(bytes)?;
        self.flush().await
    }

    async fn receive(&mut self, space: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.connection.reader().read(space) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                done => return done,
            }
            self.flush().await?;
            let len = self.stream.read(&mut self.space).await?;
            if len == 0 {
                return Ok(0);
            }
            let mut sealed = &self.space[..len];
            while !sealed.is_empty() {
                self.connection.read_tls(&mut sealed)?;
                self.connection.process_new_packets().map_err(io::Error::other)?;
            }
        }
    }
}
