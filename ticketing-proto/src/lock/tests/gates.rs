//! Admission: three gates and a bound.

use super::*;
use alloc::format;
use alloc::string::String;

fn limits(keys: u32, waiters: u32) -> Limits {
    Limits { keys, waiters, ..Limits::default() }
}

fn name(number: u64) -> String {
    format!("k{number}")
}

impl Scene {
    fn take_many(&mut self, count: u64, lease: u8) -> Vec<(u64, String)> {
        (0..count)
            .map(|_| {
                let name = name(self.owners);
                (self.take(lease, &name), name)
            })
            .collect()
    }
}

#[test]
fn the_gate_for_keys_closes_with_the_90th_and_opens_at_74() {
    let mut scene = Scene::with_limits(limits(100, 100));
    let mut held = scene.take_many(90, 250);
    assert!(scene.table.usage().keys.is_closed, "the 90th is granted and closes it");
    assert_eq!(scene.ask(5, 5, "new"), Outcome::Busy);
    while scene.keys() > 80 {
        let (token, name) = held.pop().unwrap();
        assert!(scene.release(token, &name), "a release is never refused");
    }
    for _ in 0..60 {
        scene.pass(millis(1000));
        assert_eq!(scene.ask(0, 5, "new"), Outcome::Busy);
    }
    while scene.keys() > 75 {
        let (token, name) = held.pop().unwrap();
        assert!(scene.release(token, &name));
    }
    assert_eq!(scene.ask(0, 5, "new"), Outcome::Busy);
    let (token, name) = held.pop().unwrap();
    assert!(scene.release(token, &name));
    assert!(!scene.table.usage().keys.is_closed, "it opens without a new request");
    scene.take(5, "new");

    // Filled again, and left to itself.
    while !scene.table.usage().keys.is_closed {
        scene.take_many(1, 250);
    }
    scene.sleep(Duration::from_secs(250));
    scene.take(5, "newer");
    assert_eq!(scene.keys(), 75, "so many were ended as had to be");
}

#[test]
fn a_closed_gate_for_keys_opens_by_its_timer() {
    let mut scene = Scene::with_limits(limits(100, 100));
    scene.take_many(16, 3);
    scene.take_many(74, 250);
    scene.pass(millis(3000) - Duration::from_nanos(1));
    assert!(scene.table.usage().keys.is_closed);
    scene.pass(Duration::from_nanos(1));
    assert!(!scene.table.usage().keys.is_closed);
}

#[test]
fn the_gate_for_keys_counts_what_is_held_and_nothing_else() {
    let mut scene = Scene::with_limits(limits(100, 100));
    let held = scene.take_many(90, 5);
    let waiters: Vec<u64> = held[..20].iter().map(|(_, name)| scene.queue(255, 5, name)).collect();
    assert_eq!(scene.ask(0, 5, "new"), Outcome::Busy);
    assert_eq!(scene.ask(0, 5, &held[30].1), Outcome::TimedOut);
    let queued = scene.queue(5, 5, &held[30].1);
    assert!(scene.release(held[40].0, &held[40].1));
    assert_eq!(scene.ask(0, 5, "new"), Outcome::Busy);
    scene.disconnect(queued);
    waiters.into_iter().for_each(|waiter| assert_eq!(scene.disconnect(waiter), 1));
    scene.sleep(millis(5000));
    scene.take(5, "new");
}

#[test]
fn an_overdue_hold_does_not_close_the_gate() {
    let mut scene = Scene::with_limits(limits(100, 100));
    scene.take_many(9, 1);
    scene.take_many(80, 250);
    scene.sleep(millis(1000));
    // 80 are held; with the overdue ones it would be the 90th, and 81 would not open the gate again.
    for held in 81..=90 {
        scene.take(250, &name(held + 1000));
        assert_eq!(scene.table.usage().keys.is_closed, held == 90);
    }
    assert_eq!(scene.ask(0, 5, "new"), Outcome::Busy);
}

