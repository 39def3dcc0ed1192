//! What stands in frames: waits, leases, owners, keys, tokens.

use super::super::bench::Bench;
use super::super::peer::{Heard, Peer};
use crate::case::{Case, Stop, Verdict};
use crate::wire::{self, Reply};

pub(super) const CASES: &[Case<Bench>] = &[
    Case::new("fields/waits", &["FI-1"], "A wait may be anything from 0 to 255 s.", waits),
    Case::new("fields/leases", &["FI-2"], "A lease may be anything from 1 to 250 s.", leases),
    Case::new(
        "fields/bad-leases",
        &["FI-2", "ER-6"],
        "A lease of 0 or of more than 250 s gets `Ebad_lease`; the connection stays open and nothing is held.",
        bad_leases,
    ),
    Case::new(
        "fields/owner-0",
        &["FI-3", "FR-9", "ER-3"],
        "Owner 0 gets `Ebad_request` and a close; neither it nor what stands behind it is executed.",
        owner_0,
    ),
    Case::new(
        "fields/owners-are-echoed",
        &["FI-3", "TR-4"],
        "Replies carry the request's owner, bit for bit.",
        owners_are_echoed,
    ),
    Case::new(
        "fields/same-owner-again",
        &["FI-3", "OP-8", "FI-6"],
        "An owner that comes again is a new request: it does not give back the token that is active.",
        same_owner_again,
    ),
    Case::new(
        "fields/bad-keys",
        &["FI-4", "ER-5"],
        "An empty key, one with a space, and one of more than 128 bytes get `Ebad_key`, in `A` and in `R`; the \
         connection stays open.",
        bad_keys,
    ),
    Case::new(
        "fields/not-utf-8",
        &["FI-4", "TR-4", "ER-5"],
        "A key that is not UTF-8 gets `Ebad_key`, in `A` and in `R`; the connection stays open.",
        not_utf_8,
    ),
    Case::new(
        "fields/legal-keys",
        &["FI-4", "FI-5"],
        "NUL, CR, TAB, U+00A0, U+FEFF and noncharacters are legal in a key and are echoed as they came.",
        legal_keys,
    ),
    Case::new(
        "fields/key-of-128-bytes",
        &["FI-4", "FR-5"],
        "A key may have 128 bytes, and its length is counted in bytes, not in characters.",
        key_of_128_bytes,
    ),
    Case::new(
        "fields/keys-are-bytes",
        &["FI-4", "TR-4"],
        "Two keys are the same if their bytes are: nothing is trimmed, folded or normalized.",
        keys_are_bytes,
    ),
    Case::new(
        "fields/tokens-rise",
        &["FI-6"],
        "Tokens are not 0 and strictly rise from grant to grant, over all keys and connections.",
        tokens_rise,
    ),
    Case::new(
        "fields/first-fault-counts",
        &["ER-3", "ER-6"],
        "Of several faults in one frame owner 0 counts before the lease, and the lease before the key.",
        first_fault_counts,
    ),
];

fn waits(bench: &mut Bench) -> Verdict {
    let key = bench.key("k");
    let mut holder = bench.peer()?;
    let token = holder.take(60, 1, &key)?;
    let waits = [60, 65, 66, 127, 128, 254, 255];
    let mut waiters = Vec::new();
    for wait in waits {
        let mut waiter = bench.peer()?;
        waiter.acquire(wait, 60, 2, &key)?;
        waiter.sentinel(&bench.key("queued"))?;
        waiters.push(waiter);
    }
    holder.give_back(token, &key)?;
    for mut waiter in waiters {
        let token = waiter.granted(2, &key)?;
        waiter.give_back(token, &key)?;
    }
    let free = bench.key("free");
    for wait in [0, 1, 255] {
        holder.acquire(wait, 20, 1, &free)?;
        let token = holder.granted(1, &free)?;
        holder.give_back(token, &free)?;
    }
    Ok(())
}

