//! The work never outlives the lease, whoever is killed or stopped.

use std::fs;
use std::net::TcpListener;
use std::os::unix::process::CommandExt as _;
use std::process::Command;
use std::thread::{self, sleep};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::Pid;

use crate::support::{
    Evidence, Running, Server, Wire, alive, eventually, guard_of, pid, process_state, stop, ticketing,
};

/// A command that ignores TERM and leaves a mark every 10 ms for as long as it lives.
fn stubborn(evidence: &Evidence) -> String {
    format!("trap '' TERM; while :; do date +%s.%N >> '{}'; sleep 0.01; done", evidence.text("beats"))
}

/// When the stubborn command was last alive, in seconds since 1970.
fn last_beat(evidence: &Evidence) -> f64 {
    let beats = evidence.read("beats");
    let whole = beats.rfind('\n').map_or("", |end| &beats[..end]);
    whole.lines().last().expect("it has begun").parse().expect("a time")
}

fn seconds_since_1970() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_secs_f64()
}

/// Starts the stubborn command under a lease of 20 s that was waited for for 5 s. Returns when it works, with the
/// lease's end at the server, which is not before that, in seconds since 1970.
///
/// `run` counts its lease from when it asked, so it is to have stopped the command 5 s before that end: time enough for
/// a busy machine.
fn start(server: &Server, evidence: &Evidence, grace: &str, command: &[&str]) -> (Running, f64) {
    let mut holder = Wire::connect(&server.address(), b"");
    holder.acquire(0, 250, 1, "k");
    let token = holder.acquired("k").1.expect("held");
    let script = stubborn(evidence);
    let options = ["-w", "60", "--lease", "20", "--budget", "1", "--grace", grace, "k", "--"];
    let run = Running::spawn_piped(&mut server.run(&[&options, command, &["sh", "-c", &script]].concat()));
    wait_for_connections(server, 3);
    sleep(Duration::from_secs(5));
    let released = seconds_since_1970();
    holder.release(token, "k");
    assert_eq!(holder.released("k"), b'R');
    eventually("a first beat", || evidence.read("beats").contains('\n'));
    (run, released + 20.0)
}

/// Waits for the lock by hand and tells when it came, in seconds since 1970. By then the stubborn command is dead.
fn wait_for_the_lock(server: &Server, evidence: &Evidence) -> f64 {
    let mut waiter = Wire::connect(&server.address(), b"");
    waiter.acquire(60, 1, 1, "k");
    assert_eq!(waiter.acquired("k").0, b'A');
    let granted = seconds_since_1970();
    let commands: Vec<_> = alive(&evidence.text("beats"));
    let command = commands.iter().find(|(_, line)| line.starts_with("sh -c"));
    if let Some((pid, _)) = command {
        kill(*pid, Signal::SIGKILL).expect("it is alive");
        panic!("the command outlived its lease");
    }
    granted
}

#[test]
fn term_comes_a_grace_before_the_end_and_then_kill_and_79() {
    let server = Server::start();
    let evidence = Evidence::new();
    let script =
        format!("trap 'echo term >> \"{}\"' TERM; while :; do sleep 0.01; done", evidence.text("log"));
    let begun = Instant::now();
    let mut run = Running::spawn_piped(
        &mut server.run(&["--lease", "10", "--grace", "6", "k", "--", "sh", "-c", &script]),
    );
    evidence.line("log");
    let term = begun.elapsed().as_secs_f64();
    assert_eq!(run.code(), Some(79));
    let kill = begun.elapsed().as_secs_f64();
    assert!((3.8..9.8).contains(&term) && kill >= 9.8, "TERM after {term} s, the end after {kill} s");
    assert_eq!(evidence.read("log"), "term\n", "once, although run and guard both watch");
    assert!(run.stderr().contains("the lease ran out and the command was stopped"));
}

#[test]
fn a_command_that_heeds_term_is_79_too_whatever_its_own_code() {
    let server = Server::start();
    let script = "trap 'exit 0' TERM; while :; do sleep 0.01; done";
    let output = server.run_to_end(&["--lease", "4", "--grace", "2", "k", "--", "sh", "-c", script]);
    assert_eq!(output.status.code(), Some(79));
    // It has given the lock back.
    assert_eq!(server.run_to_end(&["-n", "k", "--", "true"]).status.code(), Some(0));
}

