//! Work per call is bounded, and what is left for later is right meanwhile.

use super::*;
use alloc::format;
use alloc::string::String;

fn name(number: u64) -> String {
    format!("k{number}")
}

#[test]
fn a_timeout_ends_a_bounded_number_of_holds_at_a_time() {
    let mut scene = Scene::new();
    for number in 0..3000 {
        scene.take(1, &name(number));
    }
    scene.sleep(millis(5000));
    scene.table.settle(scene.now);
    assert_eq!(scene.keys(), 3000 - 1024);
    for left in [3000 - 2 * 1024, 0] {
        scene.table.handle_timeout(scene.now);
        assert_eq!(scene.keys(), left);
    }
    assert!(
        scene.table.poll_timeout().is_some_and(|timeout| timeout <= scene.now),
        "memory is to be reclaimed"
    );
    scene.pass(millis(10_000));
    assert_eq!(scene.table.poll_timeout(), None);
}

#[test]
fn a_timeout_answers_a_bounded_number_of_waiters_at_a_time() {
    let mut scene = Scene::new();
    scene.take(250, "k");
    for _ in 0..3000 {
        scene.queue(1, 5, "k");
    }
    scene.sleep(millis(1000));
    for count in [1024, 1024, 952] {
        assert!(scene.table.poll_timeout().is_some_and(|timeout| timeout <= scene.now));
        scene.table.handle_timeout(scene.now);
        assert_eq!(scene.answers().len(), count);
    }
    assert!(scene.table.poll_timeout().is_some_and(|timeout| timeout > scene.now));
}

#[test]
fn without_tokens_waiters_are_refused_in_bounded_batches() {
    let mut scene = Scene::with(Limits::default(), 1, 2);
    scene.take(250, "k");
    for _ in 0..3000 {
        scene.queue(200, 5, "k");
    }
    scene.take(250, "other");
    for count in [1024, 1024, 952] {
        assert_eq!(scene.table.poll_timeout(), Some(scene.now), "it is to be gone on with at once");
        scene.table.handle_timeout(scene.now);
        let answers = scene.answers();
        assert!(answers.iter().all(|(_, verdict)| *verdict == Verdict::Busy));
        assert_eq!(answers.len(), count);
    }
    assert!(scene.table.poll_timeout().is_some_and(|timeout| timeout > scene.now));
}

#[test]
fn a_key_is_up_to_date_for_who_asks_however_much_else_is_overdue() {
    let mut scene = Scene::new();
    for number in 0..3000 {
        scene.take(1, &name(number));
    }
    let held = scene.take(3, "k");
    let early = scene.queue(2, 5, "k");
    let next = scene.queue(200, 5, "k");
    let free = scene.take(3, "free");
    scene.sleep(millis(4000));
    scene.table.settle(scene.now);
    assert!(scene.keys() > 1900, "most is still to be done");
    assert!(!scene.release(held, "k"));
    let expected = [(early, Verdict::TimedOut), (next, Verdict::Granted(token(3003)))];
    assert_eq!(scene.answers(), expected);
    assert_eq!(scene.ask(0, 5, "k"), Outcome::TimedOut);
    assert!(!scene.release(free, "free"));
    assert_eq!(scene.take(5, "free"), 3004);
    assert!(scene.release(3003, "k"));
}

#[test]
fn what_is_overdue_counts_at_no_gate_however_much_it_is() {
    let mut scene = Scene::with_limits(Limits { keys: 4000, ..Limits::default() });
    for number in 0..3600 {
        scene.take(1, &name(number));
    }
    assert_eq!(scene.ask(0, 1, "new"), Outcome::Busy);
    scene.sleep(millis(1000));
    scene.take(1, "new");
    assert!(!scene.table.usage().keys.is_closed);
}

#[test]
fn ended_holds_are_granted_again_before_and_after_they_are_reclaimed() {
    let mut scene = Scene::new();
    for number in 0..3000 {
        scene.take(1, &name(number));
    }
    scene.sleep(millis(1000));
    (0..3).for_each(|_| scene.table.settle(scene.now));
    assert_eq!(scene.keys(), 0);
    assert_eq!(scene.table.poll_timeout(), Some(scene.now), "so much memory does not wait for the sweep");
    for number in 0..1000 {
        scene.take(250, &name(3 * number));
    }
    scene.pass(millis(10_000));
    assert_eq!(scene.keys(), 1000);
    for number in 0..1000 {
        assert_eq!(scene.ask(0, 5, &name(3 * number)), Outcome::TimedOut);
        scene.take(5, &name(3 * number + 1));
    }
}

#[test]
fn a_hand_over_costs_the_same_however_many_wait() {
    fn least(waiters: u64) -> Duration {
        let limits = Limits { waiters: 1_000_000, waiters_per_key: 1_000_000, ..Limits::default() };
        let mut scene = Scene::with_limits(Limits { acquires: 1_000_000, ..limits });
        let mut held = scene.take(250, "k");
        for number in 0..waiters {
            assert_eq!(scene.ask_from(number % 50, 255, 250, "k"), Outcome::Queued);
        }
        let slices = (0..20).map(|_| {
            let start = std::time::Instant::now();
            for _ in 0..50 {
                assert!(scene.release(held, "k"));
                held = match scene.table.poll_answer().map(|answer| answer.verdict) {
                    Some(Verdict::Granted(token)) => token.value(),
                    other => panic!("someone waits: {other:?}"),
                };
            }
            start.elapsed()
        });
        slices.min().expect("there are slices")
    }
    // A scan would take a hundred times as long.
    let (few, many) = (least(1000), least(100_000));
    assert!(many < few * 10, "{few:?} with 1000 waiters, {many:?} with 100 000");
}
