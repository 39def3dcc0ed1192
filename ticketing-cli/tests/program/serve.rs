//! `ticketing serve`: configuration, start, end.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;

use crate::support::{
    Evidence, PATIENCE, Running, Server, Wire, eventually, pid, quiet_serve, stderr, stdout, stop, ticketing,
};

fn serve(arguments: &[&str]) -> Output {
    ticketing("serve").args(arguments).output().expect("the program starts")
}

#[test]
fn it_says_where_it_is_ready_and_serves_there() {
    let server = Server::with(&["--listen", "[::1]:0"]);
    assert_eq!(server.addresses.len(), 2);
    for address in &server.addresses {
        assert_ne!(address.port(), 0, "{}", server.ready_line);
        let mut client = Wire::connect(&address.to_string(), b"");
        client.acquire(0, 1, 1, &format!("k{}", address.port()));
        assert_eq!(client.acquired(&format!("k{}", address.port())).0, b'A');
    }
}

#[test]
fn both_families_can_be_listened_on_at_one_port() {
    let first = Server::with(&[]);
    let port = first.addresses[0].port();
    drop(first);
    let wildcards = format!("[::]:{port},0.0.0.0:{port}");
    let mut command = quiet_serve();
    command.args(["--allow-no-token", "--listen", &wildcards]);
    let server = Server::spawn(command);
    for address in [format!("127.0.0.1:{port}"), format!("[::1]:{port}"), format!("localhost:{port}")] {
        Wire::connect(&address, b"");
    }
    assert_eq!(server.addresses.len(), 2);
}

#[test]
fn term_ends_it_in_good_order_with_code_0() {
    for signal in [Signal::SIGTERM, Signal::SIGINT] {
        let mut server = Server::start();
        let address = server.address();
        let mut quiet: Vec<Wire> = (0..100).map(|_| Wire::connect(&address, b"")).collect();
        let mut holder = Wire::connect(&address, b"");
        holder.acquire(0, 60, 1, "k");
        assert_eq!(holder.acquired("k").0, b'A');
        let mut waiting: Vec<Wire> = (1..=10)
            .map(|owner| {
                let mut waiter = Wire::connect(&address, b"");
                waiter.acquire(60, 60, owner, "k");
                // Answered behind it: it waits.
                waiter.release(1, "s");
                assert_eq!(waiter.released("s"), b'N');
                waiter
            })
            .collect();
        let mut half = Wire::connect(&address, b"");
        half.send(b"A\x00\x05");
        let mut silent = Wire::silent(&address);
        // All of the quiet ones are through their handshakes.
        for wire in &mut quiet {
            wire.release(1, "s");
            assert_eq!(wire.released("s"), b'N');
        }
        let start = Instant::now();
        server.signal(signal);
        eventually("it accepts no more", || TcpStream::connect(&address).is_err());
        for wire in waiting.iter_mut().chain(&mut quiet) {
            assert_eq!(wire.rest(), b"Enot_active\n");
        }
        assert!(silent.rest().starts_with(b"sha256 "), "the challenge and no word more");
        assert!(half.rest().ends_with(b"not_active\n"));
        drop((quiet, waiting, half, silent, holder));
        let status = server.child.wait().expect("it ends");
        assert_eq!(status.code(), Some(0), "{signal}");
        // Long before the waits and leases end.
        assert!(start.elapsed() < PATIENCE);
    }
}

#[test]
fn a_second_signal_ends_it_at_once() {
    let mut server = Server::start();
    // The server would try for 5 s to flush what is owed to it.
    let mut peer = Wire::connect(&server.address(), b"");
    peer.be_deaf();
    server.signal(Signal::SIGTERM);
    eventually("the shutdown has begun", || TcpStream::connect(server.addresses[0]).is_err());
    server.signal(Signal::SIGTERM);
    assert_eq!(server.child.wait().expect("it ends").code(), Some(128 + 15), "0 is the end in good order");
}

