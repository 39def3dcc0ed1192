//! The program, as its users meet it: what it says, and what it exits with.

#[path = "broken_servers/fault.rs"]
#[expect(dead_code, reason = "other tests need more of it")]
mod fault;
#[path = "broken_servers/model/mod.rs"]
mod model;

use std::io::Write as _;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Command, Output};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use fault::Fault;
use model::{Running, SECRET};
use ticketing_conformance::server::Limits;

/// A file that goes away with the test.
struct File(PathBuf);

impl File {
    fn new(name: &str, content: &[u8]) -> Self {
        let path = std::env::temp_dir().join(format!("ticketing-conformance-{}-{name}", std::process::id()));
        std::fs::write(&path, content).unwrap();
        Self(path)
    }

    fn path(&self) -> &str {
        self.0.to_str().unwrap()
    }
}

impl Drop for File {
    fn drop(&mut self) {
        std::fs::remove_file(&self.0).unwrap();
    }
}

fn program(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_ticketing-conformance")).args(arguments).output().unwrap()
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

/// The program's run against a server, with its token.
fn judge(server: &Running, token: &File, arguments: &[&str]) -> Output {
    let address = server.address.to_string();
    program(&[&["server", &address, "--token-file", token.path()], arguments].concat())
}

fn expect_no_judgement(output: &Output, reason: &str) {
    let text = stdout(output);
    assert_eq!(output.status.code(), Some(3), "{text}");
    assert!(text.contains("cannot be judged") && text.contains(reason), "no `{reason}` in: {text}");
    assert_eq!(text.lines().count(), 1, "{text}");
}

/// A server that does the same with every connection.
fn serve(act: fn(TcpStream, &mut Vec<TcpStream>)) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        sender.send(listener.local_addr().unwrap()).unwrap();
        let mut kept = Vec::new();
        listener.incoming().flatten().for_each(|stream| act(stream, &mut kept));
    });
    receiver.recv().unwrap()
}

/// U02
#[test]
fn a_port_where_nobody_listens_is_one_error() {
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    expect_no_judgement(&program(&["server", &address.to_string()]), "cannot connect");
}

/// U02
#[test]
fn a_server_that_closes_every_connection_does_not_pass() {
    let address = serve(|stream, _| drop(stream));
    expect_no_judgement(&program(&["server", &address.to_string()]), "challenge");
}

/// U02, U03
#[test]
fn a_server_that_is_silent_does_not_pass() {
    let address = serve(|stream, kept| kept.push(stream));
    let output = program(&["server", &address.to_string(), "--timeout", "1"]);
    expect_no_judgement(&output, "is one side TLS and the other not?");
}

/// U03
#[test]
fn a_server_whose_bytes_trickle_in_does_not_keep_it_waiting() {
    let address = serve(|mut stream, _| {
        thread::spawn(move || {
            while stream.write_all(b"s").is_ok() {
                thread::sleep(Duration::from_millis(200));
            }
        });
    });
    let output = program(&["server", &address.to_string(), "--timeout", "1"]);
    expect_no_judgement(&output, "nothing more than \"s");
}

/// U02
#[test]
fn another_protocol_is_no_server() {
    let address = serve(|mut stream, kept| {
        // The client may be gone already.
        _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n");
        kept.push(stream);
    });
    expect_no_judgement(&program(&["server", &address.to_string()]), "no frame begins with 43");
}

/// U02
#[test]
fn a_wrong_token_is_one_error() {
    let server = Running::start(None, Limits::default());
    let token = File::new("wrong", b"another secret of 16 bytes\n");
    expect_no_judgement(&judge(&server, &token, &[]), "refuses this token");
}

/// U01, U05
#[test]
fn a_server_that_is_right_is_a_success_in_every_report() {
    let server = Running::start(None, Limits::default());
    let token = File::new("token", &[SECRET, b"\n"].concat());
    let (json, junit) = (File::new("right.json", b""), File::new("right.xml", b""));
    let reports = ["--json", json.path(), "--junit", junit.path()];
    let output =
        judge(&server, &token, &[&["--only", "locks/", "--skip", "locks/wait"], &reports[..]].concat());
    assert_eq!(output.status.code(), Some(0), "{}", stdout(&output));
    assert!(stdout(&output).contains(": 10 passed, 0 failed (seed "), "{}", stdout(&output));
    let json = std::fs::read_to_string(&json.0).unwrap();
    assert!(json.contains(r#""success": true"#) && json.contains(r#""id": "locks/free-key""#), "{json}");
    let junit = std::fs::read_to_string(&junit.0).unwrap();
    assert!(junit.contains(r#"tests="10" failures="0" errors="0" skipped="0""#), "{junit}");
}

/// U01, U05
#[test]
fn a_fault_is_a_failure_in_every_report_unless_it_is_a_known_gap() {
    const SELECTION: [&str; 4] = ["--only", "queue/first", "--only", "queue/timed"];
    let server = Running::start(Some(Fault::ServesLastFirst), Limits::default());
    let token = File::new("token-of-broken", SECRET);
    let junit = File::new("broken.xml", b"");
    let reports = ["--json", "-", "--junit", junit.path()];
    let output = judge(&server, &token, &[&SELECTION[..], &reports].concat());
    assert_eq!(output.status.code(), Some(1));
    let json = stdout(&output);
    assert!(json.contains(r#""success": false"#) && json.contains(r#""outcome": "failed""#), "{json}");
    let junit = std::fs::read_to_string(&junit.0).unwrap();
    assert!(junit.contains(r#"tests="2" failures="1""#), "{junit}");

    let gaps = File::new("gaps", b"queue/first-* = we serve the last one first\n");
    let output = judge(&server, &token, &[&SELECTION[..], &["--known-gaps", gaps.path()]].concat());
    let text = stdout(&output);
    assert_eq!(output.status.code(), Some(0), "{text}");
    assert!(text.contains("known gap: queue/first-come-first-served: we serve the last one first"), "{text}");

    let stale =
        File::new("stale", b"queue/first-* = we serve the last one first\nqueue/timed-* = long mended\n");
    let output = judge(&server, &token, &[&SELECTION[..], &["--known-gaps", stale.path()]].concat());
    assert_eq!(output.status.code(), Some(1));
    assert!(stdout(&output).contains("STALE known gap `queue/timed-*`"), "{}", stdout(&output));
}

/// U05
#[test]
fn cases_are_listed_without_a_server_and_a_prefix_that_fits_none_is_an_error() {
    let output = program(&["server", "--list", "--quick", "--only", "leases/"]);
    let text = stdout(&output);
    assert_eq!(output.status.code(), Some(0));
    assert!(text.starts_with("leases/release-too-late (MUST, OP-5, OP-6)\n    A release after"), "{text}");
    assert!(!text.contains("leases/no-renewal"), "{text}");

    let output = program(&["server", "127.0.0.1:1", "--only", "leases/none-such"]);
    assert_eq!(output.status.code(), Some(2));
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(error.contains("no case has an id that fits `leases/none-such`"), "{error}");
    let gaps = File::new("misspelt", b"leases/none-* = misspelt\n");
    let output = program(&["server", "127.0.0.1:1", "--known-gaps", gaps.path()]);
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(program(&["server"]).status.code(), Some(2));
}
