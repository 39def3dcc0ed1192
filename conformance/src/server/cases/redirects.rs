//! What only a cluster says.

use super::super::bench::Bench;
use crate::case::{Case, Stop, Verdict};

pub(super) const CASES: &[Case<Bench>] = &[Case::new(
    "redirects/single-server-sends-none",
    &["RD-3", "RD-1"],
    "A single server sends neither `M` nor `L`, also not right after authentication.",
    single_server_sends_none,
)];

fn single_server_sends_none(bench: &mut Bench) -> Verdict {
    if bench.settings().is_cluster {
        return Err(Stop::not_run("the server is part of a cluster"));
    }
    let mut peer = bench.peer()?;
    peer.sentinel(&bench.key("first"))?;
    let key = bench.key("k");
    let token = peer.take(20, 1, &key)?;
    peer.give_back(token, &key)?;
    peer.sentinel(&bench.key("last"))?;
    match peer.has_heard_leader() {
        false => Ok(()),
        true => Err(Stop::failed("L", "a single server has no leader to speak of")),
    }
}
