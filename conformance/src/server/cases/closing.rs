//! How a connection ends, and what still comes before.

use std::thread::sleep;
use std::time::Duration;

use super::super::bench::Bench;
use super::super::peer::{Heard, Peer};
use crate::case::{Case, Stop, Verdict};
use crate::wire::{self, Reply};

pub(super) const CASES: &[Case<Bench>] = &[
    Case::new(
        "closing/replies-before-the-end",
        &["TR-10", "TR-9"],
        "Frames that came whole before the end of the client's stream are executed and answered, then the server closes.",
        replies_before_the_end,
    ),
    Case::new(
        "closing/many-replies-before-the-end",
        &["TR-10", "TR-9"],
        "Also if there are hundreds of them.",
        many_replies_before_the_end,
    ),
    Case::new(
        "closing/unread-input",
        &["TR-9", "FR-9"],
        "Input that the server no longer reads does not destroy the replies: all of them, the `E` and an end of stream come.",
        unread_input,
    ),
    Case::new(
        "closing/end-comes-by-itself",
        &["TR-9"],
        "After the last word the server ends its stream, and does not wait for the peer's end.",
        end_comes_by_itself,
    ),
    Case::new(
        "closing/end-without-close-notify",
        &["TR-12", "TR-10"],
        "The end of a TLS stream without `close_notify` is an end of stream.",
        end_without_close_notify,
    ),
];

/// The end of the stream; a reset is none.
fn expect_end(peer: &mut Peer) -> Verdict {
    match peer.hear("the end of the stream")? {
        Heard::End => Ok(()),
        other => Err(Stop::failed(other.to_string(), "the end of the stream")),
    }
}

/// F20
fn replies_before_the_end(bench: &mut Bench) -> Verdict {
    let (key, owner) = (bench.key("k"), bench.owner());
    let mut peer = bench.peer()?;
    peer.acquire(0, 60, owner, &key)?;
    peer.end_writing()?;
    let token = peer.granted(owner, &key)?;
    expect_end(&mut peer)?;
    bench.expect_held(&key, "a delivered grant outlives its connection")?;
    let mut peer = bench.peer()?;
    peer.release(token, &key)?;
    peer.end_writing()?;
    peer.expect(&Reply::Released { token, key })?;
    expect_end(&mut peer)
}

/// F08
fn many_replies_before_the_end(bench: &mut Bench) -> Verdict {
    const FRAMES: u64 = 500;
    let key = bench.key("k");
    let mut peer = bench.peer()?;
    let frames: Vec<u8> = (1..=FRAMES).flat_map(|token| wire::release(token, &key)).collect();
    peer.send_meaning(&frames, "500 releases of nothing")?;
    peer.end_writing()?;
    super::expect_in_any_order(
        &mut peer,
        (1..=FRAMES).map(|token| Reply::NotHeld { token, key: key.clone() }),
    )?;
    expect_end(&mut peer)
}

/// N16
fn unread_input(bench: &mut Bench) -> Verdict {
    const FRAMES: u64 = 1000;
    let key = bench.key("k");
    let mut peer = bench.peer()?;
    let frames: Vec<u8> = (1..=FRAMES).flat_map(|token| wire::release(token, &key)).collect();
    let bytes = [&frames[..], b"Q", &[b'x'; 100_000]].concat();
    peer.send_meaning(&bytes, "1000 releases of nothing, an unknown op, and 100 kB of rubbish")?;
    // Longer than the server reads and discards: whatever it destroys is destroyed now.
    sleep(Duration::from_millis(1500));
    super::expect_in_any_order(
        &mut peer,
        (1..=FRAMES).map(|token| Reply::NotHeld { token, key: key.clone() }),
    )?;
    peer.expect_error("bad_op")?;
    expect_end(&mut peer)
}

fn end_comes_by_itself(bench: &mut Bench) -> Verdict {
    let mut peer = bench.peer()?;
    peer.send_meaning(b"Q", "an unknown op")?;
    peer.expect_error("bad_op")?;
    expect_end(&mut peer)
}

fn end_without_close_notify(bench: &mut Bench) -> Verdict {
    let (key, owner) = (bench.key("k"), bench.owner());
    let mut peer = bench.peer()?;
    peer.acquire(0, 60, owner, &key)?;
    peer.cut()?;
    let token = peer.granted(owner, &key)?;
    peer.expect_closed()?;
    bench.expect_held(&key, "the acquire was executed")?;
    bench.peer()?.give_back(token, &key)
}