/// `AD-6`: 10 s without progress are the peer's fault only if the server was there to see them.
#[test]
fn a_server_that_slept_does_not_blame_those_who_read_meanwhile() {
    let server = Server::start();
    let mut peer = Wire::connect(&server.address(), b"");
    peer.be_deaf();
    stop(pid(&server.child));
    // All that the system has for it.
    let mut space = vec![0; 1 << 16];
    peer.stream.set_read_timeout(Some(Duration::from_secs(11))).expect("TCP");
    while peer.stream.read(&mut space).is_ok() {}
    peer.stream.set_read_timeout(Some(PATIENCE)).expect("TCP");
    server.signal(Signal::SIGCONT);
    for _ in 0..10 {
        assert_ne!(peer.stream.read(&mut space).expect("the server goes on"), 0);
    }
}

#[test]
fn an_address_in_use_is_an_error_that_names_it() {
    let server = Server::start();
    let output = serve(&["--listen", &server.address()]);
    assert_eq!(output.status.code(), Some(71));
    assert!(stderr(&output).contains(&server.address()), "{}", stderr(&output));
    assert_eq!(stdout(&output), "", "it was never ready");
}

#[test]
fn after_kill_9_it_starts_again_at_once_on_the_same_port() {
    let mut server = Server::start();
    let address = server.address();
    // Connections that the server's side closes, so that its sockets linger.
    for _ in 0..50 {
        let mut wire = Wire::connect(&address, b"");
        wire.send(b"?");
        assert_eq!(wire.rest(), b"Ebad_op\n");
    }
    let mut open = Wire::connect(&address, b"");
    server.signal(Signal::SIGKILL);
    server.child.wait().expect("it ends");
    let mut command = quiet_serve();
    command.args(["--listen", &address]);
    let again = Server::spawn(command);
    assert_eq!(again.address(), address);
    let mut end = Vec::new();
    // A reset or an end of stream: the old connection did not live on.
    let _ = open.stream.read_to_end(&mut end);
    assert_eq!(
        serve(&["--listen", &address]).status.code(),
        Some(71),
        "and a second one does not share the port"
    );
}

#[test]
fn beyond_loopback_it_wants_a_token_or_an_explicit_word() {
    for address in ["0.0.0.0:0", "[::]:0"] {
        let output = serve(&["--listen", address]);
        assert_eq!(output.status.code(), Some(64));
        assert!(stderr(&output).contains("--allow-no-token"), "{}", stderr(&output));
        assert_eq!(
            serve(&["--listen", address, "--allow-no-token", "--check-config"]).status.code(),
            Some(0)
        );
    }
    let evidence = Evidence::new();
    let token = evidence.write("token", "sixteen bytes or more");
    assert_eq!(
        serve(&["--listen", "0.0.0.0:0", "--token-file", &token, "--check-config"]).status.code(),
        Some(0)
    );
}

#[test]
fn a_sloppy_token_is_refused() {
    let evidence = Evidence::new();
    for (name, content) in [
        ("empty", &b""[..]),
        ("lf", b"\n"),
        ("crlf", b"\r\n"),
        ("short", b"fifteen bytes..\r\n"),
        ("huge", &[b'x'; 5000]),
    ] {
        let file = evidence.write(name, content);
        assert_eq!(serve(&["--token-file", &file]).status.code(), Some(64), "{name}");
    }
    assert_eq!(serve(&["--token-file", "/nonexistent"]).status.code(), Some(64));
    let with = |name: &str, value: &str| ticketing("serve").env(name, value).output().expect("it starts");
    for (name, value) in [("TICKETING_TOKEN", ""), ("TICKETING_TOKEN_FILE", ""), ("TICKETING_TOKEN", "short")]
    {
        assert_eq!(with(name, value).status.code(), Some(64), "{name}={value}");
    }
    // A token is bytes; one line end of either kind is not part of it, at both ends alike.
    let raw = evidence.write("raw", b"\xff\xfe not UTF-8 at all\r\n");
    let server = Server::with(&["--token-file", &raw]);
    let same = evidence.write("same", b"\xff\xfe not UTF-8 at all");
    assert_eq!(server.run_to_end(&["--token-file", &same, "k", "--", "true"]).status.code(), Some(0));
    let mut wire = Wire::connect(&server.address(), b"\xff\xfe not UTF-8 at all");
    wire.acquire(0, 1, 1, "raw");
    assert_eq!(wire.acquired("raw").0, b'A');
}

#[test]
fn without_a_token_any_well_formed_response_passes() {
    let server = Server::start();
    let mut wire = Wire::connect(&server.address(), b"whatever");
    wire.acquire(0, 1, 1, "k");
    assert_eq!(wire.acquired("k").0, b'A');
}

