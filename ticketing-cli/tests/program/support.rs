//! Starts programs, and looks at what they do.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tempfile::TempDir;
use ticketing_proto::id::Owner;
use ticketing_proto::key::KeyRef;
use ticketing_proto::limits::{Lease, Wait};
use ticketing_proto::wire::auth::{Secret, parse_challenge, respond};
use ticketing_proto::wire::{Acquire, Request};

/// How long anything may take that should be quick.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// The program, with nothing of the tests' own environment in its way.
pub(crate) fn ticketing(subcommand: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ticketing"));
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("TICKETING_") {
            command.env_remove(name);
        }
    }
    command.arg(subcommand).stdin(Stdio::null());
    command
}

/// `ticketing serve`, whose log nobody wants to see.
pub(crate) fn quiet_serve() -> Command {
    let mut command = ticketing("serve");
    command.stderr(Stdio::null());
    command
}

/// `ticketing serve` on a free port.
pub(crate) struct Server {
    pub(crate) child: Child,
    pub(crate) addresses: Vec<SocketAddr>,
    pub(crate) ready_line: String,
}

impl Server {
    pub(crate) fn start() -> Self {
        Self::with(&[])
    }

    pub(crate) fn with(arguments: &[&str]) -> Self {
        let mut command = quiet_serve();
        command.args(["--listen", "127.0.0.1:0"]).args(arguments);
        Self::spawn(command)
    }

    pub(crate) fn spawn(mut command: Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).spawn().expect("the program starts");
        let mut ready_line = String::new();
        let stdout = child.stdout.take().expect("a pipe");
        BufReader::new(stdout).read_line(&mut ready_line).expect("a line of UTF-8");
        let list = ready_line.trim_end().strip_prefix("ticketing: ready on ");
        let list = list.unwrap_or_else(|| panic!("not ready: {ready_line:?}"));
        let addresses = list.split(", ").map(|address| address.parse().expect("an address")).collect();
        Self { child, addresses, ready_line }
    }

    pub(crate) fn address(&self) -> String {
        self.addresses[0].to_string()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        send(&self.child, signal);
    }

    /// A `ticketing run` that uses this server.
    pub(crate) fn run(&self, arguments: &[&str]) -> Command {
        let mut command = ticketing("run");
        command.args(["--server", &self.address()]).args(arguments);
        command
    }

    /// The same, run to its end.
    pub(crate) fn run_to_end(&self, arguments: &[&str]) -> Output {
        self.run(arguments).output().expect("the program starts")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        kill_and_reap(&mut self.child);
    }
}

/// A child that does not outlive the test.
pub(crate) struct Running(pub(crate) Child);

impl Running {
    pub(crate) fn spawn(mut command: Command) -> Self {
        Self(command.spawn().expect("the program starts"))
    }

    /// With its stderr in a pipe.
    pub(crate) fn spawn_piped(command: &mut Command) -> Self {
        Self(command.stderr(Stdio::piped()).spawn().expect("the program starts"))
    }

    pub(crate) fn signal(&self, signal: Signal) {
        send(&self.0, signal);
    }

    /// Stops it. It does nothing any more when this returns.
    pub(crate) fn stop(&self) {
        stop(pid(&self.0));
    }

    pub(crate) fn wait(&mut self) -> ExitStatus {
        let mut ended = None;
        eventually("the program ends", || {
            ended = self.0.try_wait().expect("it can be waited for");
            ended.is_some()
        });
        ended.expect("just seen")
    }

    pub(crate) fn code(&mut self) -> Option<i32> {
        self.wait().code()
    }

    /// All of its stderr, once it has ended.
    pub(crate) fn stderr(&mut self) -> String {
        let mut text = String::new();
        self.0.stderr.take().expect("a pipe").read_to_string(&mut text).expect("UTF-8");
        text
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        kill_and_reap(&mut self.0);
    }
}

fn kill_and_reap(child: &mut Child) {
    // One that is gone already is as good.
    let _ = child.kill();
    let _ = child.wait();
}

