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
    Case::new(
        "closing/shut-down",
        &["TR-8", "TR-9", "ER-7", "RD-1"],
        "A server that shuts down says `Enot_active` to each authenticated connection, waiters included, nothing to the \
         others, closes them all, and accepts no more.",
        shut_down,
    )
    .last(),
];

/// The end of the stream; a reset is none.
fn expect_end(peer: &mut Peer) -> Verdict {
    match peer.hear("the end of the stream")? {
        Heard::End => Ok(()),
        other => Err(Stop::failed(other.to_string(), "the end of the stream")),
    }
}

/// So many releases of keys that nobody holds, and what they get.
fn releases_of_nothing(bench: &Bench, count: usize) -> (Vec<u8>, Vec<Reply>) {
    let keys: Vec<_> = (0..count).map(|index| bench.key(&index.to_string())).collect();
    let frames = keys.iter().flat_map(|key| wire::release(1, key)).collect();
    (frames, keys.into_iter().map(|key| Reply::NotHeld { token: 1, key }).collect())
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
    let (frames, replies) = releases_of_nothing(bench, 500);
    let mut peer = bench.peer()?;
    peer.send_meaning(&frames, "500 releases of nothing")?;
    peer.end_writing()?;
    super::expect_in_any_order(&mut peer, replies)?;
    expect_end(&mut peer)
}

/// N16
fn unread_input(bench: &mut Bench) -> Verdict {
    // More than a connection keeps on its way.
    const FRAMES: usize = 2500;
    let key = bench.key_of_len(128);
    let frames = wire::release(1, &key).repeat(FRAMES);
    let replies = std::iter::repeat_n(Reply::NotHeld { token: 1, key }, FRAMES);
    let mut peer = bench.peer()?;
    let bytes = [&frames[..], b"Q", &[b'x'; 100_000]].concat();
    peer.send_meaning(&bytes, "2500 releases of nothing, an unknown op, and 100 kB of rubbish")?;
    // Longer than the server reads and discards: whatever it destroys is destroyed now.
    sleep(Duration::from_millis(1500));
    super::expect_in_any_order(&mut peer, replies)?;
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

/// N12
fn shut_down(bench: &mut Bench) -> Verdict {
    let key = bench.key("k");
    let [mut holder, mut waiter, mut quiet, mut stranger] =
        [bench.peer()?, bench.peer()?, bench.peer()?, bench.stranger()?];
    stranger.challenge()?;
    holder.take(60, 1, &key)?;
    waiter.acquire(60, 60, 2, &key)?;
    waiter.sentinel(&bench.key("queued"))?;
    quiet.sentinel(&bench.key("in"))?;
    quiet.send_meaning(&wire::acquire(0, 60, 3, &key)[..5], "half a frame")?;
    bench.stop_server()?;
    for peer in [&mut holder, &mut waiter, &mut quiet] {
        peer.expect_error("not_active")?;
        expect_end(peer)?;
    }
    stranger.expect_closed()?;
    match bench.stranger().and_then(|mut late| late.challenge()) {
        Err(Stop::Failed(_)) => Ok(()),
        Err(stop) => Err(stop),
        Ok(_) => {
            Err(Stop::failed("a challenge for a connection that came later", "the server accepts no more"))
        }
    }
}
