//! `ticketing run`: what the command sees, and the exit codes.

use std::fs;
use std::net::TcpListener;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;

use crate::support::{
    Evidence, PATIENCE, Running, Server, Wire, eventually, pid, stderr, stdout, stop, ticketing,
};

#[test]
fn two_runs_never_overlap() {
    let server = Server::start();
    let evidence = Evidence::new();
    // A directory can be made once: who cannot make it has met another.
    let script = format!(
        "mkdir '{dir}' || echo overlap >> '{log}'; sleep 0.05; rmdir '{dir}'; echo done >> '{log}'",
        dir = evidence.text("inside"),
        log = evidence.text("log")
    );
    let mut runs: Vec<Running> = (0..8)
        .map(|_| Running::spawn(server.run(&["-w", "30", "deploy", "--", "sh", "-c", &script])))
        .collect();
    for run in &mut runs {
        assert_eq!(run.code(), Some(0));
    }
    assert_eq!(evidence.read("log"), "done\n".repeat(8));
}

#[test]
fn the_command_sees_key_fence_and_end_and_no_token() {
    let server = Server::start();
    let evidence = Evidence::new();
    let token_file = evidence.write("token", "sixteen bytes or more\n");
    let before = seconds_since_1970();
    let script = "echo $TICKETING_KEY; echo $TICKETING_FENCE; echo $TICKETING_VALID_UNTIL; env";
    let run = |key: &str| {
        let mut command = server.run(&["--lease", "20", key, "--", "sh", "-c", script]);
        command.env("TICKETING_TOKEN_FILE", &token_file).env("TICKETING_SERVERS", "unused:1");
        stdout(&command.output().expect("the program starts"))
    };
    let mut fence = 0;
    for key in ["first", "schlüssel-2"] {
        let text = run(key);
        let mut lines = text.lines();
        assert_eq!(lines.next(), Some(key));
        let next: u64 = lines.next().expect("a line").parse().expect("a token");
        assert!(next > fence, "tokens rise over all keys");
        fence = next;
        let until: u64 = lines.next().expect("a line").parse().expect("seconds");
        assert!((before + 18..=seconds_since_1970() + 20).contains(&until), "{until}");
        assert!(!text.contains("TICKETING_TOKEN"), "{text}");
    }
    assert!(fence > 1 << 40, "a counter that starts anew starts at the time");

    let mut command = server.run(&["k", "--", "env"]);
    command.env("TICKETING_TOKEN", "sixteen bytes or more");
    let text = stdout(&command.output().expect("the program starts"));
    assert!(text.contains("TICKETING_FENCE=") && !text.contains("sixteen"), "{text}");
}

fn seconds_since_1970() -> u64 {
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("after 1970").as_secs()
}

#[test]
fn the_exit_code_is_the_commands() {
    let server = Server::start();
    let code = |script: &str| server.run_to_end(&["k", "--", "sh", "-c", script]).status.code();
    assert_eq!(code("exit 0"), Some(0));
    assert_eq!(code("exit 3"), Some(3));
    assert_eq!(code("exit 255"), Some(255));
    assert_eq!(code("kill -TERM $$"), Some(128 + 15));
    assert_eq!(code("kill -KILL $$"), Some(128 + 9));
    // A signal without a name.
    assert_eq!(code("kill -40 $$"), Some(128 + 40));
}

#[test]
fn arguments_and_streams_are_the_commands_own() {
    let server = Server::start();
    let script = r#"cat; printf '<%s>' "$@"; echo err >&2"#;
    let mut command = server.run(&["k", "--", "sh", "-c", script, "sh", "a b", "$HOME", "", "*", "--", "-v"]);
    let mut run = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts");
    std::io::Write::write_all(&mut run.stdin.take().expect("a pipe"), b"input ")
        .expect("read by the command");
    let output = run.wait_with_output().expect("it ends");
    assert_eq!(stdout(&output), "input <a b><$HOME><><*><--><-v>");
    assert_eq!(stderr(&output), "err\n", "run itself says nothing");
}