pub(crate) fn send(child: &Child, signal: Signal) {
    kill(pid(child), signal).expect("the process is there");
}

/// Stops a process, and waits until it has stopped.
pub(crate) fn stop(process: Pid) {
    kill(process, Signal::SIGSTOP).expect("the process is there");
    eventually("it has stopped", || process_state(process) == Some('T'));
}

/// A process's state, from `/proc`.
pub(crate) fn process_state(process: Pid) -> Option<char> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    stat.rsplit(')').next()?.trim_start().chars().next()
}

pub(crate) fn pid(child: &Child) -> Pid {
    Pid::from_raw(i32::try_from(child.id()).expect("a pid"))
}

/// Waits until something is so.
pub(crate) fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < PATIENCE, "it never came: {what}");
        thread::sleep(Duration::from_millis(2));
    }
}

pub(crate) fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).expect("UTF-8")
}

pub(crate) fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).expect("UTF-8")
}

/// A directory for what commands leave as evidence.
pub(crate) struct Evidence(TempDir);

impl Evidence {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().expect("a directory"))
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub(crate) fn text(&self, name: &str) -> String {
        self.path(name).to_str().expect("UTF-8").to_owned()
    }

    pub(crate) fn write(&self, name: &str, content: impl AsRef<[u8]>) -> String {
        fs::write(self.path(name), content).expect("written");
        self.text(name)
    }

    pub(crate) fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap_or_default()
    }

    /// Waits until a command has written a whole line, and gives its words.
    pub(crate) fn line(&self, name: &str) -> String {
        eventually(name, || self.read(name).ends_with('\n'));
        self.read(name).trim_end().to_owned()
    }
}

/// The processes whose command line has `needle` in it and that are alive.
pub(crate) fn alive(needle: &str) -> Vec<(Pid, String)> {
    processes().into_iter().filter(|(_, line)| line.contains(needle)).collect()
}

/// All processes that are alive, with their command lines.
pub(crate) fn processes() -> Vec<(Pid, String)> {
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").expect("Linux") {
        let entry = entry.expect("readable").path();
        let Some(pid) = entry.file_name().and_then(|name| name.to_str()?.parse().ok()) else { continue };
        let Ok(line) = fs::read(entry.join("cmdline")) else { continue };
        // A zombie has an empty command line.
        if !line.is_empty() {
            found.push((Pid::from_raw(pid), String::from_utf8_lossy(&line).replace('\0', " ")));
        }
    }
    found
}

/// The parent's number, from `/proc`.
pub(crate) fn parent(pid: Pid) -> Option<i32> {
    let stat = fs::read_to_string(Path::new("/proc").join(pid.to_string()).join("stat")).ok()?;
    stat.rsplit(')').next()?.split_ascii_whitespace().nth(1)?.parse().ok()
}

/// The guard that a `ticketing run` has started.
pub(crate) fn guard_of(run: &Child) -> Pid {
    let mut guard = None;
    eventually("the guard", || {
        let own = i32::try_from(run.id()).ok();
        guard = alive("__guard").into_iter().map(|(pid, _)| pid).find(|&pid| parent(pid) == own);
        guard.is_some()
    });
    guard.expect("just seen")
}

/// A client of bytes.
pub(crate) struct Wire {
    pub(crate) stream: TcpStream,
}

impl Wire {
    /// Connects and answers the challenge.
    pub(crate) fn connect(address: &str, secret: &[u8]) -> Self {
        let mut wire = Self::silent(address);
        let mut line = Vec::new();
        let mut byte = [0];
        while byte != *b"\n" {
            wire.stream.read_exact(&mut byte).expect("the challenge");
            line.extend_from_slice(&byte);
        }
        let nonce = parse_challenge(line.strip_suffix(b"\n").expect("a line")).expect("a challenge");
        let mut response = respond(&Secret::new(secret), nonce).to_vec();
        response.push(b'\n');
        wire.send(&response);
        wire
    }

