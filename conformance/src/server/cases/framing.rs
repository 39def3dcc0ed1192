//! How bytes become frames, and how a server judges those that do not.

use std::thread::sleep;
use std::time::{Duration, Instant};

use super::super::bench::Bench;
use super::super::peer::{Heard, Peer};
use crate::case::{Case, Stop, Verdict};
use crate::wire::{self, Reply};

/// From a frame's op to its LF (`FR-6`).
const FRAME_PROGRESS_TIMEOUT: Duration = Duration::from_secs(5);

pub(super) const CASES: &[Case<Bench>] = &[
    Case::new(
        "framing/header-with-lf",
        &["FR-2", "TR-4"],
        "The fixed header is read by count: 0a in any of its bytes is no end of a frame.",
        header_with_lf,
    ),
    Case::new(
        "framing/split-frames",
        &["FR-1", "FR-2"],
        "A frame that comes in two pieces, cut anywhere, is the same frame.",
        split_frames,
    ),
    Case::new(
        "framing/byte-by-byte",
        &["FR-1", "FR-2", "FR-4"],
        "Frames and empty frames that come byte by byte are the same frames.",
        byte_by_byte,
    ),
    Case::new(
        "framing/many-in-one-segment",
        &["FR-1", "FR-4", "TR-6"],
        "All frames of one segment are executed, without further input.",
        many_in_one_segment,
    ),
    Case::new(
        "framing/keep-alives",
        &["FR-4"],
        "An LF in an op's place is ignored silently, any number of times.",
        keep_alives,
    ),
    Case::new(
        "framing/192-bytes",
        &["FR-5", "ER-5"],
        "A frame of 192 bytes is not too long: its key is, and the connection stays open.",
        frame_of_192_bytes,
    ),
    Case::new(
        "framing/193-bytes",
        &["FR-5", "FR-9", "ER-4"],
        "Byte 193 without LF gets `Eline_too_long` and a close, and no LF is waited for.",
        frame_of_193_bytes,
    ),
    Case::new(
        "framing/193-bytes-with-lf",
        &["FR-5", "FR-9", "ER-4"],
        "A frame of 193 bytes is too long, also with its LF; nothing behind it is executed.",
        frame_of_193_bytes_with_lf,
    ),
    Case::new(
        "framing/nothing-before-the-lf",
        &["FR-5", "FR-7"],
        "A frame whose LF has not come is neither judged nor executed.",
        nothing_before_the_lf,
    ),
    Case::new(
        "framing/slow-frame",
        &["FR-6"],
        "A frame that takes 3 s is served.",
        slow_frame,
    ),
    Case::new(
        "framing/trickling-frame",
        &["FR-6", "ER-3"],
        "A frame has 5 s from its op to its LF, and bytes that trickle in extend nothing: then `Ebad_request`, a close, \
         and no hold.",
        trickling_frame,
    )
    .slow(),
    Case::new(
        "framing/stalled-frame",
        &["FR-6", "FR-7", "ER-3"],
        "A frame that has stalled for 5 s, in its header or before its LF, gets `Ebad_request` and a close.",
        stalled_frame,
    )
    .slow(),
    Case::new(
        "framing/finished-frame-has-no-timer",
        &["FR-4", "FR-6", "TR-5"],
        "A connection may be quiet for longer than 5 s behind a frame that came in pieces, and behind empty frames.",
        finished_frame_has_no_timer,
    )
    .slow(),
    Case::new(
        "framing/unknown-op",
        &["FR-8", "FR-9", "ER-2"],
        "An unknown op gets `Ebad_op` and a close; what stood before it is answered, nothing behind it is executed.",
        unknown_op,
    ),
    Case::new(
        "framing/unknown-op-at-once",
        &["FR-8"],
        "An unknown op is judged with its byte, without an LF.",
        unknown_op_at_once,
    ),
    Case::new(
        "framing/end-inside-a-frame",
        &["FR-7", "ER-3", "TR-10"],
        "A stream that ends inside a frame gets `Ebad_request`; the frame is not executed.",
        end_inside_a_frame,
    ),
    Case::new(
        "framing/waiters-leave-unanswered",
        &["FR-9"],
        "Behind a malformed frame the connection's waiters leave their queues without an answer; the `E` is the last \
         frame.",
        waiters_leave_unanswered,
    ),
    Case::new(
        "framing/carriage-return",
        &["FR-3", "FI-5"],
        "CR has no meaning: a key that ends in CR is another key.",
        carriage_return,
    ),
    Case::new(
        "framing/half-a-frame-while-a-reply-goes-out",
        &["FR-2", "OP-3"],
        "A frame of which a part has come survives a reply that is sent meanwhile.",
        half_a_frame_while_a_reply_goes_out,
    ),
];

