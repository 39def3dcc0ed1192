//! Waits and leases end at their second, whatever else goes on.

use super::*;
use alloc::format;
use alloc::string::String;

const NANO: Duration = Duration::from_nanos(1);

#[test]
fn every_wait_ends_at_its_second() {
    for wait in 1..=u8::MAX {
        let mut scene = Scene::new();
        scene.take(250, "k");
        scene.sleep(Duration::from_secs(200));
        scene.take(250, "h");
        let waiter = scene.queue(wait, 5, "h");
        let end = Duration::from_secs(u64::from(wait)).min(Duration::from_secs(250));
        scene.pass(end - NANO);
        assert_eq!(scene.answers(), [], "{wait} s are not over");
        scene.pass(NANO);
        let verdict = scene.answers();
        if wait < 250 {
            assert_eq!(verdict, [(waiter, Verdict::TimedOut)]);
        } else {
            assert!(matches!(verdict[..], [(_, Verdict::Granted(_))]), "the lease ends first");
        }
    }
}

#[test]
fn a_wait_of_0_is_answered_at_once() {
    let mut scene = Scene::new();
    scene.take(5, "k");
    assert_eq!((scene.ask(0, 5, "k"), scene.waiters()), (Outcome::TimedOut, 0));
}

#[test]
fn every_lease_ends_at_its_second_and_no_earlier() {
    for lease in 1..=250 {
        for with_waiter in [false, true] {
            let mut scene = Scene::new();
            let held = scene.take(lease, "k");
            let waiter = with_waiter.then(|| scene.queue(255, 5, "k"));
            scene.pass(Duration::from_secs(u64::from(lease)) - NANO);
            assert_eq!((scene.ask(0, 5, "k"), scene.answers()), (Outcome::TimedOut, Vec::new()));
            scene.pass(NANO);
            match waiter {
                Some(waiter) => assert!(scene.granted(waiter) > held),
                None => assert!(scene.take(5, "k") > held),
            }
            assert!(!scene.release(held, "k"));
        }
    }
}

#[test]
fn the_end_of_time_is_no_panic() {
    let mut scene = Scene::new();
    scene.now = Instant::from_nanos(u64::MAX - 1_000_000_000);
    let held = scene.take(250, "k");
    let waiter = scene.queue(255, 250, "k");
    assert!(scene.table.poll_timeout().is_some());
    scene.handle_timeouts();
    assert_eq!(scene.answers(), [], "neither is over");
    // There is no later instant, so all ends there.
    scene.now = Instant::from_nanos(u64::MAX);
    scene.handle_timeouts();
    assert!(scene.granted(waiter) > held);
    assert_eq!((scene.keys(), scene.waiters()), (0, 0));
    scene.take(1, "k");
    scene.take(1, "k");
}

#[test]
fn time_that_goes_back_stands_still() {
    let mut scene = Scene::new();
    scene.take(5, "k");
    scene.sleep(millis(4000));
    scene.table.settle(scene.now);
    scene.now = Instant::ORIGIN;
    assert_eq!(scene.ask(0, 5, "k"), Outcome::TimedOut);
    scene.take(1, "other");
    scene.now = Instant::from_origin(millis(1_004_999));
    assert_eq!(scene.ask(0, 5, "other"), Outcome::TimedOut, "its lease began at the latest time seen");
    scene.now = Instant::from_origin(millis(1_005_000));
    scene.take(5, "other");
    scene.take(5, "k");
}

#[test]
fn cancelling_waits_leaves_the_others_at_their_time() {
    let mut scene = Scene::new();
    let mut random = Random(1);
    for number in 0..10 {
        scene.take(250, &format!("k{number}"));
    }
    // By owner, the time when it ends, and whether it has left before.
    let mut waits: Vec<(u64, Instant, bool)> = Vec::new();
    for step in 0..300 {
        let name = format!("k{}", random.below(10));
        let wait = 1 + random.below(20) as u8;
        let owner = scene.queue(wait, 5, &name);
        waits.push((owner, scene.now.plus_secs(wait), false));
        if step % 3 == 0 {
            let at = random.below(waits.len() as u64) as usize;
            let (owner, end, has_left) = &mut waits[at];
            let leaves = !*has_left && *end > scene.now;
            assert_eq!(scene.disconnect(*owner), usize::from(leaves));
            *has_left |= leaves;
        }
        scene.check_on_time(&waits, millis(random.below(300)));
    }
    scene.check_on_time(&waits, millis(25_000));
    assert_eq!(scene.waiters(), 0);
}