    /// What a server gets of a `ticketing run` that asks for the lock `k`, when the test plays the server: the acquire
    /// has come, and its owner is told.
    pub(crate) fn asked_for_k(listener: &TcpListener) -> (Self, [u8; 8]) {
        let (stream, _) = listener.accept().expect("a peer");
        stream.set_read_timeout(Some(PATIENCE)).expect("TCP");
        let mut wire = Self { stream };
        wire.send(format!("sha256 {}\n", "n".repeat(43)).as_bytes());
        let mut frame = [0; 44 + 11 + 2];
        wire.stream.read_exact(&mut frame).expect("a response and an acquire");
        assert_eq!((frame[44], &frame[55..]), (b'A', &b"k\n"[..]));
        (wire, frame[47..55].try_into().expect("8 bytes"))
    }

    /// Grants `k` by hand, as the server.
    pub(crate) fn grant_k(&mut self, token: u64, owner: [u8; 8]) {
        self.send(&[&b"A"[..], &token.to_be_bytes(), &owner, b"k\n"].concat());
    }

    /// Takes the release of `k`, and confirms it, as the server. Whose it is.
    pub(crate) fn take_back_k(&mut self) -> u64 {
        let mut frame = [0; 1 + 8 + 2];
        self.stream.read_exact(&mut frame).expect("a release");
        assert_eq!((frame[0], &frame[9..]), (b'R', &b"k\n"[..]));
        self.send(&frame);
        u64::from_be_bytes(frame[1..9].try_into().expect("8 bytes"))
    }

    /// Connects and says nothing.
    pub(crate) fn silent(address: &str) -> Self {
        let stream = TcpStream::connect(address).expect("the server listens");
        stream.set_nodelay(true).expect("TCP");
        stream.set_read_timeout(Some(PATIENCE)).expect("TCP");
        Self { stream }
    }

    pub(crate) fn send(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).expect("sent");
    }

    pub(crate) fn acquire(&mut self, wait: u8, lease: u8, owner: u64, key: &str) {
        let mut bytes = Vec::new();
        Request::Acquire(Acquire {
            wait: Wait::from_secs(wait),
            lease: Lease::from_secs(lease).expect("a lease"),
            owner: Owner::new(owner).expect("an owner"),
            key: KeyRef::for_client(key).expect("a key"),
        })
        .encode(&mut bytes);
        self.send(&bytes);
    }

    pub(crate) fn release(&mut self, token: u64, key: &str) {
        let mut bytes = vec![b'R'];
        bytes.extend_from_slice(&token.to_be_bytes());
        bytes.extend_from_slice(key.as_bytes());
        bytes.push(b'\n');
        self.send(&bytes);
    }

    /// The next reply to an acquire: its op, and the token of an `A`.
    pub(crate) fn acquired(&mut self, key: &str) -> (u8, Option<u64>) {
        let op = self.byte();
        let header = if op == b'A' { 16 } else { 8 };
        let mut rest = vec![0; header + key.len() + 1];
        self.stream.read_exact(&mut rest).expect("a reply");
        let token = u64::from_be_bytes(rest[..8].try_into().expect("8 bytes"));
        (op, (op == b'A').then_some(token))
    }

    /// The next reply's op, of a reply to a release.
    pub(crate) fn released(&mut self, key: &str) -> u8 {
        let op = self.byte();
        let mut rest = vec![0; 8 + key.len() + 1];
        self.stream.read_exact(&mut rest).expect("a reply");
        op
    }

    /// Sends requests and reads no answer, until the server reads no more either.
    pub(crate) fn be_deaf(&mut self) {
        self.stream.set_write_timeout(Some(Duration::from_secs(2))).expect("TCP");
        let releases = b"R\0\0\0\0\0\0\0\x01s\n".repeat(1000);
        while self.stream.write_all(&releases).is_ok() {}
    }

    /// Everything until the server closes.
    pub(crate) fn rest(&mut self) -> Vec<u8> {
        let mut bytes = Vec::new();
        self.stream.read_to_end(&mut bytes).expect("an end of stream");
        bytes
    }

    fn byte(&mut self) -> u8 {
        let mut op = [0];
        self.stream.read_exact(&mut op).expect("a reply");
        op[0]
    }
}