/// T01
fn leases(bench: &mut Bench) -> Verdict {
    let mut peer = bench.peer()?;
    for lease in [1, 2, 30, 127, 128, 249, 250] {
        let key = bench.key(&lease.to_string());
        let token = peer.take(lease, 1, &key)?;
        peer.give_back(token, &key)?;
    }
    Ok(())
}

/// T01
fn bad_leases(bench: &mut Bench) -> Verdict {
    let mut peer = bench.peer()?;
    for lease in [0, 251, 254, 255] {
        let key = bench.key(&lease.to_string());
        peer.acquire(0, lease, 1, &key)?;
        peer.expect_error("bad_lease")?;
        bench.expect_free(&key, "an acquire with a bad lease makes no hold")?;
    }
    peer.sentinel(&bench.key("sentinel"))
}

/// F22
fn owner_0(bench: &mut Bench) -> Verdict {
    let [key, behind] = [bench.key("k"), bench.key("behind")];
    let mut peer = bench.peer()?;
    peer.send(&[wire::acquire(0, 30, 0, &key), wire::acquire(0, 30, 1, &behind)].concat())?;
    peer.expect_error("bad_request")?;
    peer.expect_closed()?;
    bench.expect_free(&key, "owner 0 is refused")?;
    bench.expect_free(&behind, "what stands behind is not executed")
}

fn owners_are_echoed(bench: &mut Bench) -> Verdict {
    let mut peer = bench.peer()?;
    let key = bench.key("k");
    for owner in [1, 0x0102_0304_0506_0708, 0xff00_0000_0000_0000, u64::MAX, 1 << 63] {
        let token = peer.take(20, owner, &key)?;
        let other = owner ^ 0xf0;
        peer.acquire(0, 20, other, &key)?;
        peer.expect(&Reply::TimedOut { owner: other, key: key.clone() })?;
        peer.give_back(token, &key)?;
    }
    Ok(())
}

/// L16
fn same_owner_again(bench: &mut Bench) -> Verdict {
    let mut peer = bench.peer()?;
    let (key, owner) = (bench.key("k"), bench.owner());
    peer.send(&wire::acquire(60, 60, owner, &key).repeat(2))?;
    let first = peer.granted(owner, &key)?;
    peer.sentinel(&bench.key("one-grant-only"))?;
    peer.acquire(0, 60, owner, &key)?;
    peer.expect(&Reply::TimedOut { owner, key: key.clone() })?;
    peer.release(first, &key)?;
    let released = Reply::Released { token: first, key: key.clone() };
    let mut second = None;
    for _ in 0..2 {
        match peer.hear("R, and A for the second request")? {
            Heard::Reply(reply) if reply == released => {}
            Heard::Reply(Reply::Acquired { token, .. }) if token > first => second = Some(token),
            other => return Err(Stop::failed(other.to_string(), "R, and A with a greater token")),
        }
    }
    match second {
        Some(token) => peer.give_back(token, &key),
        None => Err(Stop::failed("R twice", "R, and A for the second request")),
    }
}

fn expect_bad_key(peer: &mut Peer, key: &[u8]) -> Verdict {
    peer.acquire(0, 5, 1, key)?;
    peer.expect_error("bad_key")?;
    peer.release(1, key)?;
    peer.expect_error("bad_key")
}

/// F19
fn bad_keys(bench: &mut Bench) -> Verdict {
    let mut peer = bench.peer()?;
    let key = bench.key("k");
    let within = |before: &[u8], behind: &[u8]| [before, &key, behind].concat();
    for key in [
        Vec::new(),
        b" ".to_vec(),
        within(b"", b" "),
        within(b" ", b""),
        within(b"", b" k"),
        bench.key_of_len(129),
        bench.key_of_len(181),
    ] {
        expect_bad_key(&mut peer, &key)?;
    }
    peer.sentinel(&bench.key("sentinel"))
}