/// F02
fn header_with_lf(bench: &mut Bench) -> Verdict {
    let mut peer = bench.peer()?;
    let mut headers = vec![[b'\n'; 10]];
    for at in 0..10 {
        let mut header = [1, 30, 1, 1, 1, 1, 1, 1, 1, 1];
        header[at] = b'\n';
        headers.push(header);
    }
    for (index, header) in headers.iter().enumerate() {
        let key = bench.key(&index.to_string());
        let owner = header[2..].iter().fold(0, |owner, &byte| owner << 8 | u64::from(byte));
        peer.acquire(header[0], header[1], owner, &key)?;
        let token = peer.granted(owner, &key)?;
        peer.give_back(token, &key)?;
    }
    Ok(())
}

/// F01
fn split_frames(bench: &mut Bench) -> Verdict {
    let mut peer = bench.peer()?;
    let owner = bench.owner();
    let key = bench.key("\u{e9}");
    let acquire = wire::acquire(0, 20, owner, &key);
    for cut in 1..acquire.len() {
        send_cut(&mut peer, &acquire, cut)?;
        let token = peer.granted(owner, &key)?;
        let release = wire::release(token, &key);
        send_cut(&mut peer, &release, cut.min(release.len() - 1))?;
        peer.expect(&Reply::Released { token, key: key.clone() })?;
    }
    Ok(())
}

fn send_cut(peer: &mut Peer, frame: &[u8], cut: usize) -> Verdict {
    peer.send_meaning(&frame[..cut], "the first piece of a frame")?;
    // So that the pieces are read one by one, mostly.
    sleep(Duration::from_millis(5));
    peer.send_meaning(&frame[cut..], "the rest")
}

/// F04
fn byte_by_byte(bench: &mut Bench) -> Verdict {
    let mut peer = bench.peer()?;
    let [key, other] = [bench.key("k"), bench.key("other")];
    let [acquire, release] = [wire::acquire(10, 10, 10, &key), wire::release(10, &other)];
    for byte in [b"\n\n", &acquire[..], b"\n", &release, b"\n\n\n"].concat() {
        peer.send_meaning(&[byte], "one byte")?;
    }
    let token = peer.granted(10, &key)?;
    peer.expect(&Reply::NotHeld { token: 10, key: other })?;
    peer.give_back(token, &key)
}

/// F08
fn many_in_one_segment(bench: &mut Bench) -> Verdict {
    let mut peer = bench.peer()?;
    let keys: Vec<_> = (0..300).map(|index| bench.key(&index.to_string())).collect();
    let frames: Vec<u8> =
        keys.iter().flat_map(|key| [wire::release(1, key), b"\n".to_vec()].concat()).collect();
    peer.send_meaning(&frames, "300 releases of nothing, with an empty frame behind each")?;
    super::expect_in_any_order(&mut peer, keys.into_iter().map(|key| Reply::NotHeld { token: 1, key }))
}

/// F04
fn keep_alives(bench: &mut Bench) -> Verdict {
    let mut peer = bench.peer()?;
    let (key, owner) = (bench.key("k"), bench.owner());
    peer.send_meaning(&[b'\n'; 100_000], "100 000 empty frames")?;
    peer.acquire(0, 20, owner, &key)?;
    let token = peer.granted(owner, &key)?;
    peer.send_meaning(b"\n", "an empty frame")?;
    peer.give_back(token, &key)
}

/// F11
fn frame_of_192_bytes(bench: &mut Bench) -> Verdict {
    let mut peer = bench.peer()?;
    peer.acquire(0, 5, 1, &bench.key_of_len(181))?;
    peer.expect_error("bad_key")?;
    peer.release(1, &bench.key_of_len(183))?;
    peer.expect_error("bad_key")?;
    peer.sentinel(&bench.key("sentinel"))
}

/// F09
fn frame_of_193_bytes(bench: &mut Bench) -> Verdict {
    let frames = [wire::acquire(0, 5, 1, bench.key_of_len(182)), wire::release(1, bench.key_of_len(184))];
    for frame in frames {
        let mut peer = bench.peer()?;
        peer.send_meaning(&frame[..193], "193 bytes of a frame")?;
        peer.expect_error("line_too_long")?;
        peer.expect_closed()?;
    }
    Ok(())
}

