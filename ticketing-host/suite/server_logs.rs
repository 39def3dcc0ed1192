//! What is logged, how often, and what never is: one test, as the log is the process's.

#[expect(dead_code, reason = "only some of it is needed here")]
#[path = "server/support.rs"]
mod support;

use std::io;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use ticketing_proto::wire::auth::Secret;
use tracing_subscriber::filter::LevelFilter;

use support::{Client, Running, Said, acquire, config};

const SECRET: &str = "correct-horse-battery";

/// A log that can be read.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A11, R12
#[test]
fn faults_are_logged_with_the_address_at_a_bounded_rate_and_without_secrets_and_keys() {
    let log = Log::default();
    let writer = log.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(LevelFilter::TRACE)
        .with_ansi(false)
        .with_writer(move || writer.clone())
        .finish();
    let mut config = config();
    config.secret = Secret::new(SECRET.as_bytes());
    let told = format!("{config:?}");
    assert!(!told.contains(SECRET), "{told}");
    tracing::subscriber::set_global_default(subscriber).unwrap();
    let server = Running::with(config);
    let address = server.address();

    let start = Instant::now();
    let mut responses = Vec::new();
    let mut first_stranger = None;
    for _ in 0..200 {
        let mut client = Client::connect(address);
        first_stranger.get_or_insert(client.stream.local_addr().unwrap());
        let nonce = client.challenge();
        let wrong = support::response(&Secret::new(*b"wrong"), &nonce);
        client.send(&wrong);
        assert_eq!(client.hear_all(), [Said::Error("auth_failed".to_owned()), Said::End]);
        responses.push(String::from_utf8(wrong).unwrap().trim_end().to_owned());
    }
    let seconds = start.elapsed().as_secs() + 1;
    // A key that would move the cursor, and many frames that are refused.
    let mut client = Client::connect(address);
    let nonce = client.challenge();
    let good = support::response(&Secret::new(SECRET.as_bytes()), &nonce);
    client.send(&good);
    client.take(0, 60, 1, "evil\u{1b}[2J\r\u{2028}\u{202e}");
    for _ in 0..1000 {
        client.send(&acquire(0, 60, 2, "a bad key"));
        assert_eq!(client.hear(), Said::Error("bad_key".to_owned()));
    }
    client.send(b"\x1b");
    assert_eq!(client.hear_all(), [Said::Error("bad_op".to_owned()), Said::End]);
    drop(server);

    let bytes = log.0.lock().unwrap().clone();
    let text = String::from_utf8(bytes).unwrap();
    let failures: Vec<&str> = text.lines().filter(|line| line.contains("wrong response")).collect();
    assert!(failures[0].contains(&format!("peer={}", first_stranger.unwrap())), "{text}");
    assert!(failures.len() as u64 <= 10 * (seconds + 1), "{} lines in {seconds} s", failures.len());
    assert!(!text.contains(SECRET) && !text.contains("evil") && !text.contains('\u{1b}'), "{text}");
    assert!(!text.contains("bad key"), "{text}");
    assert!(!text.contains(std::str::from_utf8(&good).unwrap().trim_end()));
    assert!(responses.iter().all(|response| !text.contains(response)));
}
