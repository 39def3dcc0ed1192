//! The program as its users meet it: the real binary, real processes, real sockets on free ports.
#![cfg(unix)]

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use ticketing_mio::{AcquireError, AcquireOptions, Client, Released, Secret, Token};

const TOKEN: &str = "sixteen bytes or more";
const OPTIONS: AcquireOptions = AcquireOptions::new(Duration::from_secs(1)).wait(Duration::from_secs(30));

fn program(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ticketing-mio"));
    command.args(arguments).env_clear();
    command
}

fn output(arguments: &[&str]) -> Output {
    program(arguments).output().expect("the program starts")
}

/// A server that ends with the test.
struct Server {
    child: Child,
    address: String,
}

impl Server {
    fn start(arguments: &[&str]) -> Self {
        Self::spawn(program(&[&["--listen", "127.0.0.1:0"], arguments].concat()).stderr(Stdio::null()))
    }

    fn spawn(command: &mut Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).spawn().expect("the program starts");
        let mut line = String::new();
        let stdout = child.stdout.as_mut().expect("it is piped");
        BufReader::new(stdout).read_line(&mut line).expect("it says that it is ready");
        let address =
            line.strip_prefix("ticketing-mio: ready on ").expect("it is ready").trim_end().to_owned();
        Self { child, address }
    }

    fn client(&self, token: &str) -> Client {
        let client = Client::builder().address(self.address.as_str()).token(Secret::new(token.as_bytes()));
        client.build().expect("a good configuration")
    }

    /// A peer that has sent requests and read no answer, until the server read no more either.
    fn deaf(&self) -> TcpStream {
        let mut peer = TcpStream::connect(&self.address).expect("it listens");
        peer.write_all(&[b'A'; 43]).expect("it reads");
        peer.write_all(b"\n").expect("it reads");
        peer.set_write_timeout(Some(Duration::from_secs(2))).expect("TCP");
        let releases = b"R\0\0\0\0\0\0\0\x01k\n".repeat(1000);
        while peer.write_all(&releases).is_ok() {}
        peer
    }

    fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(i32::try_from(self.child.id()).expect("a pid")), signal).expect("it runs");
    }

    /// A grant's token.
    fn granted(&self, key: &str) -> Token {
        self.client("").acquire(key, OPTIONS).expect("it is granted").token()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < Duration::from_secs(30), "{what}");
        thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn it_serves_those_who_know_the_token() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("token");
    fs::write(&file, format!("{TOKEN}\n")).expect("a file");
    let server = Server::start(&["--token-file", file.to_str().expect("UTF-8")]);
    let ticket = server.client(TOKEN).acquire("k", OPTIONS).expect("it is granted");
    assert_eq!(ticket.release(), Ok(Released::Released));
    let stranger = server.client("another token, as long");
    assert_eq!(stranger.acquire("k", OPTIONS).expect_err("it is refused"), AcquireError::Auth);
}

/// What is read again holds for connections that come, and what can't be used changes nothing.
#[test]
fn hup_has_it_read_the_token_again() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("token");
    fs::write(&file, TOKEN).expect("a file");
    let log = dir.path().join("log");
    let mut command = program(&["--listen", "127.0.0.1:0", "--token-file", file.to_str().expect("UTF-8")]);
    let server = Server::spawn(command.stderr(fs::File::create(&log).expect("a file")));
    let old = server.client(TOKEN);
    drop(old.acquire("k", OPTIONS).expect("it is granted"));
    let is_good = |token: &str| server.client(token).acquire("k", OPTIONS).is_ok();

    fs::write(&file, "short").expect("a file");
    server.signal(Signal::SIGHUP);
    eventually("it says that the old one stays", || {
        fs::read_to_string(&log).expect("a file").contains("16 bytes or more")
    });
    assert!(is_good(TOKEN));
    fs::write(&file, "another token, as long").expect("a file");
    server.signal(Signal::SIGHUP);
    eventually("the new token is good", || is_good("another token, as long"));
    assert!(!is_good(TOKEN));
    drop(old.acquire("k", OPTIONS).expect("who was let in lives on"));
}