/// F11
fn frame_of_193_bytes_with_lf(bench: &mut Bench) -> Verdict {
    let behind = bench.key("behind");
    let frames = [wire::acquire(0, 5, 1, bench.key_of_len(182)), wire::release(1, bench.key_of_len(184))];
    for frame in frames {
        let mut peer = bench.peer()?;
        peer.send(&[frame, wire::acquire(0, 30, 2, &behind)].concat())?;
        peer.expect_error("line_too_long")?;
        peer.expect_closed()?;
    }
    bench.expect_free(&behind, "the acquire behind the frame is not executed")
}

/// F11
fn nothing_before_the_lf(bench: &mut Bench) -> Verdict {
    let mut peer = bench.peer()?;
    let (key, owner) = (bench.key("k"), bench.owner());
    let frames = [wire::acquire(0, 5, 1, bench.key_of_len(181)), wire::acquire(0, 30, owner, &key)];
    for (index, frame) in frames.iter().enumerate() {
        peer.send_meaning(&frame[..frame.len() - 1], "a frame without its LF")?;
        bench.expect_free(&key, "a frame without its LF is not executed")?;
        let line_feed = Instant::now();
        peer.send_meaning(b"\n", "its LF")?;
        match index {
            0 => peer.expect_error("bad_key")?,
            _ => _ = peer.granted(owner, &key)?,
        }
        if peer.heard_at() < line_feed {
            return Err(Stop::failed("an answer before the LF", "an answer to the LF"));
        }
    }
    Ok(())
}

/// F05
fn slow_frame(bench: &mut Bench) -> Verdict {
    let mut peer = bench.peer()?;
    let (key, owner) = (bench.key("k"), bench.owner());
    let frame = wire::acquire(0, 5, owner, &key);
    let pause = Duration::from_secs(3).div_f64(frame.len() as f64);
    let start = Instant::now();
    let mut next = start;
    for byte in frame {
        peer.send_meaning(&[byte], "one byte")?;
        next += pause;
        sleep(next.saturating_duration_since(Instant::now()));
    }
    bench.not_later_than(start, Duration::from_millis(4500))?;
    peer.granted(owner, &key).map(drop)
}

/// F05
fn trickling_frame(bench: &mut Bench) -> Verdict {
    let mut peer = bench.peer()?;
    let key = bench.key("a-key-that-takes-long");
    let start = Instant::now();
    for byte in wire::acquire(0, 30, 1, &key).into_iter().take(18) {
        peer.send_meaning(&[byte], "one byte")?;
        sleep(Duration::from_millis(500));
    }
    expect_stall(bench, &mut peer, start)?;
    bench.expect_free(&key, "a frame that was too slow is not executed")
}

/// F09
fn stalled_frame(bench: &mut Bench) -> Verdict {
    let start = Instant::now();
    let mut stalled = Vec::new();
    for bytes in [&wire::acquire(0, 5, 1, b"k")[..5], &wire::acquire(0, 5, 1, bench.key_of_len(181))[..192]] {
        let mut peer = bench.peer()?;
        peer.send_meaning(bytes, "a part of a frame")?;
        stalled.push(peer);
    }
    stalled.iter_mut().try_for_each(|peer| expect_stall(bench, peer, start))
}

fn expect_stall(bench: &Bench, peer: &mut Peer, start: Instant) -> Verdict {
    const RIGHT: &str = "E, error \"bad_request\", after 5 s";
    match peer.hear_within(FRAME_PROGRESS_TIMEOUT + bench.settings().timeout, RIGHT)? {
        Heard::Reply(reply) if reply == Reply::error("bad_request") => {}
        other => return Err(Stop::failed(other.to_string(), RIGHT)),
    }
    bench.in_time("`Ebad_request`", start, FRAME_PROGRESS_TIMEOUT, peer.heard_at())?;
    peer.expect_closed()
}

/// F07
fn finished_frame_has_no_timer(bench: &mut Bench) -> Verdict {
    let mut peer = bench.peer()?;
    let mut other = bench.peer()?;
    let (key, owner) = (bench.key("k"), bench.owner());
    let frame = wire::acquire(0, 60, owner, &key);
    peer.send_meaning(&frame[..7], "the first half of a frame")?;
    other.send_meaning(b"\n\n\n", "three empty frames")?;
    sleep(Duration::from_secs(2));
    peer.send_meaning(&frame[7..], "the second half")?;
    let token = peer.granted(owner, &key)?;
    sleep(FRAME_PROGRESS_TIMEOUT + Duration::from_secs(1));
    peer.give_back(token, &key)?;
    other.sentinel(&bench.key("sentinel"))
}