#[test]
fn a_flag_beats_the_environment_beats_the_file_beats_the_default() {
    let evidence = Evidence::new();
    let config =
        |listen: &str| evidence.write("config.toml", format!("listen = [\"{listen}\"]\nmax-keys = 5\n"));
    let start = |file: &str, variable: Option<&str>, flag: Option<&str>| {
        let mut command = quiet_serve();
        command.args(["--config", file]);
        if let Some(variable) = variable {
            command.env("TICKETING_LISTEN", variable);
        }
        if let Some(flag) = flag {
            command.args(["--listen", flag]);
        }
        Server::spawn(command).addresses[0].ip().to_string()
    };
    let file = config("127.0.0.2:0");
    assert_eq!(start(&file, None, None), "127.0.0.2");
    assert_eq!(start(&file, Some("127.0.0.3:0"), None), "127.0.0.3");
    assert_eq!(start(&file, Some("127.0.0.3:0"), Some("127.0.0.4:0")), "127.0.0.4");

    // The same with a limit, which one key shows: with 1 allowed, none is.
    let denied = |variable: Option<&str>, flag: &[&str]| {
        let file = evidence.write("limits.toml", "listen = [\"127.0.0.1:0\"]\nmax-keys = 1\n");
        let mut command = quiet_serve();
        command.args(["--config", &file]).args(flag);
        if let Some(variable) = variable {
            command.env("TICKETING_MAX_KEYS", variable);
        }
        let server = Server::spawn(command);
        let mut wire = Wire::connect(&server.address(), b"");
        wire.acquire(0, 60, 1, "a");
        assert_eq!(wire.acquired("a").0, b'A');
        wire.acquire(0, 5, 2, "b");
        wire.acquired("b").0 == b'B'
    };
    assert!(denied(None, &[]));
    assert!(!denied(Some("10"), &[]));
    assert!(denied(Some("10"), &["--max-keys", "1"]));
}

#[test]
fn an_unknown_key_or_a_bad_value_is_an_error_that_names_it() {
    let evidence = Evidence::new();
    let error = |text: &str| {
        let file = evidence.write("config.toml", text);
        let output = serve(&["--config", &file, "--check-config"]);
        assert_eq!(output.status.code(), Some(64), "{text}");
        stderr(&output)
    };
    assert!(error("max-kyes = 5").contains("max-kyes"));
    let zero = error("max-waiters = 0");
    assert!(zero.contains("max-waiters") && zero.contains("from 1 to"), "{zero}");
    assert!(error("listen = 5").contains("listen"));
    assert!(error("not toml").contains("config.toml"));
    assert_eq!(serve(&["--config", "/nonexistent"]).status.code(), Some(64));

    let flag = serve(&["--max-keys", "0"]);
    assert_eq!(flag.status.code(), Some(64));
    assert!(stderr(&flag).contains("--max-keys") && stderr(&flag).contains("from 1 to"), "{}", stderr(&flag));
    let variable = ticketing("serve").env("TICKETING_MAX_KEYS", "many").output().expect("it starts");
    assert_eq!(variable.status.code(), Some(64));
    assert!(stderr(&variable).contains("many"), "{}", stderr(&variable));
}

