//! The counting line on a terminal while `run` waits.

use std::io::{self, IsTerminal as _, Write as _};
use std::time::Duration;

use nix::unistd::{getpgrp, tcgetpgrp};
use ticketing_tokio::{Instant, now};
use tokio::time::sleep;

use ticketing_host::program::Escaped;

/// How long a wait goes unremarked.
const QUIET: Duration = Duration::from_secs(1);
/// To the line's start, and clear it.
const CLEAR: &str = "\r\x1b[K";

/// The line. It disappears when this is dropped.
pub(super) struct Progress<'a> {
    key: &'a str,
    wait: Duration,
    begun: Instant,
}

impl<'a> Progress<'a> {
    pub(super) fn new(key: &'a str, wait: Duration) -> Self {
        Self { key, wait, begun: now() }
    }

    /// Counts for ever, on a terminal in whose foreground the program is.
    pub(super) async fn show(&self) {
        sleep(QUIET).await;
        loop {
            if is_watched() {
                let waited = now().saturating_since(self.begun).as_secs();
                let (key, wait) = (Escaped(self.key), self.wait.as_secs());
                write(&format!("{CLEAR}ticketing: waiting for {key}: {waited} of {wait} s"));
            }
            sleep(Duration::from_secs(1)).await;
        }
    }
}

impl Drop for Progress<'_> {
    fn drop(&mut self) {
        if now().saturating_since(self.begun) >= QUIET && is_watched() {
            write(CLEAR);
        }
    }
}

fn is_watched() -> bool {
    io::stderr().is_terminal() && tcgetpgrp(io::stderr()) == Ok(getpgrp())
}

fn write(text: &str) {
    // A terminal that is gone does not matter.
    drop(io::stderr().write_all(text.as_bytes()));
}