#[test]
fn a_command_that_is_not_there_or_not_executable_ends_as_in_shells() {
    let server = Server::start();
    let missing = server.run_to_end(&["k", "--", "no-such-command-anywhere"]);
    assert_eq!(missing.status.code(), Some(127));
    assert!(stderr(&missing).contains("no-such-command-anywhere: not found"));
    let evidence = Evidence::new();
    let plain = evidence.write("plain", "not executable");
    assert_eq!(server.run_to_end(&["k", "--", &plain]).status.code(), Some(126));
    // The lock was given back each time.
    assert_eq!(server.run_to_end(&["-n", "k", "--", "true"]).status.code(), Some(0));
}

#[test]
fn a_wrong_command_line_is_64() {
    let code =
        |arguments: &[&str]| ticketing("run").args(arguments).output().expect("it starts").status.code();
    for wrong in [
        &[][..],
        &["k"],
        &["k", "true"],
        &["k", "--"],
        &["--unknown", "k", "--", "true"],
        &["a key", "--", "true"],
        &["", "--", "true"],
        &["k\r", "--", "true"],
        &["-w", "256", "k", "--", "true"],
        &["-w", "-1", "k", "--", "true"],
        &["-w", "1", "-n", "k", "--", "true"],
        &["--lease", "251", "k", "--", "true"],
        &["--lease", "0", "k", "--", "true"],
        &["--lease", "5", "--budget", "6", "k", "--", "true"],
        &["--lease", "5", "--grace", "5", "k", "--", "true"],
        &["-E", "256", "k", "--", "true"],
        &["--server", "no:port:here", "k", "--", "true"],
        &["--server", "a:1", "--server", "A:1", "k", "--", "true"],
        &["--token", "secret", "k", "--", "true"],
        &["--token-file", "/nonexistent", "k", "--", "true"],
    ] {
        assert_eq!(code(wrong), Some(64), "{wrong:?}");
    }
    assert_eq!(code(&["--help"]), Some(0));
    assert_eq!(ticketing("no-such-subcommand").output().expect("it starts").status.code(), Some(64));
}

#[test]
fn a_lock_that_is_held_gives_75_or_what_was_asked_for() {
    let server = Server::start();
    let mut holder = Wire::connect(&server.address(), b"");
    holder.acquire(0, 60, 1, "k");
    assert_eq!(holder.acquired("k").0, b'A');

    let output = server.run_to_end(&["-n", "k", "--", "true"]);
    assert_eq!(output.status.code(), Some(75));
    assert_eq!(stderr(&output), "", "the exit code says it");

    let start = Instant::now();
    let output = server.run_to_end(&["-v", "-w", "0.5", "-E", "9", "k", "--", "true"]);
    assert_eq!(output.status.code(), Some(9), "an ordinary timeout is certain: {}", stderr(&output));
    assert!(start.elapsed() >= Duration::from_secs(1), "a fraction is rounded up");
    assert!(stderr(&output).contains("k not acquired after "), "{}", stderr(&output));
}

#[test]
fn too_little_of_the_lease_left_is_75_and_the_lock_is_given_back() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address").to_string();
    let mut run = ticketing("run");
    run.args(["--server", &address, "-w", "20", "--lease", "3", "--budget", "2", "k", "--", "true"]);
    let mut run = Running::spawn(run);
    let (mut server, owner) = Wire::asked_for_k(&listener);
    // Granted after more than 1 s of its 3 s, of which it needs 2.
    std::thread::sleep(Duration::from_millis(1500));
    server.grant_k(7, owner);
    assert_eq!(server.take_back_k(), 7);
    assert_eq!(run.code(), Some(75));
}

