//! Where tokens start, across restarts (`FI-8`).

use std::fs;

use nix::sys::signal::Signal;

use crate::support::{Evidence, Server, Wire, stderr, ticketing};

fn next_token(server: &Server) -> u64 {
    let mut wire = Wire::connect(&server.address(), b"");
    wire.acquire(0, 1, 1, "k");
    wire.acquired("k").1.expect("granted")
}

#[test]
fn with_a_state_directory_tokens_rise_across_kill_9() {
    let evidence = Evidence::new();
    let state = evidence.text("state");
    let mut last = 0;
    for _ in 0..3 {
        let mut server = Server::with(&["--state-dir", &state]);
        let next = next_token(&server);
        assert!(next > last, "{next} after {last}");
        last = next;
        server.signal(Signal::SIGKILL);
        server.child.wait().expect("it ends");
    }
}

#[test]
fn a_state_directory_has_one_server() {
    let evidence = Evidence::new();
    let state = evidence.text("state");
    let server = Server::with(&["--state-dir", &state]);
    let output = ticketing("serve")
        .args(["--listen", "127.0.0.1:0", "--state-dir", &state])
        .output()
        .expect("it starts");
    assert_eq!(output.status.code(), Some(71));
    assert!(stderr(&output).contains("in use by another server"), "{}", stderr(&output));
    drop(server);
    Server::with(&["--state-dir", &state]);
}

#[test]
fn a_start_can_be_given() {
    let server = Server::with(&["--first-token", "1000"]);
    assert_eq!(next_token(&server), 1000);
    let evidence = Evidence::new();
    let state = evidence.text("state");
    assert_eq!(next_token(&Server::with(&["--first-token", "5000", "--state-dir", &state])), 5000);
    assert!(next_token(&Server::with(&["--first-token", "5000", "--state-dir", &state])) > 5000);
}

#[test]
fn without_one_the_start_is_the_time_and_randomness() {
    let (one, other) = (next_token(&Server::start()), next_token(&Server::start()));
    assert_ne!(one, other);
    let now =
        std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("after 1970").as_secs();
    for token in [one, other] {
        assert!((now - 60..=now).contains(&(token >> 20)), "{token}");
        assert!(token < 1 << 53);
    }
}

#[test]
fn a_state_that_is_not_understood_is_refused() {
    let evidence = Evidence::new();
    fs::create_dir(evidence.path("state")).expect("made");
    fs::write(evidence.path("state").join("tokens"), "garbage").expect("written");
    let output = ticketing("serve")
        .args(["--listen", "127.0.0.1:0", "--state-dir", &evidence.text("state")])
        .output()
        .expect("it starts");
    assert_eq!(output.status.code(), Some(71));
    assert!(stderr(&output).contains("--first-token"), "{}", stderr(&output));
}

#[test]
fn when_the_tokens_are_used_up_nothing_more_is_granted() {
    let evidence = Evidence::new();
    fs::create_dir(evidence.path("state")).expect("made");
    fs::write(evidence.path("state").join("tokens"), format!("tokens up to {}\n", u64::MAX - 2))
        .expect("written");
    let server = Server::with(&["--state-dir", &evidence.text("state")]);
    let mut wire = Wire::connect(&server.address(), b"");
    for (owner, key, reply) in [
        (1, "a", (b'A', Some(u64::MAX - 1))),
        (2, "b", (b'A', Some(u64::MAX))),
        (3, "c", (b'B', None)),
        (4, "b", (b'T', None)),
    ] {
        wire.acquire(0, 60, owner, key);
        assert_eq!(wire.acquired(key), reply, "{key}");
    }
    drop(server);
    let output = ticketing("serve")
        .args(["--listen", "127.0.0.1:0", "--state-dir", &evidence.text("state")])
        .output()
        .expect("it starts");
    assert_eq!(output.status.code(), Some(64));
    assert!(stderr(&output).contains("used up"), "{}", stderr(&output));
}