impl Scene {
    /// Passes a span from timer to timer. Each `T` must come at its owner's time, and none may be missing.
    fn check_on_time(&mut self, waits: &[(u64, Instant, bool)], span: Duration) {
        let (start, end) = (self.now, self.now + span);
        let mut came = Vec::new();
        while self.now < end {
            let next = self.table.poll_timeout().map_or(end, |timeout| timeout.min(end));
            self.pass(next.saturating_since(self.now));
            for (owner, verdict) in self.answers() {
                assert_eq!(verdict, Verdict::TimedOut);
                came.push((owner, self.now));
            }
        }
        let due = waits.iter().filter(|(_, at, has_left)| !has_left && *at > start && *at <= end);
        let mut due: Vec<(u64, Instant)> = due.map(|&(owner, at, _)| (owner, at)).collect();
        came.sort_unstable();
        due.sort_unstable();
        assert_eq!(came, due);
    }
}

#[test]
fn the_next_expiry_is_on_time_after_a_release_at_the_deadline() {
    let mut scene = Scene::new();
    let mut random = Random(2);
    let mut held = scene.take(2, "k");
    for round in 0..100_000_u64 {
        let late = random.below(4_000_000);
        scene.sleep(Duration::from_nanos(1_998_000_000 + late));
        if round % 2 == 0 {
            scene.table.handle_timeout(scene.now);
        }
        assert_eq!(scene.release(held, "k"), late < 2_000_000, "a hold is valid before its deadline");
        assert!(!scene.release(held, "k"));
        held = scene.take(1, "k");
        scene.sleep(millis(1000) - NANO);
        assert_eq!(scene.ask(0, 2, "k"), Outcome::TimedOut);
        scene.sleep(NANO);
        held = scene.take(2, "k").max(held);
    }
}

#[test]
fn a_nearer_timer_replaces_a_farther_one_and_the_last_one_leaves_none() {
    let mut scene = Scene::new();
    assert_eq!(scene.table.poll_timeout(), None);
    let start = scene.now;
    scene.take(250, "k");
    let far = scene.queue(200, 5, "k");
    scene.queue(1, 5, "k");
    assert_eq!(scene.table.poll_timeout(), Some(start.plus_secs(1)));
    scene.disconnect(far + 1);
    // The sweep comes at 5 s.
    assert_eq!(scene.table.poll_timeout(), Some(start.plus_secs(5)));
    scene.pass(millis(5000));
    scene.disconnect(far);
    assert_eq!(scene.table.poll_timeout(), Some(start.plus_secs(10)), "the sweep alone: nobody waits");
    scene.queue(1, 5, "k");
    assert_eq!(scene.table.poll_timeout(), Some(start.plus_secs(6)));
    scene.pass(millis(300_000));
    assert_eq!(scene.table.poll_timeout(), None, "nothing is held, nothing is to be swept");
}

#[test]
fn at_one_instant_expiry_goes_before_timeout() {
    for round in 0..1000 {
        let mut scene = Scene::new();
        let held = scene.take(5, "k");
        let waiter = scene.queue(5, 30, "k");
        scene.sleep(millis(5000));
        match round % 4 {
            0 => scene.handle_timeouts(),
            1 => scene.table.settle(scene.now),
            2 => assert_eq!(scene.ask(0, 1, "k"), Outcome::TimedOut),
            _ => assert!(!scene.release(held, "k")),
        }
        assert!(scene.granted(waiter) > held);
        scene.handle_timeouts();
        assert_eq!(scene.answers(), [], "one answer");
    }
}

#[test]
fn overdue_deadlines_come_in_the_order_of_their_times() {
    let mut scene = Scene::new();
    scene.take(5, "a");
    scene.take(3, "b");
    let early = scene.queue(2, 30, "a");
    let on_a = scene.queue(9, 30, "a");
    let late = scene.queue(6, 30, "a");
    let on_b = scene.queue(4, 30, "b");
    scene.sleep(millis(20_000));
    scene.table.settle(scene.now);
    let expected = [
        (early, Verdict::TimedOut),
        (on_b, Verdict::Granted(token(3))),
        (on_a, Verdict::Granted(token(4))),
        (late, Verdict::TimedOut),
    ];
    assert_eq!(scene.answers(), expected);
    // Both leases started when the deadlines were processed, not in the past.
    scene.pass(Duration::from_secs(30) - NANO);
    assert!(!matches!(scene.ask(0, 1, "a"), Outcome::Granted(_)));
    assert!(!matches!(scene.ask(0, 1, "b"), Outcome::Granted(_)));
    scene.pass(NANO);
    scene.take(1, "a");
    scene.take(1, "b");
}