#[test]
fn a_busy_server_is_75() {
    let server = Server::with(&["--max-keys", "1"]);
    let mut holder = Wire::connect(&server.address(), b"");
    holder.acquire(0, 60, 1, "other");
    assert_eq!(holder.acquired("other").0, b'A');
    assert_eq!(server.run_to_end(&["-n", "k", "--", "true"]).status.code(), Some(75));
}

#[test]
fn without_a_server_it_is_69_at_the_deadline() {
    let address = {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        listener.local_addr().expect("an address").to_string()
    };
    let start = Instant::now();
    let output = ticketing("run")
        .args(["--server", &address, "-w", "1", "k", "--", "true"])
        .output()
        .expect("it starts");
    assert_eq!(output.status.code(), Some(69));
    assert!(stderr(&output).contains("no server"), "{}", stderr(&output));
    assert!((Duration::from_secs(1)..PATIENCE).contains(&start.elapsed()), "{:?}", start.elapsed());
}

#[test]
fn something_else_on_the_port_is_69() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address").to_string();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            std::io::Write::write_all(&mut stream.expect("a peer"), b"220 mail.example.net ESMTP\r\n")
                .expect("sent");
        }
    });
    let output = ticketing("run")
        .args(["--server", &address, "-w", "1", "k", "--", "true"])
        .output()
        .expect("it starts");
    assert_eq!(output.status.code(), Some(69), "{}", stderr(&output));
}

#[test]
fn a_server_that_falls_silent_after_the_request_is_76() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address").to_string();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            std::thread::spawn(move || {
                let mut stream = stream.expect("a peer");
                let challenge = format!("sha256 {}\n", "n".repeat(43));
                std::io::Write::write_all(&mut stream, challenge.as_bytes()).expect("sent");
                // The response and the acquire; then the connection is cut.
                let mut frame = [0; 44 + 13];
                std::io::Read::read_exact(&mut stream, &mut frame).expect("a response and an acquire");
            });
        }
    });
    let evidence = Evidence::new();
    let touch = evidence.text("ran");
    let output = ticketing("run")
        .args(["--server", &address, "-w", "5", "k", "--", "touch", &touch])
        .output()
        .expect("it starts");
    assert_eq!(output.status.code(), Some(76), "{}", stderr(&output));
    assert!(!evidence.path("ran").exists(), "the command did not run");
}

#[test]
fn a_wrong_token_is_77() {
    let evidence = Evidence::new();
    let right = evidence.write("right", "the right token, 16+\n");
    let server = Server::with(&["--token-file", &right]);
    let wrong = evidence.write("wrong", "the wrong token, 16+\n");
    assert_eq!(server.run_to_end(&["--token-file", &wrong, "k", "--", "true"]).status.code(), Some(77));
    assert_eq!(server.run_to_end(&["k", "--", "true"]).status.code(), Some(77), "none at all");
    assert_eq!(server.run_to_end(&["--token-file", &right, "k", "--", "true"]).status.code(), Some(0));
}

#[test]
fn servers_and_tokens_come_from_the_environment_too() {
    let evidence = Evidence::new();
    let token = evidence.write("token", "the right token, 16+\r\n");
    let server = Server::with(&["--token-file", &token]);
    let run = |configure: &dyn Fn(&mut Command)| {
        let mut command = ticketing("run");
        command.args(["-w", "20", "k", "--", "true"]);
        configure(&mut command);
        command.output().expect("it starts").status.code()
    };
    let servers = format!("{},127.0.0.1:1", server.address());
    assert_eq!(
        run(&|run| _ = run.env("TICKETING_SERVERS", &servers).env("TICKETING_TOKEN_FILE", &token)),
        Some(0)
    );
    let servers = servers.replace(',', " ");
    let secret = "the right token, 16+";
    assert_eq!(
        run(&|run| _ = run.env("TICKETING_SERVERS", &servers).env("TICKETING_TOKEN", secret)),
        Some(0)
    );
    let both = |run: &mut Command| {
        run.env("TICKETING_TOKEN", secret).env("TICKETING_TOKEN_FILE", &token);
    };
    assert_eq!(run(&both), Some(64));
    assert_eq!(run(&|run| _ = run.env("TICKETING_TOKEN", "")), Some(64));
}

