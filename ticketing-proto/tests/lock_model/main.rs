//! Random operations with random times, against a deliberately naive table: every outcome, every answer and every
//! count must be the same (`OP`, `EX`, `AD`, `FI-6`).

mod judge;
mod naive;
mod run;

use proptest::prelude::*;
use run::{Habit, KEYS, Step, run};
use ticketing_proto::id::Token;
use ticketing_proto::limits::Limits;
use ticketing_proto::lock::TokenRange;

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
        2 => (0..1000_usize, key.clone())
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