#[test]
fn kill_9_of_run_frees_the_key_when_the_lease_ends() {
    let server = Server::start();
    let evidence = Evidence::new();
    let (mut run, end) = start(&server, &evidence, "0.5", &[]);
    run.signal(Signal::SIGKILL);
    run.wait();
    let granted = wait_for_the_lock(&server, &evidence);
    assert!(granted >= end - 0.002, "not before the lease's end: {granted} < {end}");
    assert!(last_beat(&evidence) < end, "the command was dead by the lease's end");
}

#[test]
fn kill_9_of_run_ends_the_command_without_waiting_for_the_lease() {
    let server = Server::start();
    let evidence = Evidence::new();
    let script = format!(
        "trap 'echo term > \"{}\"; exit' TERM; echo up > '{}'; while :; do sleep 0.01; done",
        evidence.text("term"),
        evidence.text("up")
    );
    // Its whole process group is killed, as shells and supervisors do it.
    let mut command = server.run(&["--lease", "60", "k", "--", "sh", "-c", &script]);
    command.process_group(0);
    let mut run = Running::spawn(command);
    evidence.line("up");
    killpg(pid(&run.0), Signal::SIGKILL).expect("the group is there");
    run.wait();
    assert_eq!(evidence.line("term"), "term");
}

#[test]
fn kill_9_of_a_waiter_frees_its_place_at_once() {
    let server = Server::start();
    let mut holder = Wire::connect(&server.address(), b"");
    holder.acquire(0, 60, 1, "k");
    let token = holder.acquired("k").1.expect("held");
    let mut first = Running::spawn(server.run(&["-w", "60", "k", "--", "true"]));
    wait_for_connections(&server, 3);
    let mut second = Wire::connect(&server.address(), b"");
    second.acquire(60, 60, 1, "k");
    first.signal(Signal::SIGKILL);
    first.wait();
    eventually("the first one's connections are gone", || established(&server) == 2);
    holder.release(token, "k");
    assert_eq!(holder.released("k"), b'R');
    assert_eq!(second.acquired("k").0, b'A', "the second one is the next");
}

/// Connections that are established to a server, as `/proc/net/tcp` has them.
fn established(server: &Server) -> usize {
    let port = format!(":{:04X}", server.addresses[0].port());
    let table = fs::read_to_string("/proc/net/tcp").expect("Linux");
    let is_one = |line: &&str| {
        let fields: Vec<&str> = line.split_ascii_whitespace().collect();
        fields.get(1).is_some_and(|local| local.ends_with(&port)) && fields.get(3) == Some(&"01")
    };
    table.lines().filter(is_one).count()
}

/// A `ticketing run` makes two.
fn wait_for_connections(server: &Server, count: usize) {
    eventually("as many connections", || established(server) == count);
}

#[test]
fn a_stopped_run_does_not_keep_the_command_alive() {
    let server = Server::start();
    let evidence = Evidence::new();
    let (mut run, end) = start(&server, &evidence, "0.2", &[]);
    run.stop();
    let granted = wait_for_the_lock(&server, &evidence);
    assert!(granted >= end - 0.002);
    assert!(last_beat(&evidence) < end, "the command was dead by the lease's end");
    run.signal(Signal::SIGCONT);
    assert_eq!(run.code(), Some(79));
}

#[test]
fn a_command_that_ended_by_itself_has_its_own_code_however_late_run_sees_it() {
    let server = Server::start();
    let end_with = |code: i32| {
        let evidence = Evidence::new();
        let (go, up, key) = (evidence.text("go"), evidence.text("up"), format!("k{code}"));
        let script = format!("echo up > '{up}'; while [ ! -e '{go}' ]; do sleep 0.01; done; exit {code}");
        let arguments = ["-v", "--lease", "8", "--grace", "0.2", &key, "--", "sh", "-c", &script];
        let mut run = Running::spawn_piped(&mut server.run(&arguments));
        evidence.line("up");
        run.stop();
        evidence.write("go", "");
        let mut waiter = Wire::connect(&server.address(), b"");
        waiter.acquire(60, 1, 1, &key);
        assert_eq!(waiter.acquired(&key).0, b'A', "the lease is over");
        run.signal(Signal::SIGCONT);
        assert_eq!(run.code(), Some(code));
        let said = run.stderr();
        assert!(said.contains("ended by itself; its end was seen after the lease's"), "{said}");
    };
    thread::scope(|scope| [0, 3].map(|code| scope.spawn(move || end_with(code))).map(|_| ()));
}