/// N12, `TR-8`
#[test]
fn term_ends_it_in_good_order_and_a_second_one_at_once() {
    for signal in [Signal::SIGTERM, Signal::SIGINT] {
        let mut server = Server::start(&[]);
        let client = server.client("");
        let ticket = client.acquire("k", OPTIONS).expect("it is granted");
        server.signal(signal);
        drop(ticket);
        assert_eq!(server.child.wait().expect("it ends").code(), Some(0));
    }
    let mut server = Server::start(&[]);
    // The server would try for 5 s to flush what is owed to it.
    let _peer = server.deaf();
    server.signal(Signal::SIGTERM);
    eventually("the shutdown has begun", || TcpStream::connect(&server.address).is_err());
    server.signal(Signal::SIGTERM);
    assert_eq!(server.child.wait().expect("it ends").code(), Some(128 + 15), "0 is the end in good order");
}

/// `AD-6`: 10 s without progress are the peer's fault only if the server was there to see them.
#[test]
fn a_server_that_slept_does_not_blame_those_who_read_meanwhile() {
    let server = Server::start(&[]);
    let mut peer = server.deaf();
    server.signal(Signal::SIGSTOP);
    // All that the system has for it.
    let mut space = vec![0; 1 << 16];
    peer.set_read_timeout(Some(Duration::from_secs(11))).expect("TCP");
    while peer.read(&mut space).is_ok() {}
    peer.set_read_timeout(Some(Duration::from_secs(30))).expect("TCP");
    server.signal(Signal::SIGCONT);
    for _ in 0..10 {
        assert_ne!(peer.read(&mut space).expect("the server goes on"), 0);
    }
}

#[test]
fn what_is_wrong_ends_it_with_a_code_of_its_own() {
    let failed = |arguments: &[&str], code, word: &str| {
        let output = output(arguments);
        let stderr = String::from_utf8(output.stderr).expect("UTF-8");
        assert_eq!(output.status.code(), Some(code), "{stderr}");
        let mut complaints = stderr.lines().filter_map(|line| line.strip_prefix("ticketing-mio: "));
        assert!(complaints.any(|complaint| complaint.contains(word)), "{stderr}");
        assert!(output.stdout.is_empty(), "it was never ready");
    };
    failed(&["--max-keys", "0"], 64, "--max-keys");
    failed(&["--listen", "0.0.0.0:0"], 64, "--allow-no-token");
    failed(&["--token-file", "/nonexistent"], 64, "/nonexistent");
    let server = Server::start(&[]);
    failed(&["--listen", &server.address], 71, &server.address);
    failed(&["--state-dir", "/dev/null"], 71, "/dev/null");
}

/// `FI-8`
#[test]
fn tokens_rise_across_restarts_with_a_state_directory() {
    let dir = tempfile::tempdir().expect("a directory");
    let dir = dir.path().to_str().expect("UTF-8");
    let arguments = ["--state-dir", dir, "--first-token", "5"];
    let first = Server::start(&arguments).granted("k");
    assert_eq!(first.value(), 5);
    let server = Server::start(&arguments);
    assert!(server.granted("k") > first);
    let second = output(&["--listen", "127.0.0.1:0", "--state-dir", dir]);
    assert_eq!(second.status.code(), Some(71), "one server at a time");
}

/// N07: stderr is closed, or full.
#[test]
fn it_goes_on_when_nobody_takes_its_log() {
    let (reader, writer) = std::io::pipe().expect("a pipe");
    let mut closed = program(&["--listen", "127.0.0.1:0", "--log-level", "debug"]);
    let closed = Server::spawn(closed.stderr(writer));
    drop(reader);
    let full = fs::File::options().write(true).open("/dev/full").expect("Linux has it");
    let mut command = program(&["--listen", "127.0.0.1:0", "--log-level", "debug"]);
    let full = Server::spawn(command.stderr(full));
    for server in [closed, full] {
        for round in 0..100 {
            // Each leaves lines in the log.
            drop(TcpStream::connect(&server.address).expect("it listens"));
            if round % 10 == 0 {
                server.granted(&format!("k{round}"));
            }
        }
        server.granted("k");
    }
}

#[test]
fn help_version_and_check_need_nothing() {
    let good = |arguments: &[&str]| {
        let output = output(arguments);
        assert_eq!((output.status.code(), output.stderr), (Some(0), Vec::new()));
        String::from_utf8(output.stdout).expect("UTF-8")
    };
    assert!(good(&["--help"]).contains("--state-dir DIR  [env: TICKETING_STATE_DIR]"));
    assert_eq!(good(&["--version"]), format!("ticketing-mio {}\n", env!("CARGO_PKG_VERSION")));
    assert_eq!(good(&["--check-config"]), "ticketing-mio: the configuration is good\n");
}
