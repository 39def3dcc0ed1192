//! Random operations with random times, against a deliberately naive table: every outcome, every answer and every
//! count must be the same (`OP`, `EX`, `AD`, `FI-6`).

mod judge;
mod naive;

use judge::Judge;
use naive::{Naive, millis};
use proptest::prelude::*;
use ticketing_proto::id::{ConnectionId, Owner, Token};
use ticketing_proto::key::Key;
use ticketing_proto::limits::{Lease, Limits, Wait};
use ticketing_proto::lock::{Outcome, Table, TableConfig, TokenRange};
use ticketing_proto::time::Instant;

const KEYS: [&str; 4] = ["a", "b", "a-key-of-more-than-22-bytes", "\u{e9}"];

#[derive(Clone, Debug)]
enum Step {
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
    /// Of some token that was given, which need not be the key's nor a current one.
    ReleaseAny {
        token: prop::sample::Index,
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

fn step() -> impl Strategy<Value = Step> {
    let connection = 0..4_u64;
    let key = 0..KEYS.len();
    let wait = prop_oneof![Just(0), 1..4_u8, Just(255)];
    let lease = prop_oneof![3 => 1..4_u8, 1 => Just(250)];
    prop_oneof![
        12 => (connection.clone(), wait, lease, key.clone())
            .prop_map(|(connection, wait, lease, key)| Step::Acquire { connection, wait, lease, key }),
        1 => Just(Step::Refuse),
        4 => key.clone().prop_map(|key| Step::Release { key }),
        2 => (any::<prop::sample::Index>(), key.clone())
            .prop_map(|(token, key)| Step::ReleaseAny { token, key }),
        1 => (prop_oneof![Just(0), Just(1 << 40)], key)
            .prop_map(|(token, key)| Step::ReleaseNonsense { token, key }),
        1 => connection.prop_map(|connection| Step::Disconnect { connection }),
        3 => Just(Step::Answered),
        2 => Just(Step::HandleTimeout),
        3 => prop_oneof![Just(1), Just(500), Just(1000), 0..5000_u64].prop_map(|millis| Step::Pass { millis }),
        3 => (-1..2_i64).prop_map(|nanos| Step::PassToDeadline { nanos }),
        1 => Just(Step::GoBack),
        1 => (1..5_u64).prop_map(|by| Step::ExtendTokens { by }),
    ]
}

fn limits() -> impl Strategy<Value = Limits> {
    let some = || prop_oneof![1..12_u32, Just(1000)];
    (some(), some(), some(), some()).prop_map(|(keys, acquires, waiters, waiters_per_key)| Limits {
        keys,
        acquires,
        waiters,
        waiters_per_key,
        ..Limits::default()
    })
}

fn tokens() -> impl Strategy<Value = TokenRange> {
    let range = |next, last| TokenRange { next: Token::new(next).unwrap(), last: Token::new(last).unwrap() };
    prop_oneof![
        3 => Just(range(1, u64::MAX)),
        1 => (1..30_u64).prop_map(move |last| range(2, last)),
        1 => (0..20_u64).prop_map(move |left| range(u64::MAX - left, u64::MAX)),
    ]
}

/// When the due deadlines are processed.
#[derive(Clone, Copy, Debug)]
enum Habit {
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
                self.release(token.get(&self.given).value(), &key(index));
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

fn run(limits: Limits, tokens: TokenRange, steps: &[Step], habit: Habit) {
    let mut run = Run::new(limits, tokens);
    steps.iter().for_each(|step| run.take(step, habit));
    run.finish();
}

proptest! {
    #[test]
    fn a_punctual_table_does_what_the_naive_one_does(
        limits in limits(), tokens in tokens(), steps in prop::collection::vec(step(), 1..150)
    ) {
        run(limits, tokens, &steps, Habit::Punctual);
    }

    #[test]
    fn a_table_without_a_timer_is_right_whenever_it_is_asked(
        limits in limits(), tokens in tokens(), steps in prop::collection::vec(step(), 1..150)
    ) {
        run(limits, tokens, &steps, Habit::Careless);
    }
}
