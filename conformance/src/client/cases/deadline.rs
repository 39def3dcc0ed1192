//! `CA-1` to `CA-6`: one deadline, and what becomes of a request there.

use std::time::{Duration, Instant};

use super::super::play::{Ask, Play, millis, secs};
use super::super::stage::Greeting;
use super::super::timeline::Peer;
use crate::case::{Case, Stop, Verdict};

pub(super) const CASES: &[Case<Play>] = &[
    Case::new(
        "client/deadline/late-connection",
        &["CA-1", "CA-2"],
        "A connection that is ready late does not restart the wait: the frame carries what is left of it, rounded up.",
        late_connection,
    ),
    Case::new(
        "client/deadline/unsent",
        &["CA-4", "CA-1"],
        "At the deadline an unsent request ends as `timeout`.",
        unsent,
    ),
    Case::new(
        "client/deadline/sent",
        &["CA-4"],
        "At the deadline a request that may have been sent ends as `indeterminate`.",
        sent,
    ),
    Case::new(
        "client/deadline/closes-exactly-that-connection",
        &["CA-4", "CA-5"],
        "At the deadline of a sent request, writing is shut down on exactly its connection.",
        closes_exactly_that_connection,
    ),
    Case::new(
        "client/deadline/grant-while-closing",
        &["CA-5", "CR-3"],
        "A grant for the overdue request that comes while its connection is closed is released over another one.",
        grant_while_closing,
    ),
    Case::new(
        "client/deadline/others-while-closing",
        &["CA-5"],
        "What the server had under way for others on that connection is read and counts.",
        others_while_closing,
    ),
    Case::new(
        "client/deadline/closing-is-bounded",
        &["CA-5"],
        "A connection that is closed is read for 2 s at most; then what is unanswered is `indeterminate`.",
        closing_is_bounded,
    ),
    Case::new(
        "client/deadline/side-stays-open",
        &["TR-10", "TR-5"],
        "A client that waits for a lock keeps its side of the connection open.",
        side_stays_open,
    ),
    Case::new(
        "client/deadline/wait-of-zero",
        &["CA-6"],
        "A wait of 0 is 0 in the frame, also when the connection took 2 s of its transport's 5 s.",
        wait_of_zero,
    ),
    Case::new(
        "client/deadline/wait-of-zero-unsent",
        &["CA-6", "CA-4"],
        "An acquire with a wait of 0 that stays unsent ends as `timeout` after 5 s.",
        wait_of_zero_unsent,
    )
    .slow(),
    Case::new(
        "client/deadline/wait-of-zero-sent",
        &["CA-6", "CA-4"],
        "An acquire with a wait of 0 that stays unanswered ends as `indeterminate` after 5 s.",
        wait_of_zero_sent,
    )
    .slow(),
];

/// Of the 2 s for which a connection that is closed is read, what is left for the client.
const READING: Duration = secs(1);

fn late_connection(play: &mut Play) -> Verdict {
    play.open(&[Greeting::Silence])?;
    let peer = play.connected()?;
    let call = play.acquire(&Ask::new("k").wait(secs(10)))?;
    play.pass(millis(3_500));
    let greeted_at = Instant::now();
    play.stage.greet(peer);
    let asked = play.asked_for("k")?;
    play.wait_is_what_remained(&asked, &call, secs(10), greeted_at)?;
    let token = play.grant(&asked);
    play.expect_ticket(&call, token).map(drop)
}

fn unsent(play: &mut Play) -> Verdict {
    play.open(&[Greeting::Silence])?;
    play.connected()?;
    let call = play.acquire(&Ask::new("k").wait(secs(2)))?;
    let ending = play.expect(&call, "timeout")?;
    play.on_time("timeout", ending.at, call.at + secs(2))
}

fn sent(play: &mut Play) -> Verdict {
    play.open_ready()?;
    let call = play.acquire(&Ask::new("k").wait(secs(2)))?;
    play.asked_for("k")?;
    let ending = play.expect(&call, "indeterminate")?;
    play.on_time("indeterminate", ending.at, call.at + secs(2))
}