#[test]
fn signals_are_passed_on_to_the_whole_group() {
    let server = Server::start();
    for (signal, name) in [
        (Signal::SIGTERM, "TERM"),
        (Signal::SIGINT, "INT"),
        (Signal::SIGHUP, "HUP"),
        (Signal::SIGQUIT, "QUIT"),
        (Signal::SIGUSR1, "USR1"),
        (Signal::SIGUSR2, "USR2"),
    ] {
        let evidence = Evidence::new();
        // A shell and a shell under it, each with a trap of its own.
        let script = format!(
            "trap 'echo outer >> \"{log}\"; exit 42' {name}
             sh -c 'trap \"echo inner >> {log}; exit 0\" {name}; echo ready >> {log}; while :; do sleep 0.02; done'",
            log = evidence.text("log")
        );
        let mut run = Running::spawn(server.run(&[name, "--", "sh", "-c", &script]));
        eventually("both are ready", || evidence.read("log").contains("ready"));
        run.signal(signal);
        assert_eq!(run.code(), Some(42), "{name}");
        let log = evidence.read("log");
        assert!(log.contains("outer") && log.contains("inner"), "{name}: {log}");
    }
}

#[test]
fn a_command_that_dies_of_a_signal_that_was_passed_on_is_128_and_that() {
    let server = Server::start();
    let evidence = Evidence::new();
    let script = format!("echo up > '{}'; exec sleep 60", evidence.text("up"));
    let mut run = Running::spawn(server.run(&["k", "--", "sh", "-c", &script]));
    evidence.line("up");
    run.signal(Signal::SIGHUP);
    let status = run.wait();
    assert_eq!((status.code(), status.signal()), (Some(128 + 1), None));
}

#[test]
fn a_signal_that_was_ignored_at_the_start_stays_so() {
    let server = Server::start();
    let evidence = Evidence::new();
    let script = format!("echo up > '{}'; kill -HUP $$; sleep 0.3; exit 5", evidence.text("up"));
    // As nohup does it.
    let run = format!(
        "trap '' HUP; exec '{}' run --server {} k -- sh -c \"$0\"",
        env!("CARGO_BIN_EXE_ticketing"),
        server.address()
    );
    let mut command = Command::new("sh");
    command.args(["-c", &run, &script]);
    let mut run = Running::spawn(command);
    evidence.line("up");
    run.signal(Signal::SIGHUP);
    assert_eq!(run.code(), Some(5));
}

#[test]
fn a_signal_ends_the_wait_and_leaves_the_queue() {
    let server = Server::start();
    let mut holder = Wire::connect(&server.address(), b"");
    holder.acquire(0, 60, 1, "k");
    let (_, token) = holder.acquired("k");
    for (signal, code) in [(Signal::SIGTERM, 143), (Signal::SIGINT, 130), (Signal::SIGUSR1, 138)] {
        let mut command = server.run(&["-v", "-w", "60", "k", "--", "true"]);
        let mut run = Running::spawn_piped(&mut command);
        wait_for_waiters(&server, 1);
        run.signal(signal);
        assert_eq!(run.code(), Some(code), "{signal}");
    }
    // Nobody is left in the queue: the next one is granted at once, and keeps it.
    holder.release(token.expect("held"), "k");
    assert_eq!(holder.released("k"), b'R');
    assert_eq!(server.run_to_end(&["-n", "k", "--", "true"]).status.code(), Some(0));
}

/// Waits until there are so many connections beyond this test's own one.
fn wait_for_waiters(server: &Server, count: usize) {
    eventually("connections", || connections_to(server) > count);
}

