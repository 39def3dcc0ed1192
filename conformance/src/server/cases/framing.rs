//! How bytes become frames.

use super::super::bench::Bench;
use crate::case::{Case, Verdict};

pub(super) const CASES: &[Case<Bench>] = &[Case::new(
    "framing/header-with-lf",
    &["FR-2", "TR-4"],
    "The fixed header is read by count: 0a in any of its bytes is no end of a frame.",
    header_with_lf,
)];

/// F02
fn header_with_lf(bench: &mut Bench) -> Verdict {
    let mut peer = bench.peer()?;
    let key = bench.key("all");
    peer.acquire(10, 10, 0x0a0a_0a0a_0a0a_0a0a, &key)?;
    peer.granted(0x0a0a_0a0a_0a0a_0a0a, &key)?;
    for at in 0..10 {
        let mut header = [1, 30, 1, 1, 1, 1, 1, 1, 1, 1];
        header[at] = b'\n';
        let key = bench.key(&at.to_string());
        let owner = header[2..].iter().fold(0, |owner, &byte| owner << 8 | u64::from(byte));
        peer.acquire(header[0], header[1], owner, &key)?;
        peer.granted(owner, &key)?;
    }
    Ok(())
}