fn closes_exactly_that_connection(play: &mut Play) -> Verdict {
    play.open(&[Greeting::Challenge])?;
    let peers = [play.responded()?, play.responded()?];
    let call = play.acquire(&Ask::new("k").wait(secs(2)))?;
    let overdue = play.asked_for("k")?.peer;
    let ended_at = play.ended(overdue)?;
    play.on_time("the connection is shut down", ended_at, call.at + secs(2))?;
    play.sentinel()?;
    peers.into_iter().filter(|&peer| peer != overdue).try_for_each(|peer| play.still_open(peer))
}

fn grant_while_closing(play: &mut Play) -> Verdict {
    play.open_ready()?;
    let call = play.acquire(&Ask::new("k").wait(secs(1)))?;
    let asked = play.asked_for("k")?;
    let ended_at = play.ended(asked.peer)?;
    let token = play.grant(&asked);
    play.in_time(ended_at, READING)?;
    play.expect(&call, "indeterminate")?;
    let given_back = play.given_back(token, "k")?;
    match given_back.peer == asked.peer {
        true => Err(Stop::failed("a release over the connection that is shut down", "over another one")),
        false => Ok(()),
    }
}

/// One connection with an overdue request, and another request that has time.
fn overdue_and_other(play: &mut Play) -> Result<(Overdue, super::super::play::Call), Stop> {
    let peer = play.open_narrow()?;
    let overdue = play.acquire(&Ask::new("overdue").wait(secs(1)))?;
    play.asked_for("overdue")?;
    let other = play.acquire(&Ask::new("other").wait(secs(40)).lease(secs(60)))?;
    let asked = play.asked_for("other")?;
    play.expect(&overdue, "indeterminate")?;
    let ended_at = play.ended(peer)?;
    Ok((Overdue { peer, ended_at, asked }, other))
}

struct Overdue {
    peer: Peer,
    ended_at: Instant,
    asked: super::super::timeline::Asked,
}

fn others_while_closing(play: &mut Play) -> Verdict {
    let (overdue, other) = overdue_and_other(play)?;
    let token = play.grant(&overdue.asked);
    play.stage.close(overdue.peer);
    play.in_time(overdue.ended_at, READING)?;
    play.expect_ticket(&other, token).map(drop)
}

fn closing_is_bounded(play: &mut Play) -> Verdict {
    let (overdue, other) = overdue_and_other(play)?;
    let ending = play.expect(&other, "indeterminate")?;
    play.by("indeterminate", ending.at, overdue.ended_at + secs(2))
}

fn side_stays_open(play: &mut Play) -> Verdict {
    play.open_ready()?;
    let call = play.acquire(&Ask::new("k").wait(secs(20)))?;
    let asked = play.asked_for("k")?;
    play.pass(secs(3));
    play.still_open(asked.peer)?;
    let token = play.grant(&asked);
    play.expect_ticket(&call, token).map(drop)
}

fn wait_of_zero(play: &mut Play) -> Verdict {
    play.open(&[Greeting::Silence])?;
    let peer = play.connected()?;
    let call = play.acquire(&Ask::new("k").wait(secs(0)))?;
    play.pass(secs(2));
    play.stage.greet(peer);
    let asked = play.asked_for("k")?;
    if asked.wait != 0 {
        return Err(Stop::failed(format!("wait {} s in the frame", asked.wait), "0 s"));
    }
    let token = play.grant(&asked);
    play.expect_ticket(&call, token).map(drop)
}

fn wait_of_zero_unsent(play: &mut Play) -> Verdict {
    play.open(&[Greeting::Silence])?;
    play.connected()?;
    let call = play.acquire(&Ask::new("k").wait(secs(0)))?;
    let ending = play.expect(&call, "timeout")?;
    play.on_time("timeout", ending.at, call.at + secs(5))
}

fn wait_of_zero_sent(play: &mut Play) -> Verdict {
    play.open_ready()?;
    let call = play.acquire(&Ask::new("k").wait(secs(0)))?;
    play.asked_for("k")?;
    let ending = play.expect(&call, "indeterminate")?;
    play.on_time("indeterminate", ending.at, call.at + secs(5))
}
