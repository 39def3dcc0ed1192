//! `ticketing ping`.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::process::Output;
use std::thread;

use crate::support::{Evidence, Server, stderr, stdout, ticketing};

fn ping(arguments: &[&str]) -> Output {
    ticketing("ping").args(arguments).output().expect("the program starts")
}

/// A server that does what `serve` says with its first connection.
fn fake(serve: impl FnOnce(&mut std::net::TcpStream) + Send + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address").to_string();
    thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("a peer");
        serve(&mut stream);
    });
    address
}

/// Sends the challenge and reads the response and an acquire with a key of 31 bytes.
fn until_acquire(stream: &mut std::net::TcpStream) -> [u8; 8] {
    stream.write_all(format!("sha256 {}\n", "n".repeat(43)).as_bytes()).expect("sent");
    let mut bytes = [0; 44 + 11 + 31 + 1];
    stream.read_exact(&mut bytes).expect("a response and an acquire");
    bytes[44 + 3..44 + 11].try_into().expect("8 bytes")
}

#[test]
fn it_prints_how_long_each_step_took() {
    let server = Server::start();
    let output = ping(&["--server", &server.address()]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let line = stdout(&output);
    assert!(line.starts_with(&format!("{}: connect ", server.address())), "{line}");
    for step in ["authenticate ", "acquire ", "release "] {
        assert!(line.contains(step), "{line}");
    }
    // Several servers, one of which is not there.
    let output = ping(&["--server", &server.address(), "--server", "127.0.0.1:1"]);
    assert_eq!(output.status.code(), Some(69));
    assert_eq!(stdout(&output).lines().count(), 1);
}

#[test]
fn the_exit_code_says_which_step_failed() {
    let code = |address: &str| ping(&["-t", "5", "--server", address]).status.code();
    // Connect.
    assert_eq!(code("127.0.0.1:1"), Some(69));
    assert_eq!(code("no-such-host.invalid"), Some(69));
    // Authenticate: silence, nonsense, an end, a refusal.
    assert_eq!(code(&fake(|stream| drop(stream.read(&mut [0])))), Some(77));
    assert_eq!(code(&fake(|stream| stream.write_all(b"220 mail.example.net\r\n").expect("sent"))), Some(77));
    assert_eq!(code(&fake(|_| ())), Some(77));
    let refusing = fake(|stream| {
        until_acquire(stream);
        stream.write_all(b"Eauth_failed\n").expect("sent");
    });
    assert_eq!(code(&refusing), Some(77));
    // Acquire: busy, or cut.
    let busy = fake(|stream| {
        until_acquire(stream);
        stream.write_all(b"Enot_active\n").expect("sent");
    });
    assert_eq!(code(&busy), Some(75));
    let cut = fake(|stream| _ = until_acquire(stream));
    assert_eq!(code(&cut), Some(75));
    // Usage.
    assert_eq!(ping(&["--no-such-flag"]).status.code(), Some(64));
    for wrong in ["0", "3601", "10000000000000000000"] {
        let output = ping(&["--timeout", wrong]);
        assert_eq!(output.status.code(), Some(64), "{wrong}");
        let said = stderr(&output);
        assert!(said.contains(wrong) && said.contains("at most 3600 s"), "{said}");
    }
}

#[test]
fn the_token_is_used() {
    let evidence = Evidence::new();
    let right = evidence.write("right", "the right token, 16+\n");
    let server = Server::with(&["--token-file", &right]);
    assert_eq!(ping(&["--server", &server.address(), "--token-file", &right]).status.code(), Some(0));
    assert_eq!(ping(&["--server", &server.address()]).status.code(), Some(77));
}
