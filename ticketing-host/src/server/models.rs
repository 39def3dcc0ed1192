//! Connections' tasks, the server's own and the hub that they share, in every order.

use std::future::poll_fn;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::task::Poll;

use loom::future::block_on;
use ticketing_proto::id::{Owner, Token};
use ticketing_proto::key::KeyRef;
use ticketing_proto::limits::{Lease, Wait};
use ticketing_proto::lock::TokenRange;
use ticketing_proto::server::{Connection, Hub};
use ticketing_proto::wire::auth::Secret;
use ticketing_proto::wire::{Acquire, Release, Request};

use super::ServerConfig;
use super::peer::Task;
use super::serve::wait_until;
use super::shared::{Clock, Shared};
use super::upkeep::keep_time;
use crate::runtime::models::{Model, Script, armed, check, run, settle, spawn};

const PEER: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 1);
/// The token of the only hold.
const FIRST: u64 = 1;

fn shared() -> Arc<Shared> {
    let token = |value| Token::new(value).expect("not 0");
    let tokens = TokenRange { next: token(FIRST), last: token(u64::MAX) };
    let (config, _) = ServerConfig::new(Secret::default(), tokens).into_parts().expect("randomness");
    let clock = Clock::new();
    Arc::new(Shared::new(clock, Hub::new(clock.now(), config).expect("limits above 0"), 0))
}

fn bytes(request: Request<'_>) -> Vec<u8> {
    let mut bytes = Vec::new();
    request.encode(&mut bytes);
    bytes
}

fn key() -> KeyRef<'static> {
    KeyRef::new(b"k").expect("a key")
}

/// Asks for the one key.
fn acquire() -> Vec<u8> {
    let owner = Owner::new(1).expect("not 0");
    bytes(Request::Acquire(Acquire { wait: Wait::from_secs(200), lease: Lease::DEFAULT, owner, key: key() }))
}

fn release() -> Vec<u8> {
    bytes(Request::Release(Release { token: FIRST, key: key() }))
}

/// A connection that is authenticated and has sent this, and whose task has not begun.
fn connection(shared: &Shared, requests: &[u8]) -> Connection {
    let now = shared.clock.now();
    let mut connection = shared.call(|hub| hub.accept(now, [7; 32])).expect("there is room");
    let response = [b"x".repeat(43).as_slice(), b"\n", requests].concat();
    shared.call(|hub| hub.receive(now, &mut connection, &response));
    connection
}

fn task(shared: &Arc<Shared>, connection: Connection, stream: Script) -> Task<Model> {
    Task::new(Arc::clone(shared), connection, stream, PEER)
}

fn is_grant(bytes: &[u8]) -> bool {
    // Behind the challenge that is still owed, or alone.
    bytes.split(|&byte| byte == b'\n').any(|line| line.first() == Some(&b'A'))
}

/// Goes when it has its grant.
fn until_granted() -> Script {
    Script::new([], |written| if is_grant(written) { vec![Vec::new()] } else { Vec::new() })
}

fn silent() -> Script {
    Script::new([], |_| Vec::new())
}

#[derive(Clone, Copy)]
enum Order {
    RegisterFirst,
    LookFirst,
}

/// OP-5
#[test]
fn a_release_wakes_a_waiter_whose_task_begins() {
    check(3, || {
        let shared = shared();
        let holder = connection(&shared, &acquire());
        let waiter = connection(&shared, &acquire());
        let holder = task(&shared, holder, Script::new([release(), Vec::new()], |_| Vec::new()));
        let waiter = task(&shared, waiter, until_granted());
        let releasing = spawn(|| run(holder));
        run(waiter);
        releasing.join().expect("it does not panic");
        assert!(shared.is_drained());
    });
}

/// The same hand-over, with a task for the waiter that is as short as can be.
fn hand_over(order: Order) {
    check(3, move || {
        let shared = shared();
        let holder = connection(&shared, &acquire());
        let mut waiter = connection(&shared, &acquire());
        let id = waiter.id();
        let holder = task(&shared, holder, Script::new([release(), Vec::new()], |_| Vec::new()));
        let releasing = spawn(|| run(holder));
        let is_registered = std::cell::Cell::new(false);
        settle(releasing, |context| {
            let register = || {
                if !is_registered.replace(true) {
                    shared.register(id, context.waker().clone());
                }
            };
            if matches!(order, Order::RegisterFirst) {
                register();
            }
            shared.call(|hub| hub.attend(shared.clock.now(), &mut waiter));
            if matches!(order, Order::LookFirst) {
                register();
            }
            let mut output = Vec::new();
            if waiter.poll_transmit(&mut output) {
                waiter.handle_transmitted(shared.clock.now(), output.len());
            }
            if is_grant(&output) { Poll::Ready(()) } else { Poll::Pending }
        });
    });
}

#[test]
fn a_waiter_that_registers_before_it_looks_gets_its_grant() {
    hand_over(Order::RegisterFirst);
}

#[test]
#[should_panic(expected = "nobody has woken it")]
fn a_waiter_that_looks_before_it_registers_may_miss_its_grant() {
    hand_over(Order::LookFirst);
}

#[test]
fn a_cut_ends_a_task_that_begins() {
    check(3, || {
        let shared = shared();
        let quiet = connection(&shared, &[]);
        let quiet = task(&shared, quiet, silent());
        let cutting = {
            let shared = Arc::clone(&shared);
            spawn(move || shared.cut())
        };
        run(quiet);
        cutting.join().expect("it does not panic");
        assert!(shared.is_drained());
    });
}

#[test]
#[should_panic(expected = "nobody has woken it")]
fn a_task_that_registers_after_its_last_look_may_miss_the_cut() {
    check(3, || {
        let shared = shared();
        let id = connection(&shared, &[]).id();
        let cutting = {
            let shared = Arc::clone(&shared);
            spawn(move || shared.cut())
        };
        settle(cutting, |context| {
            if shared.is_cut() {
                return Poll::Ready(());
            }
            shared.register(id, context.waker().clone());
            Poll::Pending
        });
    });
}

/// TR-8
#[test]
fn the_end_of_the_last_connection_ends_a_server_that_shuts_down() {
    check(3, || {
        let shared = shared();
        let quiet = connection(&shared, &[]);
        let quiet = task(&shared, quiet, Script::new([Vec::new()], |_| Vec::new()));
        let ending = spawn(|| run(quiet));
        let stopping = {
            let shared = Arc::clone(&shared);
            spawn(move || shared.shut_down())
        };
        block_on(async {
            wait_until(&shared, Shared::is_shutting_down).await.expect("nothing panics");
            wait_until(&shared, Shared::is_drained).await.expect("nothing panics");
        });
        ending.join().expect("it does not panic");
        stopping.join().expect("it does not panic");
    });
}

/// EX-1: a hold brings the first deadline about.
#[test]
fn an_earlier_deadline_reaches_the_task_that_keeps_time() {
    check(3, || {
        let shared = shared();
        let mut holder = connection(&shared, &[]);
        let asking = {
            let shared = Arc::clone(&shared);
            spawn(move || {
                let now = shared.clock.now();
                shared.call(|hub| hub.receive(now, &mut holder, &[acquire(), acquire()].concat()));
            })
        };
        let mut keeping = Box::pin(keep_time::<Model>(Arc::clone(&shared)));
        block_on(poll_fn(|context| {
            assert!(keeping.as_mut().poll(context).is_pending());
            if armed().is_some() { Poll::Ready(()) } else { Poll::Pending }
        }));
        asking.join().expect("it does not panic");
    });
}
