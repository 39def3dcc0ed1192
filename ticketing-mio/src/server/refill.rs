//! More tokens, from where it may block.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel};
use std::thread;
use std::time::Duration;

use mio::Waker;
use ticketing_host::server::{Log, Reserve, ServerConfig};
use ticketing_proto::id::Token;
use ticketing_proto::server::Server as Core;
use ticketing_proto::time::Instant;

/// Before tokens are asked for again where there were none.
const PAUSE: Duration = Duration::from_secs(1);

/// Reserves tokens, on a thread of its own, whenever few are left. Without success the core grants what it has,
/// and then fails closed (`FI-6`).
#[derive(Debug)]
pub(super) struct Refill {
    asks: SyncSender<()>,
    answers: Receiver<io::Result<Token>>,
    is_asking: bool,
    not_before: Option<Instant>,
}

impl Refill {
    pub(super) fn start(mut reserve: Reserve, waker: Arc<Waker>) -> io::Result<Self> {
        let (asks, asked) = sync_channel(1);
        let (answer, answers) = sync_channel(1);
        thread::Builder::new().name("ticketing-reserve".into()).spawn(move || {
            while asked.recv().is_ok() && answer.send(reserve()).is_ok() {
                // Where the loop can't be woken, nobody waits for the answer.
                let _ = waker.wake();
            }
        })?;
        Ok(Self { asks, answers, is_asking: false, not_before: None })
    }

    /// Takes what has come, and asks for more if few are left. Gives itself back for as long as there is any use.
    pub(super) fn turn(mut self, now: Instant, core: &mut Core, log: &Log) -> Option<Self> {
        match self.answers.try_recv() {
            Ok(answer) => {
                self.is_asking = false;
                let left = core.tokens_left();
                let error = match answer {
                    Ok(last) => {
                        core.extend_tokens(last);
                        let is_more = core.tokens_left() > left;
                        (!is_more)
                            .then(|| io::Error::other("the reserved tokens are not above the earlier ones"))
                    }
                    Err(error) => Some(error),
                };
                self.not_before = error.map(|error| {
                    log.not_reserved(&error, left);
                    now + PAUSE
                });
            }
            Err(TryRecvError::Empty) => {}
            Err(TryRecvError::Disconnected) => {
                let error = io::Error::other("a panic has ended it for good");
                log.not_reserved(&error, core.tokens_left());
                return None;
            }
        }
        let is_low = core.tokens_left() < ServerConfig::LOW_TOKENS;
        if is_low && !self.is_asking && self.not_before.is_none_or(|at| at <= now) {
            self.not_before = None;
            self.is_asking = self.asks.try_send(()).is_ok();
        }
        Some(self)
    }

    /// When it wants a turn, at the latest.
    pub(super) const fn next_timeout(&self) -> Option<Instant> {
        self.not_before
    }
}