/// How many connections are established to a server, from `/proc/net/tcp`.
fn connections_to(server: &Server) -> usize {
    let port = format!(":{:04X}", server.addresses[0].port());
    let table = fs::read_to_string("/proc/net/tcp").expect("Linux");
    let is_one = |line: &&str| {
        let mut fields = line.split_ascii_whitespace();
        fields.nth(1).is_some_and(|local| local.ends_with(&port)) && fields.nth(1) == Some("01")
    };
    table.lines().filter(is_one).count()
}

#[test]
fn what_the_command_leaves_in_its_group_is_ended_before_the_lock_is_given_back() {
    let server = Server::start();
    let evidence = Evidence::new();
    let mark = format!("{}.5", 30_000 + std::process::id());
    let script = format!("sleep {mark} & echo up > '{}'; exit 7", evidence.text("up"));
    let output = server.run_to_end(&["-v", "k", "--", "sh", "-c", &script]);
    assert_eq!(output.status.code(), Some(7));
    assert!(crate::support::alive(&format!("sleep {mark}")).is_empty());
    assert!(stderr(&output).contains("left others"), "{}", stderr(&output));

    // One that does not heed TERM has the grace.
    let script = format!(
        "(trap '' TERM; echo up > '{up}'; while :; do sleep 0.02; done) &
         while [ ! -e '{up}' ]; do sleep 0.01; done; exit 7",
        up = evidence.text("stubborn")
    );
    let start = Instant::now();
    let output = server.run_to_end(&["--grace", "0.5", "k", "--", "sh", "-c", &script]);
    assert_eq!(output.status.code(), Some(7));
    assert!(start.elapsed() >= Duration::from_millis(500));
    assert_eq!(evidence.line("stubborn"), "up");
}

#[test]
fn verbose_says_what_happened_and_quiet_does_not() {
    let server = Server::start();
    let text = stderr(&server.run_to_end(&["-v", "--lease", "20", "deploy", "--", "true"]));
    assert!(text.contains("ticketing: deploy acquired after "), "{text}");
    assert!(text.contains(", token ") && text.contains(" s of the lease left"), "{text}");
    assert!(text.contains("deploy: released"), "{text}");
    assert_eq!(stderr(&server.run_to_end(&["deploy", "--", "true"])), "");
}

#[test]
fn help_says_that_there_is_no_renewal() {
    let help = stdout(&ticketing("run").arg("--help").output().expect("it starts"));
    let help = help.split_whitespace().collect::<Vec<_>>().join(" ");
    for said in ["NO RENEWAL", "250 s", "TICKETING_VALID_UNTIL", "leave", "75", "76", "79", "127"] {
        assert!(help.contains(said), "{said} is missing in:\n{help}");
    }
}

#[test]
fn the_command_starts_with_a_clean_slate() {
    let server = Server::start();
    // Its descriptors and its signals are as they would be without the program in between.
    let script = "ls /proc/self/fd; grep -E '^Sig(Ign|Blk|Cgt)' /proc/self/status";
    let direct = Command::new("sh").args(["-c", script]).stdin(Stdio::null()).output().expect("it starts");
    assert_eq!(stdout(&server.run_to_end(&["k", "--", "sh", "-c", script])), stdout(&direct));
}

#[test]
fn a_release_that_is_not_confirmed_leaves_the_exit_code_alone() {
    let server = Server::start();
    let evidence = Evidence::new();
    let script = format!(
        "echo up > '{}'; while [ ! -e '{}' ]; do sleep 0.01; done; exit 4",
        evidence.text("up"),
        evidence.text("go")
    );
    let mut run = Running::spawn_piped(&mut server.run(&["-v", "k", "--", "sh", "-c", &script]));
    evidence.line("up");
    stop(pid(&server.child));
    evidence.write("go", "");
    assert_eq!(run.code(), Some(4));
    assert!(run.stderr().contains("not confirmed"));
}