#[test]
fn a_promoted_waiter_passes_no_gate() {
    let mut scene = Scene::with_limits(limits(10, 10));
    let held = scene.take_many(9, 250);
    let waiters: Vec<u64> = held.iter().map(|(_, name)| scene.queue(255, 250, name)).collect();
    let usage = scene.table.usage();
    assert!(usage.keys.is_closed && usage.waiters.is_closed);
    for ((token, name), waiter) in held.iter().zip(waiters) {
        assert!(scene.release(*token, name));
        scene.granted(waiter);
    }
    assert_eq!((scene.keys(), scene.waiters()), (9, 0));
}

#[test]
fn the_gate_for_waiters_closes_with_the_90th_and_opens_at_74() {
    let mut scene = Scene::with_limits(limits(1000, 100));
    scene.take(250, "k");
    let waiters: Vec<u64> = (0..90).map(|_| scene.queue(255, 5, "k")).collect();
    assert!(scene.table.usage().waiters.is_closed, "the 90th waits and closes it");
    assert_eq!(scene.ask(5, 5, "k"), Outcome::Busy);
    assert_eq!(scene.ask(0, 5, "k"), Outcome::TimedOut, "who does not wait needs no gate");
    scene.take(5, "free");
    for (number, waiter) in waiters.into_iter().take(16).enumerate() {
        assert_eq!(scene.ask(5, 5, "k"), Outcome::Busy, "{} wait", 90 - number);
        scene.disconnect(waiter);
    }
    scene.queue(5, 5, "k");
}

#[test]
fn overdue_waiters_neither_fill_a_queue_nor_close_the_gate() {
    let mut scene = Scene::with_limits(Limits { waiters_per_key: 3, ..limits(100, 100) });
    scene.take(250, "k");
    // The overdue one stands in the middle, so that the head of the queue tells nothing of it.
    for wait in [100, 1, 100] {
        scene.queue(wait, 5, "k");
    }
    assert_eq!(scene.ask(5, 5, "k"), Outcome::Busy);
    scene.sleep(millis(1000));
    scene.queue(5, 5, "k");
    assert_eq!(scene.ask(5, 5, "k"), Outcome::Busy);

    let mut scene = Scene::with_limits(limits(1000, 100));
    scene.take(250, "k");
    for _ in 0..9 {
        scene.queue(1, 5, "k");
    }
    for _ in 0..80 {
        scene.queue(100, 5, "k");
    }
    scene.sleep(millis(1000));
    for waiting in 81..=90 {
        scene.queue(100, 5, "k");
        assert_eq!(scene.table.usage().waiters.is_closed, waiting == 90);
    }
}

#[test]
fn the_gate_for_acquires_counts_from_receipt_to_answer() {
    let mut scene = Scene::with_limits(Limits { acquires: 100, ..limits(1000, 1000) });
    scene.take(250, "k");
    // Granted, timed out, queued, and refused by the connection's own bound: all are in flight.
    for number in 1..90 {
        match number % 4 {
            0 => assert_eq!(scene.ask(0, 5, "k"), Outcome::TimedOut),
            1 => assert!(scene.take(5, &name(number)) > 0),
            2 => assert!(scene.queue(255, 5, "k") > 0),
            _ => scene.table.refuse(),
        }
    }
    let usage = scene.table.usage().acquires;
    assert_eq!((usage.used, usage.is_closed), (90, true));
    // Those that the gate refuses are in flight too, until they are answered.
    for _ in 0..5 {
        assert_eq!(scene.ask(0, 5, "free"), Outcome::Busy);
        assert_eq!(scene.ask(0, 5, "k"), Outcome::Busy, "before the key is looked at");
    }
    assert_eq!(scene.table.usage().acquires.used, 100);
    scene.table.answered(25);
    assert_eq!(scene.ask(0, 5, "free"), Outcome::Busy);
    scene.table.answered(2);
    assert!(!scene.table.usage().acquires.is_closed, "at 74");
    scene.take(5, "free");
}

