//! Each error reaches the peer before the connection ends, or the connection stays open.

use std::io::Write as _;
use std::thread;
use std::time::{Duration, Instant};

use ticketing_proto::wire::auth::Secret;

use super::support::{PATIENCE, Running, Said, acquire, config, response};

fn error(reason: &str) -> Vec<Said> {
    vec![Said::Error(reason.to_owned()), Said::End]
}

/// Enough for the kernel to throw replies away, if the server closed without reading it.
fn rubbish() -> Vec<u8> {
    vec![b'x'; 100_000]
}

/// `ER-1`
#[test]
fn a_wrong_response_is_answered_and_ends_the_connection() {
    let mut config = config();
    config.secret = Secret::new(*b"the secret of this test");
    let server = Running::with(config);
    let mut client = server.client_with(&Secret::new(*b"another secret"));
    client.send(&acquire(0, 30, 1, "k"));
    client.send(&rubbish());
    assert_eq!(client.hear_all(), error("auth_failed"));
    let mut good = server.client_with(&Secret::new(*b"the secret of this test"));
    good.take(0, 30, 1, "k");
}

/// `ER-2`, F22
#[test]
fn an_unknown_op_is_answered_and_nothing_behind_it_is_executed() {
    let server = Running::start();
    let mut quickest = PATIENCE;
    for op in [0x00, 0x61, 0x42, 0x4d, 0x4e, 0x54, 0x16, 0xff] {
        for lf in [&b""[..], b"\n"] {
            let mut client = server.client();
            let before = acquire(0, 30, 7, &format!("before-{op}-{}", lf.len()));
            let behind = [acquire(0, 30, 1, "victim"), rubbish()].concat();
            let start = Instant::now();
            client.send(&[&before, &[op][..], lf, &behind].concat());
            let said = client.hear_all();
            assert!(matches!(said[0], Said::Acquired { owner: 7, .. }), "{op:#x}: {said:?}");
            assert_eq!(said[1..], error("bad_op"), "{op:#x}");
            quickest = quickest.min(start.elapsed());
        }
    }
    // The end of the stream comes behind the last word. If it waited for the end of the peer's, which has 1 s
    // (`TR-9`), it would come late each time.
    assert!(quickest < Duration::from_secs(1), "{quickest:?}");
    server.client().take(0, 1, 1, "victim");
}

/// `ER-3`, F22
#[test]
fn an_owner_of_0_is_answered_and_nothing_behind_it_is_executed() {
    let server = Running::start();
    let mut client = server.client();
    client.send(&[acquire(0, 5, 0, "k"), acquire(0, 5, 1, "k"), rubbish()].concat());
    assert_eq!(client.hear_all(), error("bad_request"));
    server.client().take(0, 1, 1, "k");
}

/// `ER-3`
#[test]
fn a_stream_that_ends_inside_a_frame_is_answered() {
    let server = Running::start();
    for len in [1, 5, 12] {
        let mut client = server.client();
        client.send(&acquire(0, 5, 1, "k")[..len]);
        client.shut_down_write();
        assert_eq!(client.hear_all(), error("bad_request"), "{len} bytes");
    }
    server.client().take(0, 1, 1, "k");
}

/// `ER-3`, `FR-6`
pub(crate) fn a_frame_that_stalls_for_5_s_is_answered_though_bytes_still_come() {
    let server = Running::start();
    let mut client = server.client();
    let mut writer = client.stream.try_clone().unwrap();
    let start = Instant::now();
    // Whole after 50 s, if nobody ended it.
    let trickling = thread::spawn(move || {
        for byte in acquire(0, 5, 1, &"x".repeat(114)) {
            if writer.write_all(&[byte]).is_err() {
                return;
            }
            thread::sleep(Duration::from_millis(400));
        }
    });
    let said = client.hear_all();
    let elapsed = start.elapsed();
    assert_eq!(said[0], Said::Error("bad_request".to_owned()));
    assert!(matches!(said[1..], [Said::End | Said::Reset]), "{said:?}");
    assert!((5.0..25.0).contains(&elapsed.as_secs_f64()), "{elapsed:?}");
    drop(client);
    trickling.join().unwrap();
}

/// `ER-3`
#[test]
fn a_first_line_that_is_no_response_is_answered() {
    let server = Running::start();
    for line in [&b"GET / HTTP/1.1\r\n"[..], b"\n", b"A\0\x05\0\0\0\0\0\0\0\x01k\n"] {
        let mut client = server.stranger();
        client.challenge();
        client.send(line);
        client.send(&rubbish());
        assert_eq!(client.hear_all(), error("bad_request"));
    }
}

/// `ER-4`
#[test]
fn byte_193_without_a_line_feed_is_answered_at_once() {
    let server = Running::start();
    let mut client = server.client();
    client.send(&acquire(0, 5, 1, &"x".repeat(182))[..193]);
    assert_eq!(client.hear_all(), error("line_too_long"));

    let mut stranger = server.stranger();
    stranger.challenge();
    stranger.send(&[b'x'; 193]);
    assert_eq!(stranger.hear_all(), error("line_too_long"));
}

/// `ER-5`, `ER-6`
#[test]
fn a_bad_key_and_a_bad_lease_leave_the_connection_open() {
    let server = Running::start();
    let mut client = server.client();
    for (frame, reason) in [
        (acquire(0, 5, 1, "a b"), "bad_key"),
        (acquire(0, 5, 1, ""), "bad_key"),
        (super::support::release(1, &"x".repeat(129)), "bad_key"),
        (acquire(0, 0, 1, "k"), "bad_lease"),
        (acquire(0, 251, 1, ""), "bad_lease"),
    ] {
        client.send(&frame);
        assert_eq!(client.hear(), Said::Error(reason.to_owned()));
    }
    client.take(0, 5, 1, "k");
}

/// `ER-7`
#[test]
fn a_shutdown_is_said_to_every_authenticated_connection() {
    let server = Running::start();
    let mut client = server.client();
    client.sentinel("in");
    server.shutdown.shut_down();
    assert_eq!(client.hear_all(), error("not_active"));
}

/// `AU-3`, A06
#[test]
fn the_first_frames_may_come_with_the_response_and_not_before() {
    let server = Running::start();
    let frame = acquire(0, 5, 1, "k");
    let mut early = server.stranger();
    let nonce = early.challenge();
    early.send(&[&frame[..], &response(&Secret::default(), &nonce)].concat());
    assert_eq!(early.hear_all(), error("bad_request"));

    let mut client = server.stranger();
    let nonce = client.challenge();
    client.send(&[&response(&Secret::default(), &nonce)[..], &frame].concat());
    client.granted(1, "k");
}
