//! The cases, by room.

mod back_pressure;
mod closing;
mod fields;
mod framing;
mod handshake;
mod leases;
mod limits;
mod locks;
mod queue;
mod redirects;
mod tls;
mod vectors;

use super::bench::Bench;
use super::peer::{Heard, Peer};
use crate::case::{Case, Stop, Verdict};
use crate::wire::Reply;

/// All of them. Those of `limits` come first: they count what the server holds.
pub(super) fn all() -> impl Iterator<Item = Case<Bench>> {
    [
        handshake::CASES,
        framing::CASES,
        fields::CASES,
        locks::CASES,
        leases::CASES,
        queue::CASES,
        closing::CASES,
        back_pressure::CASES,
        limits::CASES,
        tls::CASES,
        redirects::CASES,
        vectors::CASES,
    ]
    .into_iter()
    .flatten()
    .copied()
}

/// Exactly these replies, in any order (`TR-6`).
fn expect_in_any_order(peer: &mut Peer, replies: impl IntoIterator<Item = Reply>) -> Verdict {
    let mut due: Vec<Reply> = replies.into_iter().collect();
    while let Some(one) = due.last() {
        let right = format!("{one}, and {} more", due.len() - 1);
        match peer.hear(&right)? {
            // The first of them is the likeliest.
            Heard::Reply(reply) => match due.iter().position(|due| *due == reply) {
                Some(at) => _ = due.remove(at),
                None => return Err(Stop::failed(reply.to_string(), right)),
            },
            over => return Err(Stop::failed(over.to_string(), right)),
        }
    }
    Ok(())
}