#[test]
fn a_killed_guard_leaves_run_to_watch() {
    let server = Server::start();
    let evidence = Evidence::new();
    let (mut run, end) = start(&server, &evidence, "0.2", &[]);
    kill(guard_of(&run.0), Signal::SIGKILL).expect("the guard is there");
    let granted = wait_for_the_lock(&server, &evidence);
    assert!(last_beat(&evidence) < end.min(granted));
    assert_eq!(run.code(), Some(79));
    assert!(run.stderr().contains("watching the lease without it"));
}

#[test]
fn a_stopped_guard_leaves_run_to_watch() {
    let server = Server::start();
    let evidence = Evidence::new();
    let (mut run, end) = start(&server, &evidence, "0.2", &[]);
    stop(guard_of(&run.0));
    assert_eq!(run.code(), Some(79));
    assert!(last_beat(&evidence) < end);
}

#[test]
fn what_the_terminal_or_others_send_to_the_group_does_not_end_the_guard() {
    let server = Server::start();
    let evidence = Evidence::new();
    let script =
        format!("trap '' TERM INT HUP QUIT TSTP USR1; echo up > '{}'; exec sleep 60", evidence.text("up"));
    let mut run =
        Running::spawn(server.run(&["--lease", "250", "--grace", "0.2", "k", "--", "sh", "-c", &script]));
    evidence.line("up");
    let guard = guard_of(&run.0);
    let group = Pid::from_raw(-guard.as_raw());
    for signal in
        [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP, Signal::SIGQUIT, Signal::SIGTSTP, Signal::SIGUSR1]
    {
        kill(group, signal).expect("the group is there");
    }
    run.signal(Signal::SIGKILL);
    run.wait();
    eventually("the guard ends the command and itself", || {
        !alive("__guard").iter().any(|(pid, _)| *pid == guard)
    });
}

#[test]
fn descendants_in_the_group_end_with_the_lease_too() {
    let server = Server::start();
    let mark = format!("{}.25", 40_000 + std::process::id());
    let script = format!("trap '' TERM; sleep {mark} & sleep {mark}");
    let output = server.run_to_end(&["--lease", "3", "--grace", "0.2", "k", "--", "sh", "-c", &script]);
    assert_eq!(output.status.code(), Some(79));
    assert!(alive(&format!("sleep {mark}")).is_empty());
}

#[test]
fn the_lock_is_released_only_when_all_of_the_group_are_dead() {
    let server = Server::start();
    let evidence = Evidence::new();
    // One with much memory takes its time to die. `tail` keeps all of what it got in memory.
    let (up, hog) = (evidence.text("up"), evidence.text("hog"));
    let script = format!(
        "{{ head -c 200000000 /dev/zero; echo up > '{up}'; sleep 60; }} | {{ \
         sh -c 'echo $PPID > \"{hog}\"'; exec tail -c 200000000 > /dev/null; }} & \
         while [ ! -e '{up}' ]; do sleep 0.01; done; exec sleep 60"
    );
    let mut run = Running::spawn(server.run(&["--lease", "100", "k", "--", "sh", "-c", &script]));
    evidence.line("up");
    let hog = Pid::from_raw(evidence.line("hog").parse().expect("a pid"));
    let mut waiter = Wire::connect(&server.address(), b"");
    waiter.acquire(60, 1, 1, "k");
    // Without its guard, `run` itself ends what the command leaves.
    kill(guard_of(&run.0), Signal::SIGKILL).expect("the guard is there");
    run.signal(Signal::SIGUSR1);
    assert_eq!(waiter.acquired("k").0, b'A');
    let state = process_state(hog);
    assert!(matches!(state, None | Some('Z' | 'X')), "{state:?} when the lock was free");
    assert_eq!(run.code(), Some(128 + Signal::SIGUSR1 as i32));
}

