//! `CA-11` and `CC-6`: callers that cancel, clients that are closed; and what results say of themselves.

use super::super::play::{Ask, Call, Ending, Play, millis, secs};
use super::super::stage::Greeting;
use super::super::timeline::Asked;
use crate::case::{Case, Stop, Verdict};

pub(super) const CASES: &[Case<Play>] = &[
    Case::new(
        "client/cancel/unsent",
        &["CA-11"],
        "An acquire that is cancelled before it was sent is never sent.",
        cancel_unsent,
    ),
    Case::new(
        "client/cancel/late-grant",
        &["CA-11", "CR-3"],
        "The grant of an acquire that was cancelled after it was sent is released at once; the connection stays open.",
        cancelled_grant,
    ),
    Case::new(
        "client/cancel/overdue",
        &["CA-11", "CA-5"],
        "A cancelled acquire that is unanswered at its deadline closes its connection, as any other does.",
        cancelled_and_overdue,
    ),
    Case::new(
        "client/close/unsent",
        &["CC-6"],
        "An acquire that is unsent when the client is closed ends as `closed`.",
        close_unsent,
    ),
    Case::new(
        "client/close/sent",
        &["CC-6", "CR-3"],
        "An acquire that was sent when the client is closed ends as `indeterminate`, and its late grant is released.",
        close_sent,
    ),
    Case::new(
        "client/close/new-acquires",
        &["CC-6"],
        "An acquire behind the close ends as `closed`, and nothing is sent.",
        close_and_acquire,
    ),
    Case::new(
        "client/close/releases-go-on",
        &["CC-6"],
        "Behind the close a ticket can still be released.",
        close_and_release,
    ),
    Case::new(
        "client/close/dropped-tickets",
        &["CC-6", "CR-3"],
        "A ticket that is dropped behind the close is released.",
        close_and_drop,
    ),
    Case::new(
        "client/close/ends-its-connections",
        &["CC-6"],
        "A closed client with nothing left to send ends all its connections.",
        close_ends_connections,
    ),
    Case::new(
        "client/close/later-releases",
        &["CC-6"],
        "5 s after the close a release is `unconfirmed`.",
        close_and_release_late,
    )
    .slow(),
    Case::new(
        "client/results/certain",
        &["CA-8", "CC-6", "CK-1"],
        "Of every result but `indeterminate` and `unconfirmed` a client can say that it is certain.",
        certain,
    )
    .should(),
    Case::new(
        "client/results/uncertain",
        &["CA-4", "CR-2"],
        "Of `indeterminate` and `unconfirmed` a client can say that they are not certain.",
        uncertain,
    )
    .should()
    .slow(),
];

/// An acquire that the server has.
fn sent(play: &mut Play) -> Result<(Call, Asked), Stop> {
    play.open_ready()?;
    let call = play.acquire(&Ask::new("k").wait(secs(60)).lease(secs(120)))?;
    let asked = play.asked_for("k")?;
    Ok((call, asked))
}

fn cancel_unsent(play: &mut Play) -> Verdict {
    play.open(&[Greeting::Silence])?;
    let peer = play.connected()?;
    let call = play.acquire(&Ask::new("k").wait(secs(60)))?;
    play.cancel(&call)?;
    play.stage.greet(peer);
    play.sentinel()?;
    play.never_asked("k")
}

fn cancelled_grant(play: &mut Play) -> Verdict {
    let (call, asked) = sent(play)?;
    play.cancel(&call)?;
    let token = play.grant(&asked);
    play.given_back(token, "k")?;
    play.sentinel()?;
    play.still_open(asked.peer)
}

fn cancelled_and_overdue(play: &mut Play) -> Verdict {
    play.open_ready()?;
    let call = play.acquire(&Ask::new("k").wait(secs(2)))?;
    let asked = play.asked_for("k")?;
    play.cancel(&call)?;
    let ended_at = play.ended(asked.peer)?;
    play.on_time("the connection is shut down", ended_at, call.at + secs(2))
}

fn close_unsent(play: &mut Play) -> Verdict {
    play.open(&[Greeting::Silence])?;
    play.connected()?;
    let call = play.acquire(&Ask::new("k").wait(secs(60)))?;
    let close = play.close()?;
    let ending = play.expect(&call, "closed")?;
    play.by("closed", ending.at, close.at)
}

