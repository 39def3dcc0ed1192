//! A client's callers, its driver and the broker that they share, in every order.

use std::cell::Cell;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use loom::future::block_on;
use ticketing_proto::client::{AcquireError, AcquireOptions, BrokerConfig, Event, Released};

use super::driver::Driver;
use super::shared::{Handle, Shared};
use super::start;
use super::ticket::Acquiring;
use super::watch::ended;
use crate::runtime::models::{Model, Script, check, connects_to, run, settle, spawn};

const ADDRESS: &str = "127.0.0.1:1";

fn shared() -> Arc<Shared> {
    start(BrokerConfig::new([ADDRESS], 0)).expect("a good configuration")
}

fn driver(shared: &Arc<Shared>) -> Driver<Model> {
    let resolve = |address: &str| {
        let address = address.parse();
        Box::pin(async move { Ok(vec![address.expect("an address")]) }) as _
    };
    Driver::new(Arc::clone(shared), vec![ADDRESS.into()], Arc::new(resolve))
}

fn acquire(handle: &Arc<Handle>) -> Acquiring {
    let options =
        AcquireOptions::new(Duration::ZERO).wait(Duration::from_secs(200)).lease(Duration::from_secs(250));
    Acquiring::begin(handle, "k", options, true)
}

/// A server that grants and releases what it is asked for, which is always the key `k`.
fn server() -> Script {
    let challenge = [b"sha256 ".as_slice(), &[b'n'; 43], b"\n"].concat();
    Script::new([challenge], |mut written| {
        // The response of the handshake; nothing else has its LF there.
        if written.len() >= 44 && written[..43].iter().all(u8::is_ascii_graphic) {
            written = &written[44..];
        }
        let mut replies = Vec::new();
        while let Some(&op) = written.first() {
            let (reply, len) = match op {
                b'A' => ([b"A".as_slice(), &1_u64.to_be_bytes(), &written[3..11], b"k\n"].concat(), 13),
                b'R' => ([b"R", &written[1..9], b"k\n"].concat(), 11),
                other => panic!("no request begins with {other}"),
            };
            replies.push(reply);
            written = &written[len..];
        }
        replies
    })
}

#[test]
fn a_lock_is_taken_and_given_back_and_the_client_ends() {
    check(2, || {
        let shared = shared();
        let handle = Arc::new(Handle::new(Arc::clone(&shared)));
        connects_to(server());
        let driver = driver(&shared);
        let driving = spawn(|| run(driver.run()));
        let ticket = block_on(acquire(&handle)).expect("it is free");
        assert_eq!(block_on(ticket.release()), Ok(Released::Released));
        drop(handle);
        driving.join().expect("it does not panic");
    });
}

/// CR-3, CC-6
#[test]
fn a_ticket_that_is_dropped_is_released_before_the_client_ends() {
    check(2, || {
        let shared = shared();
        let handle = Arc::new(Handle::new(Arc::clone(&shared)));
        connects_to(server());
        let driver = driver(&shared);
        let driving = spawn(|| run(driver.run()));
        drop(block_on(acquire(&handle)).expect("it is free"));
        drop(handle);
        driving.join().expect("it does not panic");
        assert_eq!(
            shared.look(|broker| (broker.outstanding(), broker.stats().compensations_expired)),
            (0, 0)
        );
    });
}

#[test]
fn whoever_waits_for_a_driver_that_goes_is_told() {
    check(3, || {
        let shared = shared();
        let handle = Arc::new(Handle::new(Arc::clone(&shared)));
        let driver = driver(&shared);
        let going = spawn(move || drop(driver));
        let error = block_on(acquire(&handle)).expect_err("nothing is sent any more");
        assert!(matches!(error, AcquireError::Closed), "{error}");
        block_on(ended(handle));
        going.join().expect("it does not panic");
    });
}

/// A driver as short as can be, which ends with the client.
fn drive(is_call_taken_first: bool) {
    check(3, move || {
        let shared = shared();
        let handle = Handle::new(Arc::clone(&shared));
        let closing = spawn(move || handle.close());
        let is_registered = Cell::new(false);
        settle(closing, |context| {
            if !is_registered.replace(true) {
                shared.register_driver(context.waker().clone());
            }
            let take_call = || {
                let _ = shared.take_call();
            };
            if is_call_taken_first {
                take_call();
            }
            let mut errands = Vec::new();
            shared.drive(&mut errands, |_, _| {});
            if !is_call_taken_first {
                take_call();
            }
            match errands.contains(&Event::Closed) {
                true => Poll::Ready(()),
                false => Poll::Pending,
            }
        });
    });
}

#[test]
fn a_driver_that_takes_the_call_before_it_looks_hears_of_the_close() {
    drive(true);
}

#[test]
#[should_panic(expected = "nobody has woken it")]
fn a_driver_that_takes_the_call_after_it_looked_may_miss_the_close() {
    drive(false);
}
