//! Tokens rise, and end.

use super::*;
use alloc::string::String;
use alloc::{format, vec};

#[test]
fn tokens_are_distinct_and_rise_over_all_keys() {
    let mut scene = Scene::with(Limits::default(), 7, u64::MAX);
    let mut random = Random(6);
    let names: Vec<String> = (0..100).map(|number| format!("k{number}")).collect();
    let mut held: Vec<Option<u64>> = vec![None; names.len()];
    let mut last = 6;
    let mut grants = 0;
    while grants < 640_000 {
        let at = random.below(100) as usize;
        let name = &names[at];
        if let Some(token) = held[at].take() {
            // With a waiter it is granted again at once.
            let waiter = (random.below(4) == 0).then(|| scene.queue(5, 250, name));
            assert!(scene.release(token, name));
            held[at] = waiter.map(|waiter| scene.granted(waiter));
        } else {
            held[at] = Some(scene.take(250, name));
        }
        if let Some(token) = held[at] {
            assert!(token > last);
            last = token;
            grants += 1;
        }
        let in_flight = scene.table.usage().acquires.used;
        scene.table.answered(in_flight as usize);
    }
    assert_eq!(last, 6 + grants, "each grant takes the next one");
}

#[test]
fn when_the_tokens_end_it_fails_closed() {
    // The last one given is u64::MAX - 3.
    let mut scene = Scene::with(Limits::default(), u64::MAX - 2, u64::MAX);
    let a = scene.take(250, "a");
    let b = scene.take(250, "b");
    let waiters = [scene.queue(255, 5, "a"), scene.queue(255, 5, "a"), scene.queue(255, 5, "b")];
    assert_eq!(scene.table.tokens_left(), 1);
    assert!(scene.release(b, "b"));
    assert_eq!(scene.granted(waiters[2]), u64::MAX, "the third and last");
    assert_eq!((a, b, scene.table.tokens_left()), (u64::MAX - 2, u64::MAX - 1, 0));

    assert_eq!(scene.ask(0, 5, "a"), Outcome::TimedOut);
    assert_eq!(scene.ask(5, 5, "a"), Outcome::Busy);
    assert_eq!(scene.ask(0, 5, "free"), Outcome::Busy);
    assert_eq!(scene.ask(5, 5, "free"), Outcome::Busy);
    scene.handle_timeouts();
    assert_eq!(scene.answers(), [(waiters[0], Verdict::Busy), (waiters[1], Verdict::Busy)]);
    assert!(scene.release(a, "a") && scene.release(u64::MAX, "b"));
    assert!(!scene.release(0, "a"));
    assert_eq!((scene.keys(), scene.waiters()), (0, 0));
    assert_eq!(scene.ask(0, 5, "a"), Outcome::Busy);
}

#[test]
fn a_hold_that_ends_without_tokens_leaves_its_waiters_to_their_b() {
    for by_release in [true, false] {
        let mut scene = Scene::with(Limits { keys: 10, ..Limits::default() }, 1, 2);
        let first = scene.take(5, "k");
        let waiters = [scene.queue(255, 5, "k"), scene.queue(255, 5, "k")];
        scene.take(250, "last");
        if by_release {
            assert!(scene.release(first, "k"));
        } else {
            scene.sleep(millis(5000));
            assert_eq!(scene.ask(0, 5, "k"), Outcome::Busy);
        }
        assert_eq!(scene.keys(), 1, "nobody holds it");
        assert!(!scene.release(first, "k"));
        // New tokens don't let anyone overtake those who still wait.
        scene.table.extend_tokens(token(9));
        assert_eq!(scene.ask(0, 5, "k"), Outcome::Busy);
        assert_eq!(scene.ask(5, 5, "last"), Outcome::Busy);
        scene.handle_timeouts();
        assert_eq!(scene.answers(), [(waiters[0], Verdict::Busy), (waiters[1], Verdict::Busy)]);
        assert_eq!(scene.take(5, "k"), 3);
        scene.queue(5, 5, "last");
    }
}

#[test]
fn reserved_blocks_of_tokens_follow_each_other() {
    let mut scene = Scene::with(Limits::default(), 10, 12);
    assert_eq!(scene.table.tokens_left(), 3);
    let first = scene.take(250, "a");
    scene.table.extend_tokens(token(20));
    scene.table.extend_tokens(token(15));
    assert_eq!((first, scene.table.tokens_left()), (10, 10), "tokens are not taken back");
    let waiter = scene.queue(255, 5, "a");
    for number in 0..9 {
        scene.take(250, &format!("k{number}"));
    }
    scene.table.extend_tokens(token(21));
    assert!(scene.release(10, "a"));
    assert_eq!(scene.granted(waiter), 20, "who waited while a block was at its end is granted from the next");
}

#[test]
fn an_empty_range_grants_nothing() {
    let mut scene = Scene::with(Limits::default(), 5, 4);
    assert_eq!((scene.table.tokens_left(), scene.ask(5, 5, "k")), (0, Outcome::Busy));
    scene.table.extend_tokens(token(5));
    assert_eq!(scene.take(5, "k"), 5);
}
