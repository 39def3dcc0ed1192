//! What a TLS server does with those who speak none.

use std::time::{Duration, Instant};

use super::super::bench::Bench;
use super::super::peer::{Heard, Peer};
use crate::case::{Case, Stop, Verdict};

/// From accept to the end of authentication, TLS included (`TR-7`).
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

pub(super) const CASES: &[Case<Bench>] = &[
    Case::new(
        "tls/plain-text",
        &["TR-2", "TR-3"],
        "A client that speaks plain text to a TLS server is disconnected, and no plain text is said to it.",
        plain_text,
    )
    .slow(),
    Case::new(
        "tls/silence",
        &["TR-2", "TR-3", "TR-7"],
        "A TLS server says nothing to a client that is silent, and closes after 10 s.",
        silence,
    )
    .slow(),
];

/// N06
fn plain_text(bench: &mut Bench) -> Verdict {
    for text in [&b"GET / HTTP/1.1\r\n\r\n"[..], b"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA\n"] {
        let start = Instant::now();
        let mut peer = bench.beneath_tls()?;
        peer.send_meaning(text, "plain text")?;
        expect_disconnected(bench, &mut peer)?;
        bench.not_overdue(start, HANDSHAKE_TIMEOUT)?;
    }
    Ok(())
}

/// N04
fn silence(bench: &mut Bench) -> Verdict {
    let start = Instant::now();
    let mut peer = bench.beneath_tls()?;
    expect_disconnected(bench, &mut peer)?;
    bench.in_time("a close", start, HANDSHAKE_TIMEOUT, peer.heard_at())
}

/// The end, and before it nothing but a TLS alert.
fn expect_disconnected(bench: &Bench, peer: &mut Peer) -> Verdict {
    const ALERT: u8 = 0x15;
    const RIGHT: &str = "a close, perhaps with a TLS alert before it";
    match peer.hear_raw(HANDSHAKE_TIMEOUT + bench.settings().timeout, RIGHT)? {
        (bytes, Heard::End | Heard::Reset) if bytes.first().is_none_or(|&byte| byte == ALERT) => Ok(()),
        (bytes, _) => Err(Stop::failed(crate::transcript::readable(&bytes), RIGHT)),
    }
}