/// F22
fn unknown_op(bench: &mut Bench) -> Verdict {
    let victim = bench.key("victim");
    for op in [0x00, 0x61, 0x42, 0x4d, 0x4e, 0x54, 0x16, 0xff] {
        for lf in [&b""[..], b"\n"] {
            let mut peer = bench.peer()?;
            let before = bench.key("before");
            let bytes =
                [&wire::release(1, &before), &[op][..], lf, &wire::acquire(0, 30, 1, &victim)].concat();
            peer.send_meaning(&bytes, &format!("a release, the op {op:02x}, and an acquire behind it"))?;
            peer.expect(&Reply::NotHeld { token: 1, key: before })?;
            peer.expect_error("bad_op")?;
            peer.expect_closed()?;
        }
    }
    bench.expect_free(&victim, "what stands behind an unknown op is not executed")
}

fn unknown_op_at_once(bench: &mut Bench) -> Verdict {
    let mut peer = bench.peer()?;
    peer.send_meaning(b"Q", "an unknown op")?;
    peer.expect_error("bad_op")?;
    peer.expect_closed()
}

fn end_inside_a_frame(bench: &mut Bench) -> Verdict {
    let key = bench.key("k");
    let frame = wire::acquire(0, 30, 1, &key);
    for len in [1, 5, frame.len() - 1] {
        let mut peer = bench.peer()?;
        peer.send_meaning(&frame[..len], "a part of a frame")?;
        peer.end_writing()?;
        peer.expect_error("bad_request")?;
        peer.expect_closed()?;
    }
    bench.expect_free(&key, "a frame without its LF is not executed")
}

fn waiters_leave_unanswered(bench: &mut Bench) -> Verdict {
    let (key, owners) = (bench.key("k"), [(); 3].map(|()| bench.owner()));
    let [mut holder, mut leaver, mut next] = [bench.peer()?, bench.peer()?, bench.peer()?];
    let token = holder.take(60, owners[0], &key)?;
    leaver.acquire(60, 60, owners[1], &key)?;
    leaver.sentinel(&bench.key("queued"))?;
    next.acquire(60, 60, owners[2], &key)?;
    next.sentinel(&bench.key("queued"))?;
    leaver.send_meaning(b"Q", "an unknown op")?;
    leaver.expect_error("bad_op")?;
    leaver.expect_closed()?;
    holder.give_back(token, &key)?;
    let token = next.granted(owners[2], &key)?;
    next.give_back(token, &key)
}

/// F16
fn carriage_return(bench: &mut Bench) -> Verdict {
    let mut peer = bench.peer()?;
    let plain = bench.key("k");
    let ends_in_cr = [&plain[..], b"\r"].concat();
    let is_cr_within = [&b"\r"[..], &plain].concat();
    let token = peer.take(20, 1, &ends_in_cr)?;
    peer.take(20, 2, &plain)?;
    peer.take(20, 3, &is_cr_within)?;
    peer.release(token, &plain)?;
    peer.expect(&Reply::NotHeld { token, key: plain })?;
    bench.expect_held(&ends_in_cr, "the key with CR is still held")
}

/// F25
fn half_a_frame_while_a_reply_goes_out(bench: &mut Bench) -> Verdict {
    let [mut holder, mut waiter] = [bench.peer()?, bench.peer()?];
    let (contended, other) = (bench.key("contended"), bench.key("other"));
    let frame = wire::acquire(0, 20, 3, &other);
    for cut in 1..frame.len() {
        let token = holder.take(60, 1, &contended)?;
        waiter.acquire(60, 60, 2, &contended)?;
        waiter.sentinel(&bench.key("queued"))?;
        waiter.send_meaning(&frame[..cut], "a part of a frame")?;
        holder.give_back(token, &contended)?;
        let token = waiter.granted(2, &contended)?;
        waiter.send_meaning(&frame[cut..], "the rest of it")?;
        let other_token = waiter.granted(3, &other)?;
        waiter.give_back(token, &contended)?;
        waiter.give_back(other_token, &other)?;
    }
    Ok(())
}