#[test]
fn of_equal_deadlines_the_one_that_arrived_first_comes_first() {
    let mut scene = Scene::new();
    // All end at 6 s.
    scene.take(6, "a");
    scene.pass(millis(2000));
    scene.take(4, "b");
    scene.take(4, "c");
    let waiters: Vec<u64> = ["c", "b", "a"].map(|name| scene.queue(4, 30, name)).into();
    scene.pass(millis(1000));
    let last = scene.queue(3, 30, "a");
    scene.sleep(millis(3000));
    scene.table.settle(scene.now);
    let expected = [
        (waiters[2], Verdict::Granted(token(4))),
        (waiters[1], Verdict::Granted(token(5))),
        (waiters[0], Verdict::Granted(token(6))),
        (last, Verdict::TimedOut),
    ];
    assert_eq!(scene.answers(), expected);
}

#[test]
fn leases_end_on_time_while_others_work_at_full_rate() {
    let mut scene = Scene::new();
    // By owner, the time at which it is to be granted.
    let mut due: Vec<(u64, Instant)> = Vec::new();
    let step = millis(1);
    let fast: Vec<String> = (0..8).map(|connection| format!("fast-{connection}")).collect();
    let mut granted = 0;
    for tick in 0..64_000_u64 {
        if tick % 6 == 0 && tick < 60_000 {
            let name = format!("slow-{tick}");
            scene.take(3, &name);
            due.push((scene.queue(200, 3, &name), scene.now.plus_secs(3)));
        }
        scene.table.settle(scene.now);
        for name in &fast {
            let held = scene.take(30, name);
            assert!(scene.release(held, name));
        }
        scene.table.answered(8);
        for (owner, verdict) in scene.answers() {
            assert!(matches!(verdict, Verdict::Granted(_)));
            let at = due.binary_search_by_key(&owner, |&(owner, _)| owner).expect("it waits");
            assert!(due[at].1 <= scene.now, "not early");
            assert!(scene.now.saturating_since(due[at].1) <= step, "not late");
            granted += 1;
        }
        scene.sleep(step);
    }
    assert_eq!((granted, due.len()), (10_000, 10_000), "none is forgotten");
}

#[test]
fn the_end_of_the_last_lease_is_not_the_next_ones() {
    for same_connection in [false, true] {
        let mut scene = Scene::new();
        let first = scene.take(5, "k");
        scene.pass(millis(1000));
        assert!(scene.release(first, "k"));
        scene.pass(millis(100));
        if same_connection {
            scene.owners = 0;
        }
        let second = scene.take(30, "k");
        scene.pass(millis(4400));
        assert_eq!(scene.ask(0, 5, "k"), Outcome::TimedOut);
        scene.pass(millis(4500));
        assert!(scene.release(second, "k"));
    }
}

#[test]
fn a_release_around_the_deadline_gets_one_answer_and_frees_no_successor() {
    let mut random = Random(3);
    for round in 0..5000 {
        let mut scene = Scene::new();
        let held = scene.take(2, "k");
        let waiter = (round % 2 == 0).then(|| scene.queue(10, 5, "k"));
        scene.sleep(millis(1997) + Duration::from_nanos(random.below(6_000_000)));
        let is_valid = scene.now < Instant::from_origin(millis(1_002_000));
        if random.below(2) == 0 {
            scene.handle_timeouts();
        }
        assert_eq!(scene.release(held, "k"), is_valid);
        assert!(!scene.release(held, "k"));
        let next = match waiter {
            Some(waiter) => scene.granted(waiter),
            None => scene.take(5, "k"),
        };
        assert!(next > held);
        scene.sleep(millis(4990));
        assert_eq!(scene.ask(0, 1, "k"), Outcome::TimedOut);
        assert!(scene.release(next, "k"));
    }
}

#[test]
fn after_a_timeout_there_is_no_grant() {
    let mut random = Random(4);
    for _ in 0..5000 {
        let mut scene = Scene::new();
        let held = scene.take(30, "k");
        let waiter = scene.queue(1, 30, "k");
        scene.sleep(millis(995) + Duration::from_nanos(random.below(10_000_000)));
        let is_over = scene.now >= Instant::from_origin(millis(1_001_000));
        if random.below(2) == 0 {
            scene.handle_timeouts();
        }
        assert!(scene.release(held, "k"));
        scene.handle_timeouts();
        match scene.answers()[..] {
            [(owner, Verdict::TimedOut)] if is_over => {
                assert_eq!(owner, waiter);
                scene.take(1, "k");
            }
            [(owner, Verdict::Granted(_))] if !is_over => assert_eq!(owner, waiter),
            ref other => panic!("one answer, the right one: {other:?}"),
        }
    }
}

#[test]
fn a_release_at_the_end_of_a_wait_comes_too_late_for_it() {
    let mut scene = Scene::new();
    let held = scene.take(30, "k");
    let over = scene.queue(1, 30, "k");
    let next = scene.queue(2, 30, "k");
    scene.sleep(millis(1000));
    assert!(scene.release(held, "k"));
    assert_eq!(scene.answers(), [(over, Verdict::TimedOut), (next, Verdict::Granted(token(2)))]);
}
