//! One run of the table beside the naive one.

use ticketing_proto::id::{ConnectionId, Owner, Token};
use ticketing_proto::key::Key;
use ticketing_proto::limits::{Lease, Limits, Wait};
use ticketing_proto::lock::{Outcome, Table, TableConfig, TokenRange};
use ticketing_proto::time::Instant;

use super::judge::Judge;
use super::naive::{Naive, millis};

pub(crate) const KEYS: [&str; 4] = ["a", "b", "a-key-of-more-than-22-bytes", "\u{e9}"];

#[derive(Clone, Debug)]
pub(crate) enum Step {
    Acquire {
        connection: u64,
        wait: u8,
        lease: u8,
        key: usize,
    },
    Refuse,
    /// Of the token that holds the key.
    Release {
        key: usize,
    },
    /// Of some token that was given (this one, as they go round), which need not be the key's nor a current one.
    ReleaseAny {
        token: usize,
        key: usize,
    },
    /// Of none that is ever given: a guess could be the one that is given just before.
    ReleaseNonsense {
        token: u64,
        key: usize,
    },
    Disconnect {
        connection: u64,
    },
    Answered,
    HandleTimeout,
    Pass {
        millis: u64,
    },
    /// To the next deadline, and so many nanoseconds before or after it.
    PassToDeadline {
        nanos: i64,
    },
    GoBack,
    ExtendTokens {
        by: u64,
    },
}

/// When the due deadlines are processed.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Habit {
    /// Before each input, as servers do.
    Punctual,
    /// Only when a timeout is handled, which is whenever it comes.
    Careless,
}

struct Run {
    now: Instant,
    real: Table,
    naive: Naive,
    judge: Judge,
    owners: u64,
    given: Vec<Token>,
    unanswered: usize,
}

impl Run {
    fn new(limits: Limits, tokens: TokenRange) -> Self {
        // Not at the origin, so that there is a time to go back to.
        let now = Instant::ORIGIN + millis(10_000);
        Self {
            now,
            real: Table::new(now, TableConfig { limits, tokens, hash_seed: [3, 4] }),
            naive: Naive::new(now, limits, tokens),
            judge: Judge::default(),
            owners: 0,
            given: Vec::new(),
            unanswered: 0,
        }
    }

    fn take(&mut self, step: &Step, habit: Habit) {
        let now = self.now;
        if let Habit::Punctual = habit {
            self.real.settle(now);
            self.naive.settle(now);
            self.compare_answers();
        }
        let key = |index: &usize| Key::new(KEYS[*index].as_bytes()).unwrap();
        match step {
            Step::Acquire { connection, wait, lease, key: index } => {
                self.acquire(
                    *connection,
                    Wait::from_secs(*wait),
                    Lease::from_secs(*lease).unwrap(),
                    &key(index),
                );
            }
            Step::Refuse => {
                self.real.refuse();
                self.naive.refuse();
                self.unanswered += 1;
            }
            Step::Release { key: index } => {
                let key = key(index);
                let held = self.naive.held().into_iter().find(|(held, _)| *held == key);
                self.release(held.map_or(0, |(_, token)| token.value()), &key);
            }
            Step::ReleaseAny { token, key: index } if !self.given.is_empty() => {
                self.release(self.given[token % self.given.len()].value(), &key(index));
            }
            Step::ReleaseAny { .. } => {}
            Step::ReleaseNonsense { token, key: index } => self.release(*token, &key(index)),
            Step::Disconnect { connection } => {
                let connection = ConnectionId::new(*connection);
                let left = self.real.disconnect(now, connection);
                assert_eq!(left, self.naive.disconnect(now, connection));
                assert_eq!(left, self.judge.left(connection));
            }
            Step::Answered => {
                self.real.answered(self.unanswered);
                self.naive.answered(self.unanswered);
                self.unanswered = 0;
            }
            Step::HandleTimeout => self.handle_timeout(),
            Step::Pass { millis: span } => self.now = now + millis(*span),
            Step::PassToDeadline { nanos } => {
                if let Some(deadline) = self.naive.next_deadline() {
                    let target = deadline.since_origin().as_nanos() as i64 + nanos;
                    self.now = now.max(Instant::ORIGIN + core::time::Duration::from_nanos(target as u64));
                }
            }
            Step::GoBack => {
                let past = Instant::ORIGIN + millis(1);
                self.real.settle(past);
                self.naive.settle(past);
            }
            Step::ExtendTokens { by } => {
                let last = Token::new(self.judge.last_token().saturating_add(*by)).unwrap();
                self.real.extend_tokens(last);
                self.naive.extend_tokens(last);
            }
        }
        self.compare_answers();
        assert_eq!(self.real.usage(), self.naive.usage(), "after {step:?}");
        assert_eq!(self.real.tokens_left(), self.naive.tokens_left());
        if let Some(latest) = self.naive.latest_timeout() {
            assert!(self.real.poll_timeout().is_some_and(|timeout| timeout <= latest), "a timer is late");
        }
    }

