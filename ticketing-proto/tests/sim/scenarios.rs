//! What users see, from end to end: the same world, without chance, and with a story.

use std::time::Duration;

use ticketing_proto::client::{AcquireError, AcquireOptions, Grant, Released};

use crate::engine::{CALM, CallNo, Setting, Transport, Watch, Weather, World};

macro_rules! over_each_transport {
    ($($scenario:ident,)*) => {
        mod plain {
            $(#[test] fn $scenario() { super::$scenario(&crate::engine::Transport::default()); })*
        }

        mod tls {
            $(#[test] fn $scenario() { super::$scenario(&crate::tls()); })*
        }
    };
}

over_each_transport! {
    a_lock_goes_from_hand_to_hand,
    a_lease_that_ends_goes_to_the_waiter_after_the_ticket_was_over,
    a_wait_that_runs_out_is_certain_with_grace_and_indeterminate_without,
    a_waiter_that_gave_up_does_not_get_the_lock,
    cancelled_acquires_do_not_poison_the_next,
    a_restart_forgets_holds_and_clients_reconnect,
    a_shutdown_lets_waiters_try_again,
    closing_clients_leave_nothing_behind,
}

fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn options(wait: u64, lease: u64) -> AcquireOptions {
    AcquireOptions::new(Duration::ZERO).wait(secs(wait)).lease(secs(lease))
}

fn world(transport: &Transport, clients: usize, seed: u64, weather: Weather) -> World {
    let mut world = World::new(seed, &Setting::plain(clients, weather), transport.clone(), Watch::default());
    pass(&mut world, Duration::ZERO);
    world
}

fn pass(world: &mut World, span: Duration) {
    world.run_until(world.now + span);
    assert_eq!(world.oracle.violation, None);
}

fn begin(world: &mut World, client: usize, key: &str, options: AcquireOptions) -> CallNo {
    let call = world.acquire(client, key, options, false).expect("nothing wrong with the call");
    pass(world, Duration::ZERO);
    call
}

fn granted(world: &mut World, call: CallNo) -> Grant {
    let grant = world.claim(call).expect("settled").expect("granted");
    pass(world, Duration::ZERO);
    grant
}

fn release(world: &mut World, call: CallNo) {
    world.release(call).expect("there is a ticket");
    pass(world, Duration::ZERO);
}

fn released(world: &World, call: CallNo) -> Option<Released> {
    world.oracle.facts.calls[call].released
}

fn assert_nothing_is_left(world: &World) {
    assert_eq!(world.used(), [0; 3]);
    assert_eq!(world.outstanding(), 0);
}

fn a_lock_goes_from_hand_to_hand(transport: &Transport) {
    let mut world = world(transport, 2, 1, CALM);
    let first = begin(&mut world, 0, "k", options(0, 30));
    let held = granted(&mut world, first);
    let second = begin(&mut world, 1, "k", options(10, 30));
    pass(&mut world, secs(5));
    assert_eq!(world.claim(second), None);
    release(&mut world, first);
    assert_eq!(released(&world, first), Some(Released::Released));
    let next = granted(&mut world, second);
    assert!(next.token > held.token);
    release(&mut world, second);
    assert_eq!(released(&world, second), Some(Released::Released));
    assert_nothing_is_left(&world);
}

/// L19, CD-3: the holder's clock says over before the server's deadline, and the waiter is granted at it.
fn a_lease_that_ends_goes_to_the_waiter_after_the_ticket_was_over(transport: &Transport) {
    let mut world = world(transport, 2, 1, CALM);
    let first = begin(&mut world, 0, "k", options(0, 5));
    let granted_at = world.client_now(0);
    let held = granted(&mut world, first);
    assert_eq!(held.valid_until, granted_at + millis(4995));
    let second = begin(&mut world, 1, "k", options(20, 30));
    pass(&mut world, millis(4999));
    assert_eq!(world.claim(second), None);
    pass(&mut world, millis(1));
    assert!(granted(&mut world, second).token > held.token);
    release(&mut world, first);
    assert_eq!(released(&world, first), Some(Released::NotHeld));
}

/// CA-5, CA-12: the ordinary end of a wait, strict and with grace.
fn a_wait_that_runs_out_is_certain_with_grace_and_indeterminate_without(transport: &Transport) {
    let mut world = world(transport, 3, 1, Weather { delay: millis(3), ..CALM });
    pass(&mut world, millis(100));
    let first = begin(&mut world, 0, "k", options(0, 200));
    pass(&mut world, millis(20));
    granted(&mut world, first);
    let strict = begin(&mut world, 1, "k", options(2, 30));
    let graceful = begin(&mut world, 2, "k", options(2, 30).response_grace(secs(2)));
    pass(&mut world, millis(2020));
    assert_eq!(world.claim(strict), Some(Err(AcquireError::Indeterminate)));
    assert_eq!(world.claim(graceful), Some(Err(AcquireError::Timeout)));
    assert_eq!(world.used()[1], 0, "nobody waits");
    pass(&mut world, secs(1));
    assert!(world.is_ready(1), "its connections are back at once");
}

/// C08: a release just after the strict deadline goes to the next, not to a waiter that gave up.
fn a_waiter_that_gave_up_does_not_get_the_lock(transport: &Transport) {
    for seed in 0..50 {
        let weather = Weather { delay: millis(5), capacity: 9, splits: 50 };
        let mut world = world(transport, 3, seed, weather);
        pass(&mut world, secs(5));
        let first = begin(&mut world, 0, "k", options(0, 200));
        pass(&mut world, millis(300));
        let held = granted(&mut world, first);
        let quitter = begin(&mut world, 1, "k", options(2, 60));
        pass(&mut world, millis(300));
        let patient = begin(&mut world, 2, "k", options(20, 60));
        pass(&mut world, millis(1690 + seed));
        release(&mut world, first);
        pass(&mut world, millis(800));
        match world.claim(quitter).expect("settled") {
            Ok(_) => assert_eq!(world.claim(patient), None),
            Err(error) => {
                assert_eq!(error, AcquireError::Indeterminate);
                assert!(granted(&mut world, patient).token > held.token, "right after, not after 60 s");
            }
        }
    }
}

/// C01: the next acquire gets its own answer, and the ghost's grant comes back.
fn cancelled_acquires_do_not_poison_the_next(transport: &Transport) {
    let mut world = world(transport, 1, 1, CALM);
    for round in 0..300 {
        world.weather =
            Weather { delay: millis(round % 4), capacity: 30 + round as usize % 30, splits: round % 100 };
        let ghost = begin(&mut world, 0, "ghost", options(10, 200));
        pass(&mut world, millis(round % 3));
        world.cancel(ghost);
        let wanted = begin(&mut world, 0, "wanted", options(10, 200));
        pass(&mut world, millis(200));
        assert_eq!(granted(&mut world, wanted).key.as_str(), "wanted");
        assert_eq!(world.claim(ghost), None);
        release(&mut world, wanted);
        pass(&mut world, millis(200));
        assert_eq!(world.used()[0], 0, "holds, in round {round}");
    }
    pass(&mut world, secs(5));
    assert_nothing_is_left(&world);
}

/// N10, FI-7: a restart forgets the holds; clients find back by themselves, and a stale token frees nothing.
fn a_restart_forgets_holds_and_clients_reconnect(transport: &Transport) {
    let mut world = world(transport, 2, 1, CALM);
    let first = begin(&mut world, 0, "k", options(0, 60));
    granted(&mut world, first);
    let waiting = begin(&mut world, 1, "k", options(20, 60));
    assert!(world.kill_server(Duration::ZERO, false));
    pass(&mut world, Duration::ZERO);
    assert_eq!(world.claim(waiting), Some(Err(AcquireError::Indeterminate)));
    pass(&mut world, secs(1));
    let again = begin(&mut world, 1, "k", options(0, 60));
    granted(&mut world, again);
    release(&mut world, first);
    assert_eq!(released(&world, first), Some(Released::NotHeld));
    assert_eq!(world.used()[0], 1, "the new hold is there");
}

/// TR-8, RD-1: a shutdown tells waiters that nothing was executed, so that they go on elsewhere or wait.
fn a_shutdown_lets_waiters_try_again(transport: &Transport) {
    let mut world = world(transport, 2, 1, CALM);
    let first = begin(&mut world, 0, "k", options(0, 60));
    granted(&mut world, first);
    let waiting = begin(&mut world, 1, "k", options(20, 60));
    assert!(world.shut_server_down(secs(1)));
    pass(&mut world, millis(900));
    assert_eq!(world.claim(waiting), None, "it has a caller and time");
    pass(&mut world, secs(5));
    granted(&mut world, waiting);
}

/// CC-6
fn closing_clients_leave_nothing_behind(transport: &Transport) {
    let mut world = world(transport, 2, 1, Weather { delay: millis(2), capacity: 40, splits: 20 });
    pass(&mut world, secs(5));
    let first = begin(&mut world, 0, "k", options(0, 60));
    pass(&mut world, millis(100));
    granted(&mut world, first);
    let ghost = begin(&mut world, 1, "k", options(100, 60));
    pass(&mut world, millis(100));
    world.close(0);
    world.close(1);
    pass(&mut world, secs(1));
    world.discard(first);
    pass(&mut world, secs(8));
    assert_eq!(world.claim(ghost), Some(Err(AcquireError::Indeterminate)));
    assert_eq!(world.open_ends(), 0);
    assert_nothing_is_left(&world);
}
