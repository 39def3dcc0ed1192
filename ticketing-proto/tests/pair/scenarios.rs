//! What users see, from end to end.

use std::time::Duration;

use ticketing_proto::client::{AcquireError, AcquireId, AcquireOptions, Grant, ReleaseId, Released};

use crate::net::{CALM, Net, Transport, Weather};

macro_rules! over_each_transport {
    ($($scenario:ident,)*) => {
        mod plain {
            $(#[test] fn $scenario() { super::$scenario(crate::net::Transport::Plain); })*
        }

        mod tls {
            $(#[test] fn $scenario() { super::$scenario(crate::net::Transport::Tls); })*
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

fn begin(net: &mut Net, client: usize, key: &str, options: AcquireOptions) -> AcquireId {
    let id = net.clients[client].acquire(net.now, key, options).expect("nothing wrong with the call");
    net.settle();
    net.pass(Duration::ZERO);
    id
}

fn claim(net: &mut Net, client: usize, id: AcquireId) -> Option<Result<Grant, AcquireError>> {
    let outcome = net.clients[client].claim(net.now, id);
    net.settle();
    outcome
}

fn granted(net: &mut Net, client: usize, id: AcquireId) -> Grant {
    claim(net, client, id).expect("settled").expect("granted")
}

fn release(net: &mut Net, client: usize, grant: &Grant) -> ReleaseId {
    let id = net.clients[client].release(net.now, &grant.key, grant.token);
    net.settle();
    net.pass(Duration::ZERO);
    id
}

fn assert_nothing_is_left(net: &Net) {
    let usage = net.server.usage();
    assert_eq!((usage.keys.used, usage.waiters.used, usage.acquires.used), (0, 0, 0));
    for client in &net.clients {
        assert_eq!(client.outstanding(), 0);
    }
}

fn a_lock_goes_from_hand_to_hand(transport: Transport) {
    let mut net = Net::new(transport, 2, 1, CALM);
    let first = begin(&mut net, 0, "k", options(0, 30));
    let held = granted(&mut net, 0, first);
    let second = begin(&mut net, 1, "k", options(10, 30));
    net.pass(secs(5));
    assert_eq!(claim(&mut net, 1, second), None);
    let id = release(&mut net, 0, &held);
    assert_eq!(net.clients[0].claim_release(id), Some(Ok(Released::Released)));
    let next = granted(&mut net, 1, second);
    assert!(next.token > held.token);
    let id = release(&mut net, 1, &next);
    assert_eq!(net.clients[1].claim_release(id), Some(Ok(Released::Released)));
    assert_nothing_is_left(&net);
}

/// L19, CD-3: the holder's clock says over before the server's deadline, and the waiter is granted at it.
fn a_lease_that_ends_goes_to_the_waiter_after_the_ticket_was_over(transport: Transport) {
    let mut net = Net::new(transport, 2, 1, CALM);
    let first = begin(&mut net, 0, "k", options(0, 5));
    let granted_at = net.now;
    let held = granted(&mut net, 0, first);
    assert_eq!(held.valid_until, granted_at + millis(4995));
    let second = begin(&mut net, 1, "k", options(20, 30));
    net.pass(millis(4999));
    assert_eq!(claim(&mut net, 1, second), None);
    net.pass(millis(1));
    assert!(granted(&mut net, 1, second).token > held.token);
    let id = release(&mut net, 0, &held);
    assert_eq!(net.clients[0].claim_release(id), Some(Ok(Released::NotHeld)));
}

/// CA-5, CA-12: the ordinary end of a wait, strict and with grace.
fn a_wait_that_runs_out_is_certain_with_grace_and_indeterminate_without(transport: Transport) {
    let mut net = Net::new(transport, 3, 1, Weather { delay: 3, ..CALM });
    net.pass(millis(20));
    let first = begin(&mut net, 0, "k", options(0, 200));
    net.pass(millis(20));
    granted(&mut net, 0, first);
    let strict = begin(&mut net, 1, "k", options(2, 30));
    let graceful = begin(&mut net, 2, "k", options(2, 30).response_grace(secs(2)));
    net.pass(millis(2020));
    assert_eq!(claim(&mut net, 1, strict), Some(Err(AcquireError::Indeterminate)));
    assert_eq!(claim(&mut net, 2, graceful), Some(Err(AcquireError::Timeout)));
    assert_eq!(net.server.usage().waiters.used, 0);
    net.pass(secs(1));
    assert!(net.clients[1].is_ready(), "its connections are back at once");
}

/// C08: a release just after the strict deadline goes to the next, not to a waiter that gave up.
fn a_waiter_that_gave_up_does_not_get_the_lock(transport: Transport) {
    for seed in 0..50 {
        let mut net = Net::new(transport, 3, seed, Weather { delay: 5, window: 9, splits: 50 });
        net.pass(millis(300));
        let first = begin(&mut net, 0, "k", options(0, 200));
        net.pass(millis(300));
        let held = granted(&mut net, 0, first);
        let quitter = begin(&mut net, 1, "k", options(2, 60));
        net.pass(millis(300));
        let patient = begin(&mut net, 2, "k", options(20, 60));
        net.pass(millis(1690 + seed));
        release(&mut net, 0, &held);
        net.pass(millis(800));
        let quitter = claim(&mut net, 1, quitter).expect("settled");
        match quitter {
            Ok(_) => assert_eq!(claim(&mut net, 2, patient), None),
            Err(error) => {
                assert_eq!(error, AcquireError::Indeterminate);
                assert!(granted(&mut net, 2, patient).token > held.token, "right after, not after 60 s");
            }
        }
    }
}

/// C01: the next acquire gets its own answer, and the ghost's grant comes back.
fn cancelled_acquires_do_not_poison_the_next(transport: Transport) {
    let mut net = Net::new(transport, 1, 1, CALM);
    for seed in 0..1000 {
        net.weather = Weather { delay: seed % 4, window: 1 + seed % 30, splits: seed % 100 };
        let ghost = begin(&mut net, 0, "ghost", options(10, 200));
        net.pass(millis(seed % 3));
        net.clients[0].cancel(net.now, ghost);
        let wanted = begin(&mut net, 0, "wanted", options(10, 200));
        net.pass(millis(200));
        let grant = granted(&mut net, 0, wanted);
        assert_eq!(grant.key.as_str(), "wanted");
        assert_eq!(claim(&mut net, 0, ghost), None);
        release(&mut net, 0, &grant);
        net.pass(millis(200));
        assert_eq!(net.server.usage().keys.used, 0, "round {seed}");
    }
    net.pass(secs(5));
    assert_eq!(net.server.usage().acquires.used, 0);
}

/// N10, FI-7: a restart forgets the holds; clients find back by themselves.
fn a_restart_forgets_holds_and_clients_reconnect(transport: Transport) {
    let mut net = Net::new(transport, 2, 1, CALM);
    let first = begin(&mut net, 0, "k", options(0, 60));
    let held = granted(&mut net, 0, first);
    let waiting = begin(&mut net, 1, "k", options(20, 60));
    net.restart_server(1_000_000);
    assert_eq!(claim(&mut net, 1, waiting), Some(Err(AcquireError::Indeterminate)));
    net.pass(secs(1));
    let id = release(&mut net, 0, &held);
    assert_eq!(net.clients[0].claim_release(id), Some(Ok(Released::NotHeld)), "a stale token frees nothing");
    let again = begin(&mut net, 1, "k", options(0, 60));
    assert!(granted(&mut net, 1, again).token > held.token);
}

/// TR-8, RD-1: a shutdown tells waiters that nothing was executed, so that they go on elsewhere or wait.
fn a_shutdown_lets_waiters_try_again(transport: Transport) {
    let mut net = Net::new(transport, 2, 1, CALM);
    let first = begin(&mut net, 0, "k", options(0, 60));
    granted(&mut net, 0, first);
    let waiting = begin(&mut net, 1, "k", options(20, 60));
    net.is_down = true;
    net.server.shut_down(net.now);
    net.settle();
    net.pass(secs(1));
    assert!(net.server.is_drained());
    assert_eq!(claim(&mut net, 1, waiting), None, "it has a caller and time");
    net.restart_server(1_000_000);
    net.is_down = false;
    net.pass(secs(5));
    granted(&mut net, 1, waiting);
}

/// CC-6
fn closing_clients_leave_nothing_behind(transport: Transport) {
    let mut net = Net::new(transport, 2, 1, Weather { delay: 2, window: 40, splits: 20 });
    net.pass(millis(500));
    let first = begin(&mut net, 0, "k", options(0, 60));
    net.pass(millis(100));
    let held = granted(&mut net, 0, first);
    let ghost = begin(&mut net, 1, "k", options(100, 60));
    net.pass(millis(100));
    for client in 0..2 {
        net.clients[client].close(net.now);
    }
    net.settle();
    net.pass(secs(1));
    net.clients[0].discard(net.now, held.key, held.token);
    net.settle();
    net.pass(secs(8));
    assert_eq!(claim(&mut net, 1, ghost), Some(Err(AcquireError::Indeterminate)));
    assert_eq!(net.links(), 0);
    assert_nothing_is_left(&net);
    assert_eq!(net.server.connections(), 0);
}