fn close_sent(play: &mut Play) -> Verdict {
    let (call, asked) = sent(play)?;
    let close = play.close()?;
    let ending = play.expect(&call, "indeterminate")?;
    play.by("indeterminate", ending.at, close.at)?;
    let token = play.grant(&asked);
    play.given_back(token, "k").map(drop)
}

fn close_and_acquire(play: &mut Play) -> Verdict {
    play.open_ready()?;
    let (ticket, token) = play.hold("held")?;
    play.close()?;
    let call = play.acquire(&Ask::new("k").wait(secs(60)))?;
    play.expect(&call, "closed")?;
    // The release shows that nothing was sent before it.
    play.release(&ticket)?;
    play.given_back(token, "held")?;
    play.never_asked("k")
}

fn close_and_release(play: &mut Play) -> Verdict {
    play.open_ready()?;
    let (ticket, token) = play.hold("k")?;
    let close = play.close()?;
    play.pass_until(close.at + millis(1_500));
    let release = play.release(&ticket)?;
    let given_back = play.given_back(token, "k")?;
    play.confirm(&given_back);
    play.expect(&release, "released").map(drop)
}

fn close_and_drop(play: &mut Play) -> Verdict {
    play.open_ready()?;
    let (ticket, token) = play.hold("k")?;
    play.close()?;
    play.drop_ticket(&ticket)?;
    play.given_back(token, "k").map(drop)
}

fn close_ends_connections(play: &mut Play) -> Verdict {
    play.open(&[Greeting::Challenge])?;
    let peers = [play.responded()?, play.responded()?];
    let close = play.close()?;
    for peer in peers {
        let ended_at = play.ended(peer)?;
        play.by("the connection is ended", ended_at, close.at)?;
    }
    play.expect(&close, "closed").map(drop)
}

fn close_and_release_late(play: &mut Play) -> Verdict {
    play.open_ready()?;
    let (ticket, token) = play.hold("k")?;
    let close = play.close()?;
    // The call came a little later than `close.at`.
    play.pass_until(close.at + millis(6_500));
    let release = play.release(&ticket)?;
    play.expect(&release, "unconfirmed")?;
    play.never_given_back(token)
}

fn certain(play: &mut Play) -> Verdict {
    play.open_ready()?;
    let call = play.acquire(&Ask::new("k").wait(secs(60)))?;
    let asked = play.asked_for("k")?;
    play.time_out(&asked);
    says(&play.expect(&call, "timeout")?, true)?;
    let call = play.acquire(&Ask::new("k").wait(secs(60)))?;
    let asked = play.asked_for("k")?;
    play.refuse(&asked);
    says(&play.expect(&call, "busy")?, true)?;
    let call = play.acquire(&Ask::new("").wait(secs(60)))?;
    says(&play.expect(&call, "invalid_key")?, true)?;
    let call = play.acquire(&Ask::new("k").wait(secs(256)))?;
    says(&play.expect(&call, "unsupported_duration")?, true)?;
    let call = play.acquire(&Ask::new("k").lease(secs(1)).budget(secs(2)))?;
    says(&play.expect(&call, "insufficient_lease")?, true)?;
    play.close()?;
    let call = play.acquire(&Ask::new("k").wait(secs(60)))?;
    says(&play.expect(&call, "closed")?, true)
}

fn uncertain(play: &mut Play) -> Verdict {
    play.open_ready()?;
    let (ticket, token) = play.hold("held")?;
    let release = play.release(&ticket)?;
    play.given_back(token, "held")?;
    let (call, asked) = {
        let call = play.acquire(&Ask::new("k").wait(secs(60)))?;
        (call, play.asked_for("k")?)
    };
    // The release over the same connection, if it was so, is sent again and stays unanswered.
    play.stage.close(asked.peer);
    says(&play.expect(&call, "indeterminate")?, false)?;
    says(&play.expect(&release, "unconfirmed")?, false)
}

fn says(ending: &Ending, certain: bool) -> Verdict {
    match ending.answer.certain {
        Some(said) if said == certain => Ok(()),
        said => Err(Stop::failed(
            format!("{} says certain: {said:?}", ending.answer.result),
            format!("certain: {certain}"),
        )),
    }
}