/// F13
fn not_utf_8(bench: &mut Bench) -> Verdict {
    let mut peer = bench.peer()?;
    for bad in [
        &b"\xc0\xaf"[..],
        b"\xe0\x80\xaf",
        b"\xf0\x80\x80\xaf",
        b"\xc0\x80",
        b"\xed\xa0\x80",
        b"\xed\xb0\x80",
        b"\xed\xa0\x80\xed\xb0\x80",
        b"\xf4\x90\x80\x80",
        b"\xf8\x88\x80\x80\x80",
        b"\x80",
        b"\xbf",
        b"\xfe",
        b"\xff",
        b"\xc1\xbf",
        b"\xe0\x9f\xbf",
        b"\xc3",
    ] {
        expect_bad_key(&mut peer, &[&bench.key(""), bad].concat())?;
    }
    peer.sentinel(&bench.key("sentinel"))
}

/// F13, F15
fn legal_keys(bench: &mut Bench) -> Verdict {
    let mut peer = bench.peer()?;
    let mut held = Vec::new();
    for text in [
        "\0",
        "\0b",
        "\r",
        "\t",
        "\u{a0}",
        "\u{feff}",
        "\u{fffe}",
        "\u{ffff}",
        "\u{10ffff}",
        "\u{d7ff}",
        "\u{e000}",
        "\u{7f}",
        "\u{1b}[1m",
    ] {
        let key = bench.key(text);
        held.push((peer.take(30, 1, &key)?, key));
    }
    held.iter().try_for_each(|(token, key)| peer.give_back(*token, key))
}

fn key_of_128_bytes(bench: &mut Bench) -> Verdict {
    let mut peer = bench.peer()?;
    let longest = bench.key_of_len(128);
    // Syllables of three bytes, to 128 bytes in all.
    let padding = (128 - bench.key("").len()) % 3;
    let mut syllables = bench.key(&"x".repeat(padding));
    while syllables.len() < 128 {
        syllables.extend("\u{ac00}".bytes());
    }
    for key in [longest, syllables.clone()] {
        peer.release(1, &key)?;
        peer.expect(&Reply::NotHeld { token: 1, key: key.clone() })?;
        let token = peer.take(20, 1, &key)?;
        peer.give_back(token, &key)?;
    }
    syllables.push(b'x');
    expect_bad_key(&mut peer, &syllables)
}

/// F18
fn keys_are_bytes(bench: &mut Bench) -> Verdict {
    let mut peer = bench.peer()?;
    let mut held = Vec::new();
    let plain = String::from_utf8_lossy(&bench.key("k")).into_owned();
    for key in [
        plain.clone(),
        plain.to_uppercase(),
        format!("\u{feff}{plain}"),
        format!("\t{plain}"),
        format!("{plain}\0"),
        format!("{plain}\u{e9}"),
        format!("{plain}e\u{301}"),
    ] {
        held.push((peer.take(30, 1, key.as_bytes())?, key));
    }
    held.iter().try_for_each(|(token, key)| peer.give_back(*token, key.as_bytes()))
}

/// L21
fn tokens_rise(bench: &mut Bench) -> Verdict {
    let mut peers = [bench.peer()?, bench.peer()?, bench.peer()?];
    let mut last = 0;
    for round in 0..20 {
        for (index, peer) in peers.iter_mut().enumerate() {
            let key = bench.key(if round % 2 == 0 { "same" } else { ["a", "b", "c"][index] });
            let token = peer.take(20, 1, &key)?;
            if token <= last {
                return Err(Stop::failed(
                    format!("token {token} after {last}"),
                    "a token above all before it",
                ));
            }
            last = token;
            peer.give_back(token, &key)?;
        }
    }
    Ok(())
}

/// F19
fn first_fault_counts(bench: &mut Bench) -> Verdict {
    let mut peer = bench.peer()?;
    peer.acquire(0, 0, 1, b"")?;
    peer.expect_error("bad_lease")?;
    peer.acquire(0, 251, 1, &bench.key_of_len(150))?;
    peer.expect_error("bad_lease")?;
    peer.acquire(0, 0, 0, b" ")?;
    peer.expect_error("bad_request")?;
    peer.expect_closed()
}
