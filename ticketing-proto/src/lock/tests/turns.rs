//! Who is granted, and in which order.

use super::*;

#[test]
fn a_release_twice_frees_once() {
    let mut scene = Scene::new();
    let held = scene.take(30, "k");
    let waiter = scene.queue(5, 30, "k");
    assert!(scene.release(held, "k"));
    assert!(!scene.release(held, "k"));
    let granted = scene.granted(waiter);
    assert_eq!(scene.ask(0, 5, "k"), Outcome::TimedOut, "the waiter keeps it");
    assert!(scene.release(granted, "k"));
}

#[test]
fn an_old_token_of_the_same_owner_frees_nothing() {
    let mut scene = Scene::new();
    let first = scene.take(1, "k");
    scene.sleep(millis(1000));
    scene.owners = 0;
    let second = scene.take(30, "k");
    assert!(!scene.release(first, "k"));
    assert_eq!(scene.ask(0, 5, "k"), Outcome::TimedOut);
    assert!(scene.release(second, "k"));
}

#[test]
fn a_token_is_worth_something_with_its_key_alone() {
    let mut scene = Scene::with(Limits::default(), 7, u64::MAX);
    let (a, b) = (scene.take(30, "a"), scene.take(30, "b"));
    for (wrong, name) in [(a, "b"), (b, "a"), (0, "a"), (u64::MAX, "a"), (b + 1, "b"), (a, "c")] {
        assert!(!scene.release(wrong, name), "{wrong} does not hold {name}");
    }
    assert_eq!(scene.keys(), 2);
    // By whoever knows it: there is nothing else to show.
    assert!(scene.release(a, "a") && scene.release(b, "b"));
    assert_eq!(scene.keys(), 0);
}

#[test]
fn when_the_first_waiter_leaves_the_next_one_is_first() {
    for rounds in 0..1000 {
        let mut scene = Scene::new();
        let held = scene.take(30, "k");
        let waiters: Vec<u64> = (0..5).map(|_| scene.queue(255, 2, "k")).collect();
        match rounds % 3 {
            // It closes before the release,
            0 => {
                assert_eq!(scene.disconnect(waiters[0]), 1);
                assert!(scene.release(held, "k"));
                scene.granted(waiters[1]);
            }
            // behind it, and is too late: its grant is released, as it was not delivered,
            1 => {
                assert!(scene.release(held, "k"));
                let granted = scene.granted(waiters[0]);
                assert_eq!(scene.disconnect(waiters[0]), 0);
                assert!(scene.release(granted, "k"));
                scene.granted(waiters[1]);
            }
            // or it was delivered, and lasts as long as its lease.
            _ => {
                assert!(scene.release(held, "k"));
                scene.granted(waiters[0]);
                assert_eq!(scene.disconnect(waiters[0]), 0);
                scene.pass(millis(1999));
                assert_eq!(scene.answers(), []);
                scene.pass(millis(1));
                scene.granted(waiters[1]);
            }
        }
        scene.pass(Duration::from_secs(20));
        assert_eq!((scene.answers().len(), scene.keys(), scene.waiters()), (3, 0, 0), "it is never stuck");
    }
}

#[test]
fn those_who_leave_from_the_middle_free_and_move_nobody() {
    let mut scene = Scene::new();
    let mut held = scene.take(30, "k");
    let waiters: Vec<u64> = (0..5).map(|_| scene.queue(255, 30, "k")).collect();
    assert_eq!((scene.disconnect(waiters[1]), scene.disconnect(waiters[2])), (1, 1));
    assert_eq!(scene.answers(), []);
    for waiter in [0, 3, 4] {
        assert!(scene.release(held, "k"));
        held = scene.granted(waiters[waiter]);
    }
    assert!(scene.release(held, "k"));
    assert_eq!((scene.answers(), scene.keys(), scene.waiters()), (Vec::new(), 0, 0));
}

#[test]
fn silent_waiters_keep_their_place_as_long_as_they_wait() {
    let mut scene = Scene::new();
    scene.take(200, "k");
    let waiters: Vec<u64> = (0..3).map(|_| scene.queue(255, 10, "k")).collect();
    scene.pass(millis(199_999));
    assert_eq!(scene.answers(), []);
    for waiter in waiters {
        scene.pass(millis(1));
        scene.granted(waiter);
        scene.pass(millis(9_999));
        assert_eq!(scene.answers(), []);
    }
}

#[test]
fn a_herd_on_one_key_is_served_in_its_order() {
    let mut scene = Scene::new();
    let mut held = scene.take(30, "k");
    let herd = 5000;
    for number in 0..herd {
        assert_eq!(scene.ask_from(number % 50, 255, 30, "k"), Outcome::Queued);
    }
    for owner in 2..2 + herd {
        assert!(scene.release(held, "k"));
        held = scene.granted(owner);
    }
    assert_eq!(scene.waiters(), 0);
}

#[test]
fn the_same_owner_again_is_a_new_request() {
    for (other_connection, wait) in [(1, 5), (2, 5), (1, 0), (2, 0)] {
        let mut scene = Scene::new();
        let Outcome::Granted(first) = scene.ask_from(1, 5, 30, "k") else { panic!("it is free") };
        scene.owners = 0;
        let again = scene.ask_from(other_connection, wait, 30, "k");
        if wait == 0 {
            assert_eq!(again, Outcome::TimedOut);
            continue;
        }
        assert_eq!((again, scene.answers()), (Outcome::Queued, Vec::new()));
        assert!(scene.release(first.value(), "k"));
        assert!(scene.granted(1) > first.value());
    }
}

#[test]
fn two_waiters_of_one_connection_owner_and_key_are_each_answered() {
    let mut scene = Scene::new();
    let held = scene.take(30, "k");
    for _ in 0..2 {
        scene.owners = 4;
        assert_eq!(scene.ask_from(1, 5, 30, "k"), Outcome::Queued);
    }
    assert!(scene.release(held, "k"));
    let first = scene.granted(5);
    assert!(scene.release(first, "k"));
    assert!(scene.granted(5) > first);
}

#[test]
fn a_client_in_a_tight_loop_takes_turns_with_the_others() {
    let mut scene = Scene::new();
    let held = scene.take(5, "k");
    let mut line: Vec<(u64, u64)> = Vec::new();
    for connection in [2, 3] {
        assert_eq!(scene.ask_from(connection, 5, 5, "k"), Outcome::Queued);
        line.push((connection, scene.owners));
    }
    let mut holder = (1, held);
    for _ in 0..1000 {
        let (connection, token) = holder;
        // The release and the next acquire come at once.
        assert!(scene.release(token, "k"));
        assert_eq!(scene.ask_from(connection, 5, 5, "k"), Outcome::Queued);
        line.push((connection, scene.owners));
        let (next, owner) = line.remove(0);
        holder = (next, scene.granted(owner));
        scene.pass(millis(10));
    }
}

#[test]
fn a_connection_takes_its_waiters_along_and_nobody_elses() {
    let mut scene = Scene::new();
    for name in ["a", "b", "c"] {
        scene.take(30, name);
        for connection in [1, 2] {
            assert_eq!(scene.ask_from(connection, 255, 30, name), Outcome::Queued);
        }
    }
    assert_eq!((scene.disconnect(1), scene.waiters()), (3, 3));
    assert_eq!((scene.disconnect(1), scene.disconnect(9)), (0, 0));
    scene.pass(millis(30_000));
    let granted =
        scene.answers().iter().filter(|(_, verdict)| matches!(verdict, Verdict::Granted(_))).count();
    assert_eq!(granted, 3);
}
