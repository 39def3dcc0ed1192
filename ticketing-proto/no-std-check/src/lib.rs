//! Builds `ticketing-proto` into a static library without std.
//!
//! It runs nowhere: that it builds is the statement. The panic handler below is the only one there may be, so
//! std can't come in by any path, and the functions call the core, so that its code has to be generated.
#![no_std]

extern crate alloc;

use alloc::vec::Vec;
use core::alloc::{GlobalAlloc, Layout};
use core::panic::PanicInfo;

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
