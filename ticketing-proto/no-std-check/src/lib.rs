//! Builds `ticketing-proto` into a static library without std.
//!
//! It runs nowhere: that it builds is the statement. The panic handler below is the only one there may be, so
//! std can't come in by any path, and the functions call the core, so that its code has to be generated.
#![no_std]

extern crate alloc;

use alloc::vec::Vec;
use core::alloc::{GlobalAlloc, Layout};
use core::panic::PanicInfo;

use ticketing_proto::client::{AcquireOptions, Broker, BrokerConfig, Event};
use ticketing_proto::id::Token;
use ticketing_proto::limits::Limits;
use ticketing_proto::lock::TokenRange;
use ticketing_proto::server::{Hub, ServerConfig};
use ticketing_proto::time::Instant;
use ticketing_proto::wire::auth::{LineDecoder, Secret, parse_challenge, respond};
use ticketing_proto::wire::{Decoder, FromClient, FromServer, Reply, Request};

/// Has no memory to give.
struct Nothing;

// SAFETY: a null pointer is the documented answer of an allocator that is out of memory.
unsafe impl GlobalAlloc for Nothing {
    unsafe fn alloc(&self, _: Layout) -> *mut u8 {
        core::ptr::null_mut()
    }

    unsafe fn dealloc(&self, _: *mut u8, _: Layout) {}
}

#[global_allocator]
static ALLOCATOR: Nothing = Nothing;

#[panic_handler]
fn halt(_: &PanicInfo<'_>) -> ! {
    loop {
        core::hint::spin_loop();
    }
}

/// # Safety
/// `data` points to `len` readable bytes.
unsafe fn bytes<'a>(data: *const u8, len: usize) -> &'a [u8] {
    // SAFETY: the caller's promise.
    unsafe { core::slice::from_raw_parts(data, len) }
}

/// The wire, as a server sees it: how many requests stand in the bytes.
///
/// # Safety
/// `data` points to `len` readable bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ticketing_count_requests(data: *const u8, len: usize) -> usize {
    // SAFETY: the caller's promise.
    let mut input = unsafe { bytes(data, len) };
    let mut decoder = Decoder::<FromClient>::new();
    let mut encoded = Vec::new();
    let mut requests = 0;
    while let Ok(Some(frame)) = decoder.next(&mut input) {
        if let Ok(request) = Request::parse(frame) {
            request.encode(&mut encoded);
            requests += 1;
        }
    }
    requests
}

/// The wire, as a client sees it: how many replies stand in the bytes.
///
/// # Safety
/// `data` points to `len` readable bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ticketing_count_replies(data: *const u8, len: usize) -> usize {
    // SAFETY: the caller's promise.
    let mut input = unsafe { bytes(data, len) };
    let mut decoder = Decoder::<FromServer>::new();
    let mut encoded = Vec::new();
    let mut replies = 0;
    while let Ok(Some(frame)) = decoder.next(&mut input) {
        if let Ok(reply) = Reply::parse(frame) {
            reply.encode(&mut encoded);
            replies += 1;
        }
    }
    replies
}

/// The handshake, as a client sees it: the first byte of the response, or 0.
///
/// # Safety
/// `data` points to `len` readable bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ticketing_respond(data: *const u8, len: usize) -> u8 {
    // SAFETY: the caller's promise.
    let mut input = unsafe { bytes(data, len) };
    let mut decoder = LineDecoder::new();
    let Ok(Some(line)) = decoder.next(&mut input) else { return 0 };
    let Ok(nonce) = parse_challenge(line) else { return 0 };
    respond(&Secret::default(), nonce).first().copied().unwrap_or_default()
}

/// One node, as a server uses it: how many bytes answer these.
///
/// # Safety
/// `data` points to `len` readable bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ticketing_serve(data: *const u8, len: usize) -> usize {
    // SAFETY: the caller's promise.
    let input = unsafe { bytes(data, len) };
    let Some(tokens) = Token::new(1).zip(Token::new(u64::MAX)) else { return 0 };
    let config = ServerConfig {
        secret: Secret::default(),
        limits: Limits::default(),
        tokens: TokenRange { next: tokens.0, last: tokens.1 },
        hash_seed: [0; 2],
        tls: None,
    };
    let now = Instant::ORIGIN;
    let Ok(mut hub) = Hub::new(now, config) else { return 0 };
    let Ok(mut connection) = hub.accept(now, [0; 32]) else { return 0 };
    let mut out = Vec::new();
    hub.receive(now, &mut connection, input);
    while connection.poll_transmit(&mut out) {
        connection.handle_transmitted(now, out.len());
        hub.attend(now, &mut connection);
    }
    hub.handle_timeout(now);
    hub.disconnect(now, connection);
    out.len()
}

/// A client, as a program uses it: how many bytes it sends when it gets these.
///
/// # Safety
/// `data` points to `len` readable bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ticketing_ask(data: *const u8, len: usize) -> usize {
    // SAFETY: the caller's promise.
    let input = unsafe { bytes(data, len) };
    let now = Instant::ORIGIN;
    let Ok(mut broker) = Broker::new(now, BrokerConfig::new(["node:5225"], 0)) else { return 0 };
    let Ok(asked) = broker.acquire(now, "k", AcquireOptions::new(core::time::Duration::ZERO)) else {
        return 0;
    };
    let mut out = Vec::new();
    while let Some(event) = broker.poll_event() {
        let Event::Connect { connection, .. } = event else { continue };
        broker.handle_connected(now, connection);
        broker.handle_data(now, connection, input);
        let before = out.len();
        if broker.poll_transmit(now, connection, &mut out) {
            broker.handle_transmitted(now, connection, out.len() - before);
        }
    }
    if let Some(Ok(grant)) = broker.claim(now, asked) {
        broker.discard(now, grant.key, grant.token);
    }
    broker.handle_timeout(now);
    broker.close(now);
    out.len()
}