#[test]
fn check_config_checks_and_does_not_serve() {
    let evidence = Evidence::new();
    let server = Server::start();
    let state = evidence.text("state");
    // Also while the address is in use, and without making the state directory.
    let output = serve(&["--listen", &server.address(), "--state-dir", &state, "--check-config"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(!evidence.path("state").exists());
    // What is in the state directory, and whether there could be one.
    let used_up = evidence.path("used up");
    fs::create_dir(&used_up).expect("made");
    fs::write(used_up.join("tokens"), format!("tokens up to {}\n", u64::MAX)).expect("written");
    let missing = evidence.text("missing/state");
    for (dir, code, why) in [(evidence.text("used up"), 64, "used up"), (missing, 71, "cannot be made")] {
        for check in [&["--check-config"][..], &[]] {
            let listen = ["--listen", "127.0.0.1:0", "--state-dir", &dir];
            let output = serve(&[&listen, check].concat());
            assert_eq!(output.status.code(), Some(code), "{dir} {check:?}");
            assert!(stderr(&output).contains(why), "{}", stderr(&output));
        }
    }
    let variable = ticketing("serve").env("TICKETING_CHECK_CONFIG", "true").output().expect("it starts");
    assert_eq!(variable.status.code(), Some(0));
}

#[test]
fn a_log_that_nobody_reads_or_that_is_full_does_not_end_or_stall_it() {
    let outage = |configure: &dyn Fn(&mut Command)| {
        let mut command = ticketing("serve");
        command.args(["--listen", "127.0.0.1:0", "--log-level", "trace"]);
        configure(&mut command);
        let server = Server::spawn(command);
        serves_a_hundred(&server);
    };
    outage(&|command| _ = command.stderr(fs::File::options().write(true).open("/dev/full").expect("Linux")));
    outage(&|command| _ = command.stderr(Stdio::null()).env("TICKETING_LOG_FORMAT", "json"));

    // A reader that takes one line and goes.
    let mut command = ticketing("serve");
    command.args(["--listen", "127.0.0.1:0", "--log-level", "trace"]).stderr(Stdio::piped());
    let mut server = Server::spawn(command);
    let mut line = String::new();
    let reader = server.child.stderr.take().expect("a pipe");
    BufReader::new(reader).read_line(&mut line).expect("a line");
    serves_a_hundred(&server);

    // A reader that never reads: the pipe is full after a while.
    let mut command = ticketing("serve");
    command.args(["--listen", "127.0.0.1:0", "--log-level", "trace"]).stderr(Stdio::piped());
    let server = Server::spawn(command);
    for _ in 0..1500 {
        let mut wire = Wire::connect(&server.address(), b"");
        wire.send(b"?");
        assert_eq!(wire.rest(), b"Ebad_op\n");
    }
    serves_a_hundred(&server);
}

fn serves_a_hundred(server: &Server) {
    let mut wire = Wire::connect(&server.address(), b"");
    for owner in 1..=100 {
        wire.acquire(0, 1, owner, &format!("{owner:03}"));
        assert_eq!(wire.acquired(&format!("{owner:03}")).0, b'A');
    }
}

#[test]
fn it_can_hold_as_many_connections_as_it_was_told_to() {
    // The soft limit of descriptors is often 1024; the program raises it.
    let limited = format!(
        "ulimit -Sn 64; exec '{}' serve --listen 127.0.0.1:0 --max-connections 400",
        env!("CARGO_BIN_EXE_ticketing")
    );
    let mut command = Command::new("sh");
    command.args(["-c", &limited]).stderr(Stdio::null());
    let server = Server::spawn(command);
    let mut all: Vec<Wire> = (0..300).map(|_| Wire::connect(&server.address(), b"")).collect();
    for wire in &mut all {
        wire.release(1, "s");
        assert_eq!(wire.released("s"), b'N');
    }
}

#[test]
fn one_connection_too_many_is_closed() {
    let server = Server::with(&["--max-connections", "2"]);
    let _open = [Wire::connect(&server.address(), b""), Wire::connect(&server.address(), b"")];
    assert_eq!(Wire::silent(&server.address()).rest(), b"");
}

#[test]
fn json_logs_are_one_object_a_line() {
    let mut command = ticketing("serve");
    command.args(["--listen", "127.0.0.1:0", "--log-format", "json"]).stderr(Stdio::piped());
    let server = Server::spawn(command);
    let mut run = Running(server_into_child(server));
    run.signal(Signal::SIGTERM);
    assert_eq!(run.code(), Some(0));
    let log = run.stderr();
    assert!(log.lines().count() >= 2, "{log}");
    for line in log.lines() {
        assert!(line.starts_with("{\"time\":\"") && line.ends_with('}'), "{line}");
    }
}

/// Takes the process out of its handle.
fn server_into_child(mut server: Server) -> std::process::Child {
    let placeholder = Command::new("true").spawn().expect("it starts");
    std::mem::replace(&mut server.child, placeholder)
}

#[test]
fn a_foreign_listener_is_not_pushed_aside() {
    let foreign = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address: SocketAddr = foreign.local_addr().expect("an address");
    assert_eq!(serve(&["--listen", &address.to_string()]).status.code(), Some(71));
}
