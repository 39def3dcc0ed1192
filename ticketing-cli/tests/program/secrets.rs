//! No token is ever in sight (`A11`).

use std::fs;
use std::process::Stdio;
use std::time::Instant;

use nix::sys::signal::Signal;

use crate::support::{
    Evidence, Running, Server, Wire, eventually, guard_of, processes, stderr, stdout, ticketing,
};

const TOKEN: &str = "a-token-that-nobody-may-see";

#[test]
fn no_token_is_in_processes_logs_or_output() {
    let evidence = Evidence::new();
    let file = evidence.write("token", TOKEN);
    let mut command = ticketing("serve");
    command
        .args(["--listen", "127.0.0.1:0", "--log-level", "trace", "--token-file", &file])
        .stderr(Stdio::from(fs::File::create(evidence.path("log")).expect("made")));
    let mut server = Server::spawn(command);

    let mark = format!("sleep {}.125", 50_000 + std::process::id());
    let script = format!("env; echo up > '{}'; exec {mark}", evidence.text("up"));
    let mut command = server.run(&["-v", "k", "--", "sh", "-c", &script]);
    command.env("TICKETING_TOKEN", TOKEN).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut run = Running::spawn(command);
    evidence.line("up");
    let guard = guard_of(&run.0);
    for (pid, line) in processes() {
        assert!(!line.contains(TOKEN), "{pid}: {line}");
    }
    let environment = fs::read(format!("/proc/{guard}/environ")).expect("Linux");
    assert!(!String::from_utf8_lossy(&environment).contains(TOKEN), "the guard's environment");
    let mut commands = Vec::new();
    eventually("the command", || {
        commands = processes().into_iter().filter(|(_, line)| line.starts_with(&mark)).collect();
        commands.len() == 1
    });
    for (pid, _) in commands {
        let environment = fs::read(format!("/proc/{pid}/environ")).expect("Linux");
        assert!(!String::from_utf8_lossy(&environment).contains(TOKEN), "the command's environment");
    }

    // Wrong tokens are logged with the peer's address, and without what it sent.
    let mut stranger = Wire::connect(&server.address(), b"another token that nobody may see");
    let peer = stranger.stream.local_addr().expect("an address").to_string();
    assert_eq!(stranger.rest(), b"Eauth_failed\n");
    run.signal(Signal::SIGTERM);
    run.wait();
    assert!(!run.stderr().contains(TOKEN));
    server.signal(Signal::SIGTERM);
    assert_eq!(server.child.wait().expect("it ends").code(), Some(0));
    let log = evidence.read("log");
    assert!(!log.contains(TOKEN) && !log.contains("another token"), "{log}");
    let refusal = log.lines().find(|line| line.contains(&peer));
    assert!(refusal.is_some_and(|line| line.contains("WARN")), "{peer} in:\n{log}");
}

#[test]
fn failed_authentications_are_logged_at_a_bounded_rate() {
    let evidence = Evidence::new();
    let file = evidence.write("token", TOKEN);
    let mut command = ticketing("serve");
    command
        .args(["--listen", "127.0.0.1:0", "--token-file", &file])
        .stderr(Stdio::from(fs::File::create(evidence.path("log")).expect("made")));
    let mut server = Server::spawn(command);
    let start = Instant::now();
    for _ in 0..300 {
        assert_eq!(Wire::connect(&server.address(), b"wrong").rest(), b"Eauth_failed\n");
    }
    server.signal(Signal::SIGTERM);
    server.child.wait().expect("it ends");
    let lines = evidence.read("log").lines().count();
    // 10 a second, and what is said at the start and the end.
    let most = 10 * (start.elapsed().as_secs() as usize + 2) + 10;
    assert!(lines <= most, "{lines} lines for 300 peers, of at most {most}");
}

#[test]
fn help_and_errors_show_no_token() {
    let evidence = Evidence::new();
    let file = evidence.write("token", "short-secret");
    for subcommand in ["serve", "run", "ping"] {
        let output = ticketing(subcommand)
            .arg("--help")
            .env("TICKETING_TOKEN", TOKEN)
            .env("TICKETING_TOKEN_FILE", &file)
            .output()
            .expect("it starts");
        assert!(!stdout(&output).contains(TOKEN) && !stderr(&output).contains(TOKEN), "{subcommand}");
    }
    let output = ticketing("serve").args(["--token-file", &file]).output().expect("it starts");
    assert_eq!(output.status.code(), Some(64));
    assert!(!stderr(&output).contains("short-secret"), "{}", stderr(&output));
}
