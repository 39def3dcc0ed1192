//! The vectors that a server has to refuse. The others name fixed keys, and would be executed.

use super::super::bench::Bench;
use crate::case::{Case, Failure, Stop, Verdict};
use crate::vectors::Vector;
use crate::wire::Reply;

pub(super) const CASES: &[Case<Bench>] = &[
    Case::new(
        "vectors/requests",
        &["FR-5", "FR-8", "FI-2", "FI-3", "FI-4", "ER-2", "ER-3", "ER-4", "ER-5", "ER-6"],
        "Each frame of vectors/requests.txt that is to be refused is refused, for its reason.",
        requests,
    ),
    Case::new(
        "vectors/responses",
        &["AU-1", "AU-4", "ER-3", "ER-4"],
        "Each malformed response of vectors/handshake.txt is refused, for its reason.",
        responses,
    ),
];

const REQUESTS: &str = include_str!("../../../vectors/requests.txt");
const HANDSHAKE: &str = include_str!("../../../vectors/handshake.txt");

fn requests(bench: &mut Bench) -> Verdict {
    let mut count = 0;
    for vector in Vector::parse(REQUESTS) {
        let mut refusals = Vec::new();
        let mut is_executed = false;
        for frame in vector.all("frame") {
            match frame.strip_prefix("refused ") {
                Some(reason) => refusals.push(reason),
                None => is_executed = true,
            }
        }
        let end = vector.one("end");
        if is_executed || end == "inside" || (refusals.is_empty() && end == "between") {
            continue;
        }
        count += 1;
        named(&vector, refuse(bench, &vector.stream(), &refusals, end.strip_prefix("fatal ")))?;
    }
    is_some(count)
}

fn refuse(bench: &mut Bench, stream: &[u8], refusals: &[&str], fatal: Option<&str>) -> Verdict {
    let mut peer = bench.peer()?;
    peer.send_meaning(stream, "the vector's bytes")?;
    for reason in refusals {
        peer.expect(&Reply::error(reason))?;
    }
    match fatal {
        Some(reason) => {
            peer.expect_error(reason)?;
            peer.expect_closed()
        }
        None => peer.sentinel(&bench.key("sentinel")),
    }
}

fn responses(bench: &mut Bench) -> Verdict {
    let mut count = 0;
    for vector in Vector::parse(HANDSHAKE) {
        let verdict = vector.one("verdict");
        if vector.one("side") == "server" && matches!(verdict, "bad_request" | "line_too_long") {
            count += 1;
            let refused = (|| {
                let mut peer = bench.stranger()?;
                peer.challenge()?;
                peer.send_meaning(&vector.stream(), "the vector's bytes")?;
                peer.expect_error(verdict)?;
                peer.expect_closed()
            })();
            named(&vector, refused)?;
        }
    }
    is_some(count)
}

/// Says which vector it was.
fn named(vector: &Vector<'_>, verdict: Verdict) -> Verdict {
    verdict.map_err(|stop| match stop {
        Stop::Failed(Failure { got, right }) => {
            Stop::Failed(Failure { got: format!("{got}, for the vector `{}`", vector.one("case")), right })
        }
        other => other,
    })
}

/// That the files had any such vector.
fn is_some(count: usize) -> Verdict {
    if count > 0 { Ok(()) } else { Err(Stop::failed("no vector", "vectors in the file")) }
}