    fn acquire(&mut self, connection: u64, wait: Wait, lease: Lease, key: &Key) {
        self.owners += 1;
        let (now, connection, owner) =
            (self.now, ConnectionId::new(connection), Owner::new(self.owners).unwrap());
        let outcome = self.real.acquire(now, connection, owner, wait, lease, key.as_key_ref());
        assert_eq!(outcome, self.naive.acquire(now, connection, owner, wait, lease, key));
        // What was due came out first.
        self.compare_answers();
        self.judge.asked(now, connection, owner, wait, lease, key, outcome);
        if let Outcome::Granted(token) = outcome {
            self.given.push(token);
        }
        if outcome != Outcome::Queued {
            self.unanswered += 1;
        }
    }

    fn release(&mut self, token: u64, key: &Key) {
        let is_released = self.real.release(self.now, token, key.as_key_ref());
        assert_eq!(is_released, self.naive.release(self.now, token, key));
        self.judge.released(self.now, token, key, is_released);
    }

    fn handle_timeout(&mut self) {
        self.naive.settle(self.now);
        let mut calls = 0;
        loop {
            self.real.handle_timeout(self.now);
            calls += 1;
            if self.real.poll_timeout().is_none_or(|timeout| timeout > self.now) {
                break;
            }
            assert!(calls < 200, "it never comes to rest");
        }
    }

    fn compare_answers(&mut self) {
        loop {
            let answer = self.real.poll_answer();
            assert_eq!(answer, self.naive.poll_answer());
            let Some(answer) = answer else { return };
            self.unanswered += 1;
            self.given.extend(self.judge.answered(self.naive.now(), &answer));
        }
    }

    /// Lets every lease end and every wait be over: nothing may be left.
    fn finish(mut self) {
        self.now = self.now + millis(3_000_000);
        while self.naive.next_deadline().is_some() {
            self.handle_timeout();
            self.compare_answers();
            self.now = self.now + millis(1_000_000);
        }
        self.handle_timeout();
        self.real.answered(self.unanswered);
        let usage = self.real.usage();
        assert_eq!((usage.acquires.used, usage.keys.used, usage.waiters.used), (0, 0, 0));
        assert!(!usage.acquires.is_closed && !usage.keys.is_closed && !usage.waiters.is_closed);
        self.judge.finish();
        for _ in 0..1000 {
            let Some(timeout) = self.real.poll_timeout() else { return };
            self.real.handle_timeout(timeout);
        }
        panic!("a timer without a reason");
    }
}

/// Takes all steps, and then lets everything end.
pub(crate) fn run(limits: Limits, tokens: TokenRange, steps: &[Step], habit: Habit) {
    let mut run = Run::new(limits, tokens);
    steps.iter().for_each(|step| run.take(step, habit));
    run.finish();
}
