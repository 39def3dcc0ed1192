//! `CA-7` and `CA-12`: answers behind the deadline.

use super::super::play::{Ask, Play, millis, secs};
use super::super::stage::Greeting;
use crate::case::{Case, Verdict};

pub(super) const CASES: &[Case<Play>] = &[
    Case::new(
        "client/grace/timeout-is-certain",
        &["CA-12", "CA-8"],
        "With `response_grace` a sent acquire waits past its deadline for a definite answer: a `T` then is `timeout`.",
        timeout_is_certain,
    ),
    Case::new(
        "client/grace/grant-is-late",
        &["CA-7", "CA-12", "CR-3"],
        "A grant behind the deadline makes no ticket, grace or not: exactly its token is released, the connection \
         stays open, and the result is `indeterminate`.",
        |play| grant_is_late(play, &Ask::new("k").wait(secs(1)).lease(secs(60)).grace(secs(9))),
    ),
    Case::new(
        "client/grace/late-grant-with-too-little-left",
        &["CA-7"],
        "A grant behind the deadline is `indeterminate` also where too little of its lease is left.",
        |play| {
            grant_is_late(play, &Ask::new("k").wait(secs(1)).lease(secs(2)).budget(secs(2)).grace(secs(9)))
        },
    ),
    Case::new(
        "client/grace/ends",
        &["CA-12", "CA-4"],
        "Without an answer until the end of the grace the result is `indeterminate`, then and not before, and the \
         connection is closed.",
        ends,
    ),
    Case::new(
        "client/grace/is-not-for-unsent",
        &["CA-12", "CA-4"],
        "`response_grace` is for what was sent: an unsent acquire ends as `timeout` at its deadline.",
        is_not_for_unsent,
    ),
    Case::new(
        "client/grace/out-of-range",
        &["CA-12"],
        "A `response_grace` above 10 s is an error before anything is sent.",
        out_of_range,
    ),
];

fn timeout_is_certain(play: &mut Play) -> Verdict {
    play.open_ready()?;
    let call = play.acquire(&Ask::new("k").wait(secs(1)).grace(secs(9)))?;
    let asked = play.asked_for("k")?;
    play.pass_until(call.at + millis(3_500));
    play.time_out(&asked);
    play.expect(&call, "timeout").map(drop)
}

fn grant_is_late(play: &mut Play, ask: &Ask) -> Verdict {
    play.open_ready()?;
    let call = play.acquire(ask)?;
    let asked = play.asked_for("k")?;
    // The call came a little later than `call.at`; so did its deadline.
    play.pass_until(call.at + millis(3_500));
    let token = play.grant(&asked);
    play.expect(&call, "indeterminate")?;
    let given_back = play.given_back(token, "k")?;
    play.confirm(&given_back);
    play.sentinel()?;
    play.still_open(asked.peer)
}

fn ends(play: &mut Play) -> Verdict {
    play.open_ready()?;
    let call = play.acquire(&Ask::new("k").wait(secs(1)).grace(secs(3)))?;
    let asked = play.asked_for("k")?;
    let ending = play.expect(&call, "indeterminate")?;
    play.on_time("indeterminate", ending.at, call.at + secs(4))?;
    play.ended(asked.peer).map(drop)
}

fn is_not_for_unsent(play: &mut Play) -> Verdict {
    play.open(&[Greeting::Silence])?;
    play.connected()?;
    let call = play.acquire(&Ask::new("k").wait(secs(1)).grace(secs(8)))?;
    let ending = play.expect(&call, "timeout")?;
    play.on_time("timeout", ending.at, call.at + secs(1))
}

fn out_of_range(play: &mut Play) -> Verdict {
    play.open_ready()?;
    let call = play.acquire(&Ask::new("k").wait(secs(30)).grace(millis(10_001)))?;
    play.expect(&call, "unsupported_duration")?;
    play.sentinel()?;
    play.never_asked("k")
}