#[test]
fn a_command_that_leaves_its_group_is_ended_all_the_same() {
    let end = |kill_run: bool| {
        let server = Server::start();
        let evidence = Evidence::new();
        // `setsid` makes no process of its own here: the command itself goes.
        let (mut run, end) = start(&server, &evidence, "0.2", &["setsid"]);
        if kill_run {
            run.signal(Signal::SIGKILL);
            run.wait();
        } else {
            assert_eq!(run.code(), Some(79));
        }
        wait_for_the_lock(&server, &evidence);
        assert!(last_beat(&evidence) < end, "run killed: {kill_run}");
        assert_eq!(server.run_to_end(&["-w", "20", "k", "--", "true"]).status.code(), Some(0));
    };
    thread::scope(|scope| [false, true].map(|kill_run| scope.spawn(move || end(kill_run))).map(|_| ()));
}

#[test]
fn a_command_that_is_stopped_is_ended_all_the_same() {
    let server = Server::start();
    let evidence = Evidence::new();
    let script = format!(
        "trap 'echo term > \"{}\"; exit 1' TERM; echo up > '{}'; kill -STOP $$; while :; do sleep 0.01; done",
        evidence.text("term"),
        evidence.text("up")
    );
    let output = server.run_to_end(&["--lease", "8", "--grace", "4", "k", "--", "sh", "-c", &script]);
    assert_eq!(output.status.code(), Some(79));
    assert_eq!(evidence.line("term"), "term", "it goes on, to heed TERM");
}

#[test]
fn a_server_that_slept_longer_than_a_lease_grants_the_waiter_at_once() {
    const LEASE: u8 = 6;
    let server = Server::start();
    let mut holder = Wire::connect(&server.address(), b"");
    let before = Instant::now();
    holder.acquire(0, LEASE, 1, "k");
    let token = holder.acquired("k").1.expect("held");
    let mut waiter = Wire::connect(&server.address(), b"");
    waiter.acquire(60, 60, 1, "k");
    // A sentinel behind it, answered: it waits.
    waiter.acquire(0, 5, 2, "s");
    assert_eq!(waiter.acquired("s").0, b'A');
    stop(pid(&server.child));
    let slept = Duration::from_secs(u64::from(LEASE) + 1);
    sleep(slept);
    server.signal(Signal::SIGCONT);
    let next = waiter.acquired("k").1.expect("granted");
    // If its clock had stood still, it would come that much after the lease.
    let elapsed = before.elapsed();
    assert!(elapsed < Duration::from_secs(u64::from(LEASE)) + slept, "{elapsed:?}");
    assert!(next > token);
    holder.release(token, "k");
    assert_eq!(holder.released("k"), b'N', "the old token is over");
    waiter.release(next, "k");
    assert_eq!(waiter.released("k"), b'R');
}

#[test]
fn a_run_that_slept_between_grant_and_delivery_does_not_start_the_command() {
    let evidence = Evidence::new();
    let ran = evidence.text("ran");
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address").to_string();
    let mut run = ticketing("run");
    run.args(["--server", &address, "-w", "20", "--lease", "3", "--budget", "2", "k", "--", "touch", &ran]);
    let mut run = Running::spawn(run);
    let (mut server, owner) = Wire::asked_for_k(&listener);
    run.stop();
    server.grant_k(7, owner);
    sleep(Duration::from_millis(1500));
    run.signal(Signal::SIGCONT);
    assert_eq!(server.take_back_k(), 7, "it is released, not left to its lease");
    assert_eq!(run.code(), Some(75), "too little of the lease is left");
    assert!(!evidence.path("ran").exists());
}

#[test]
fn nothing_is_left_when_a_run_has_ended() {
    let server = Server::start();
    let evidence = Evidence::new();
    let script = format!("echo up > '{}'; exec sleep 60", evidence.text("up"));
    let mut run = Running::spawn(server.run(&["k", "--", "sh", "-c", &script]));
    evidence.line("up");
    let guard = guard_of(&run.0);
    run.signal(Signal::SIGTERM);
    assert_eq!(run.code(), Some(143));
    assert!(!alive("__guard").iter().any(|(pid, _)| *pid == guard));
}

#[test]
fn the_helping_roles_do_nothing_when_called_by_hand() {
    for role in ["__guard", "__start"] {
        let status = Command::new(env!("CARGO_BIN_EXE_ticketing")).arg(role).status().expect("it starts");
        assert!(!status.success(), "{role}");
    }
}
