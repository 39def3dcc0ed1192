//! `CR`: how locks are given back.

use super::super::play::{Ask, Call, Play, secs};
use super::super::stage::Greeting;
use super::super::timeline::{Event, GivenBack};
use crate::case::{Case, Stop, Verdict};
use crate::wire::Reply;

pub(super) const CASES: &[Case<Play>] = &[
    Case::new("client/release/released", &["CR-2", "OP-5"], "`R` is `released`.", |play| {
        let (release, given_back) = released(play)?;
        play.confirm(&given_back);
        play.expect(&release, "released").map(drop)
    }),
    Case::new("client/release/not-held", &["CR-2", "OP-5"], "`N` is `not_held`.", |play| {
        let (release, GivenBack { peer, token, key, .. }) = released(play)?;
        play.stage.reply(peer, &Reply::NotHeld { token, key });
        play.expect(&release, "not_held").map(drop)
    }),
    Case::new(
        "client/release/whole-token",
        &["FI-6", "TR-4"],
        "Tokens are u64: one near the top is handed over, and released, digit by digit.",
        whole_token,
    ),
    Case::new(
        "client/release/sent-again",
        &["CR-2", "CR-1"],
        "A release whose connection is lost before the answer is sent again over another one.",
        sent_again,
    ),
    Case::new(
        "client/release/unconfirmed",
        &["CR-1", "CR-2"],
        "A release that is not answered is `unconfirmed` after 5 s.",
        |play| {
            let (release, _) = released(play)?;
            let ending = play.expect(&release, "unconfirmed")?;
            play.on_time("unconfirmed", ending.at, release.at + secs(5))
        },
    )
    .slow(),
    Case::new(
        "client/release/time-includes-retries",
        &["CR-1"],
        "The 5 s of a release are absolute: connections that are lost meanwhile, and retries, are part of them.",
        time_includes_retries,
    )
    .slow(),
    Case::new(
        "client/release/dropped-ticket",
        &["CR-3"],
        "A ticket that is dropped is released.",
        |play| {
            play.open_ready()?;
            let (ticket, token) = play.hold("k")?;
            play.drop_ticket(&ticket)?;
            play.given_back(token, "k").map(drop)
        },
    ),
    Case::new(
        "client/release/dropped-ticket-is-sent-again",
        &["CR-3"],
        "Also the release of a dropped ticket is sent again when its connection is lost.",
        |play| {
            play.open_ready()?;
            let (ticket, token) = play.hold("k")?;
            play.drop_ticket(&ticket)?;
            let first = play.given_back(token, "k")?;
            play.stage.close(first.peer);
            play.given_back(token, "k").map(drop)
        },
    ),
    Case::new(
        "client/release/before-acquires",
        &["CR-4"],
        "Releases are sent before acquires, also before those that were asked for earlier.",
        before_acquires,
    ),
    Case::new(
        "client/release/not-starved",
        &["CR-4", "CC-5"],
        "A release is sent also while as many acquires are in flight as may be.",
        not_starved,
    ),
];

fn released(play: &mut Play) -> Result<(Call, GivenBack), Stop> {
    play.open_ready()?;
    let (ticket, token) = play.hold("k")?;
    let release = play.release(&ticket)?;
    let given_back = play.given_back(token, "k")?;
    Ok((release, given_back))
}

fn whole_token(play: &mut Play) -> Verdict {
    const TOKEN: u64 = u64::MAX - 1;
    play.open_ready()?;
    let call = play.acquire(&Ask::new("k").wait(secs(60)).lease(secs(120)))?;
    let asked = play.asked_for("k")?;
    play.grant_with(&asked, TOKEN);
    play.expect_ticket(&call, TOKEN)?;
    play.release(&call)?;
    play.given_back(TOKEN, "k").map(drop)
}

fn sent_again(play: &mut Play) -> Verdict {
    let (release, first) = released(play)?;
    play.stage.close(first.peer);
    let again = play.given_back(first.token, "k")?;
    play.confirm(&again);
    play.expect(&release, "released").map(drop)
}

fn time_includes_retries(play: &mut Play) -> Verdict {
    let (release, first) = released(play)?;
    play.pass_until(release.at + secs(2));
    play.stage.close(first.peer);
    let second = play.given_back(first.token, "k")?;
    play.pass_until(release.at + secs(4));
    play.stage.close(second.peer);
    let ending = play.expect(&release, "unconfirmed")?;
    play.on_time("unconfirmed", ending.at, release.at + secs(5))
}

fn before_acquires(play: &mut Play) -> Verdict {
    let first = play.open_narrow()?;
    let (ticket, token) = play.hold("k")?;
    play.stage.close(first);
    play.ended(first)?;
    for key in ["a", "b", "c"] {
        play.acquire(&Ask::new(key).wait(secs(60)))?;
    }
    play.release(&ticket)?;
    play.pass(secs(1));
    let next = play.connected()?;
    play.stage.greet(next);
    let (_, is_release) = play.take("a request", |event| match event {
        Event::GivenBack(given_back) => Some(given_back.token == token),
        Event::Asked(_) => Some(false),
        _ => None,
    })?;
    if is_release { Ok(()) } else { Err(Stop::failed("an acquire goes first", "the release goes first")) }
}

fn not_starved(play: &mut Play) -> Verdict {
    play.open_with(&[Greeting::Challenge], Some(1))?;
    play.responded()?;
    let (ticket, token) = play.hold("k")?;
    play.acquire(&Ask::new("waits").wait(secs(60)))?;
    play.asked_for("waits")?;
    let release = play.release(&ticket)?;
    let given_back = play.given_back(token, "k")?;
    play.confirm(&given_back);
    play.expect(&release, "released").map(drop)
}