#[test]
fn waiters_are_in_flight_until_they_are_answered_or_gone() {
    let mut scene = Scene::new();
    let in_flight = |scene: &Scene| scene.table.usage().acquires.used;
    let held = scene.take(250, "k");
    scene.table.answered(1);
    let granted = scene.queue(255, 5, "k");
    scene.queue(1, 5, "k");
    let gone = scene.queue(255, 5, "k");
    assert_eq!(in_flight(&scene), 3);
    scene.pass(millis(1000));
    assert!(scene.release(held, "k"));
    assert_eq!((scene.answers().len(), in_flight(&scene)), (2, 3), "decided, and not yet handed over");
    scene.disconnect(granted);
    assert_eq!(in_flight(&scene), 3, "it waits no more: its answer is there");
    scene.disconnect(gone);
    assert_eq!(in_flight(&scene), 2);
    scene.table.answered(2);
    assert_eq!(in_flight(&scene), 0);
}

#[test]
fn each_leave_from_a_full_queue_admits_one_more() {
    let mut scene = Scene::with_limits(Limits { waiters_per_key: 100, ..Limits::default() });
    let mut held = scene.take(250, "k");
    let mut line: Vec<u64> = (0..98).map(|_| scene.queue(255, 250, "k")).collect();
    let short = scene.queue(1, 250, "k");
    line.push(scene.queue(255, 250, "k"));
    let admit_one = |scene: &mut Scene, line: &mut Vec<u64>| {
        line.push(scene.queue(255, 250, "k"));
        assert_eq!(scene.ask(255, 250, "k"), Outcome::Busy);
        assert_eq!(scene.waiters(), 100);
    };
    assert_eq!(scene.ask(255, 250, "k"), Outcome::Busy, "the 101st");
    // By T,
    scene.pass(millis(1000));
    assert_eq!(scene.answers(), [(short, Verdict::TimedOut)]);
    admit_one(&mut scene, &mut line);
    // by grant,
    assert!(scene.release(held, "k"));
    held = scene.granted(line.remove(0));
    admit_one(&mut scene, &mut line);
    // by the end of its connection, from the front, the middle and the back.
    for at in [0, 50, 99] {
        assert_eq!(scene.disconnect(line.remove(at)), 1);
        admit_one(&mut scene, &mut line);
    }
    let mut random = Random(5);
    for _ in 0..100_000 {
        match random.below(4) {
            0 => {
                assert!(scene.release(held, "k"));
                held = match line.is_empty() {
                    true => scene.take(250, "k"),
                    false => scene.granted(line.remove(0)),
                };
            }
            1 if !line.is_empty() => {
                let at = random.below(line.len() as u64) as usize;
                assert_eq!(scene.disconnect(line.remove(at)), 1);
            }
            _ if line.len() < 100 => line.push(scene.queue(255, 250, "k")),
            _ => assert_eq!(scene.ask(255, 250, "k"), Outcome::Busy),
        }
        assert_eq!(scene.waiters(), line.len() as u64);
        // Whoever was answered is no longer in flight.
        let in_flight = scene.table.usage().acquires.used - scene.waiters();
        scene.table.answered(in_flight as usize);
    }
    line.drain(..).for_each(|waiter| assert_eq!(scene.disconnect(waiter), 1));
    assert!(scene.release(held, "k"));
    let usage = scene.table.usage();
    assert_eq!((usage.acquires.used, usage.keys.used, usage.waiters.used), (0, 0, 0));
    scene.take(250, "k");
    for _ in 0..100 {
        scene.queue(255, 250, "k");
    }
    assert_eq!(scene.ask(255, 250, "k"), Outcome::Busy);
}

#[test]
fn a_limit_of_1_admits_one() {
    let mut scene = Scene::with_limits(Limits { acquires: 1, waiters_per_key: 1, ..limits(1, 1) });
    let held = scene.take(250, "k");
    assert_eq!(scene.ask(5, 5, "k"), Outcome::Busy, "the first one is not yet answered");
    scene.table.answered(2);
    scene.queue(255, 5, "k");
    scene.table.refuse();
    scene.table.answered(1);
    scene.disconnect(scene.owners);
    assert!(scene.release(held, "k"));
    scene.take(5, "other");
}
