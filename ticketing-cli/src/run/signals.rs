//! The signals that `run` takes: those that it passes on, and that a child changed its state.

use std::fs;
use std::future::poll_fn;
use std::io;
use std::task::Poll;

use nix::sys::signal::Signal as Name;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// What is passed on to the command; before it runs, each of them ends the wait.
const PASSED_ON: [Name; 6] =
    [Name::SIGTERM, Name::SIGINT, Name::SIGHUP, Name::SIGQUIT, Name::SIGUSR1, Name::SIGUSR2];

/// Streams of signals. As long as they live, the signals don't act on `run` itself.
#[derive(Debug)]
pub(crate) struct Signals {
    passed_on: Vec<(Name, Signal)>,
    child: Signal,
}

/// One that came.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Came {
    /// To be passed on.
    PassOn(Name),
    /// Some child ended, stopped or went on.
    Child,
}

impl Signals {
    /// Starts to take signals. One that was ignored when the program started (by `nohup`, or for a background job of
    /// a script) stays so, for the command too.
    pub(crate) fn install() -> io::Result<Self> {
        let ignored = ignored();
        let mut passed_on = Vec::new();
        for name in PASSED_ON {
            if ignored & (1 << (name as i32 - 1)) == 0 {
                passed_on.push((name, signal(SignalKind::from_raw(name as i32))?));
            }
        }
        Ok(Self { passed_on, child: signal(SignalKind::child())? })
    }

    /// The next one. Cancel-safe.
    pub(crate) async fn next(&mut self) -> Came {
        poll_fn(|context| {
            for (name, signal) in &mut self.passed_on {
                if signal.poll_recv(context).is_ready() {
                    return Poll::Ready(Came::PassOn(*name));
                }
            }
            self.child.poll_recv(context).map(|_| Came::Child)
        })
        .await
    }

    /// The next one that is not about a child. Cancel-safe.
    pub(crate) async fn next_passed_on(&mut self) -> Name {
        loop {
            if let Came::PassOn(name) = self.next().await {
                return name;
            }
        }
    }
}

/// The signals that are ignored, one bit each. Where the system does not say: none.
fn ignored() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}
