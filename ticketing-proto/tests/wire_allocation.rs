//! Reading and writing frames allocates nothing.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use ticketing_proto::key::KeyRef;
use ticketing_proto::wire::auth::{LineDecoder, Secret, judge, nonce_text, respond};
use ticketing_proto::wire::{Decoder, FromClient, FromServer, Reply, Request};

thread_local! {
    static ALLOCATIONS: Cell<usize> = const { Cell::new(0) };
}

/// The system's allocator, with a count per thread.
struct Counting;

// SAFETY: every call goes to the system's allocator as it came.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise; it came from the system's allocator.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// How often `act` allocates on this thread.
fn allocations(act: impl FnOnce()) -> usize {
    let before = ALLOCATIONS.get();
    act();
    ALLOCATIONS.get() - before
}

const REQUESTS: &[u8] =
    b"A\x05\x0a\0\0\0\0\0\0\0\x01twenty-two bytes, not\n\nA\x05\0\0\0\0\0\0\0\0\x02k\nR\0\0\0\0\0\0\0\x07k\n";
const REPLIES: &[u8] =
    b"A\0\0\0\0\0\0\0\x07\0\0\0\0\0\0\0\x01k\nT\0\0\0\0\0\0\0\x01k\nMnode:5225\nEbad_key\nL\n";

#[test]
fn the_count_sees_an_allocation() {
    assert_eq!(allocations(|| drop(std::hint::black_box(vec![1_u8; 100]))), 1);
}

#[test]
fn requests_are_read_and_written_without_an_allocation() {
    let mut out = Vec::with_capacity(REQUESTS.len());
    for piece_len in 1..=REQUESTS.len() {
        let count = allocations(|| {
            let mut decoder = Decoder::<FromClient>::new();
            for mut piece in REQUESTS.chunks(piece_len) {
                while let Ok(Some(frame)) = decoder.next(&mut piece) {
                    if let Ok(request) = Request::parse(frame) {
                        out.clear();
                        request.encode(&mut out);
                    }
                }
            }
        });
        assert_eq!(count, 0, "in pieces of {piece_len} bytes");
        assert!(!out.is_empty());
    }
}

#[test]
fn replies_are_read_and_written_without_an_allocation() {
    let mut out = Vec::with_capacity(REPLIES.len());
    for piece_len in 1..=REPLIES.len() {
        let count = allocations(|| {
            let mut decoder = Decoder::<FromServer>::new();
            for mut piece in REPLIES.chunks(piece_len) {
                while let Ok(Some(frame)) = decoder.next(&mut piece) {
                    if let Ok(reply) = Reply::parse(frame) {
                        out.clear();
                        reply.encode(&mut out);
                    }
                }
            }
        });
        assert_eq!(count, 0, "in pieces of {piece_len} bytes");
        assert!(!out.is_empty());
    }
}

#[test]
fn a_handshake_is_judged_without_an_allocation() {
    let secret = Secret::new(*b"secret");
    let nonce = nonce_text(&[7; 32]);
    let count = allocations(|| {
        let response = respond(&secret, &nonce);
        let mut decoder = LineDecoder::new();
        for mut piece in response.chunks(5).chain([&b"\n"[..]]) {
            if let Ok(Some(line)) = decoder.next(&mut piece) {
                std::hint::black_box(judge(&secret, &nonce, line));
            }
        }
    });
    assert_eq!(count, 0);
}

#[test]
fn keys_of_up_to_22_bytes_are_owned_without_an_allocation() {
    for (len, expected) in [(1, 0), (22, 0), (23, 1), (128, 1)] {
        let bytes = vec![b'x'; len];
        let key = KeyRef::new(&bytes).expect("a legal key");
        assert_eq!(allocations(|| drop(std::hint::black_box(key.to_key()))), expected, "{len} bytes");
    }
}
