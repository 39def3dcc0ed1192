//! `CA-3`, `CA-8`, `CA-9`, `CA-13`: what an answer is worth, and the lack of one.

use super::super::play::{Ask, Call, Play, secs};
use super::super::stage::Greeting;
use super::super::timeline::Asked;
use crate::case::{Case, Stop, Verdict};
use crate::wire::{Message as _, Reply};

pub(super) const CASES: &[Case<Play>] = &[
    Case::new(
        "client/certainty/granted",
        &["OP-1", "CA-8"],
        "An `A` in time makes a ticket with its token.",
        granted,
    ),
    Case::new("client/certainty/timed-out", &["CA-8", "OP-4"], "A `T` is `timeout`.", |play| {
        let (call, asked) = sent(play)?;
        play.time_out(&asked);
        play.expect(&call, "timeout").map(drop)
    }),
    Case::new("client/certainty/busy", &["CA-8", "OP-4"], "A `B` is `busy`.", |play| {
        let (call, asked) = sent(play)?;
        play.refuse(&asked);
        play.expect(&call, "busy").map(drop)
    }),
    Case::new(
        "client/certainty/closed-after-the-send",
        &["CA-9", "CA-3"],
        "A connection that the server closes after the send and before the answer: `indeterminate`, and the request \
         is not sent again.",
        |play| {
            let (call, asked) = sent(play)?;
            play.stage.close(asked.peer);
            lost(play, &call)
        },
    ),
    Case::new(
        "client/certainty/reset-after-the-send",
        &["CA-9", "CA-3"],
        "A connection that is reset after the send and before the answer: `indeterminate`, and the request is not \
         sent again.",
        |play| {
            let (call, asked) = sent(play)?;
            play.stage.reset(asked.peer);
            lost(play, &call)
        },
    ),
    Case::new(
        "client/certainty/never-sent-again-at-the-deadline",
        &["CA-3"],
        "A request that was sent and is overdue is not sent again.",
        |play| {
            play.open_ready()?;
            let call = play.acquire(&Ask::new("k").wait(secs(1)))?;
            play.asked_for("k")?;
            play.ending(&call)?;
            play.sentinel()?;
            play.never_asked("k")
        },
    ),
    Case::new(
        "client/certainty/answer-before-the-close",
        &["CA-9"],
        "An answer that came before the connection ended counts.",
        |play| {
            let (call, asked) = sent(play)?;
            let token = play.grant(&asked);
            play.stage.close(asked.peer);
            play.expect_ticket(&call, token).map(drop)
        },
    ),
    Case::new(
        "client/certainty/half-an-answer",
        &["CA-9", "FR-7"],
        "A grant whose LF did not come before the connection ended is none: `indeterminate`.",
        |play| {
            let (call, asked) = sent(play)?;
            let grant = Reply::Acquired { token: play.token(), owner: asked.owner, key: asked.key };
            let mut bytes = grant.encode();
            bytes.pop();
            play.stage.say(asked.peer, &bytes, "a grant without its LF");
            play.stage.close(asked.peer);
            play.expect(&call, "indeterminate").map(drop)
        },
    ),
    Case::new(
        "client/certainty/unsent-goes-elsewhere",
        &["CA-3", "CA-1"],
        "A request that is unsent when one node goes away goes out over another node's connection.",
        unsent_goes_elsewhere,
    ),
    Case::new(
        "client/certainty/grant-to-an-unknown-owner",
        &["CA-13", "FR-10"],
        "A grant that fits no request is a protocol error: its token is released, and its connection ended.",
        |play| {
            let (call, asked) = sent(play)?;
            let token = play.token();
            play.grant_with(&Asked { owner: asked.owner ^ 0x5555, ..asked.clone() }, token);
            unasked(play, &call, &asked, token, "k")
        },
    ),
    Case::new(
        "client/certainty/grant-of-another-key",
        &["CA-13", "FR-10"],
        "A grant of another key than was asked for fits no request: its token is released, and its connection ended.",
        |play| {
            let (call, asked) = sent(play)?;
            let token = play.token();
            play.grant_with(&Asked { key: b"another".to_vec(), ..asked.clone() }, token);
            unasked(play, &call, &asked, token, "another")
        },
    ),
    Case::new(
        "client/certainty/unasked-grant-of-a-live-ticket",
        &["CA-13"],
        "A grant that fits no request and has a live ticket's token ends its connection; the ticket is not released.",
        unasked_grant_of_a_live_ticket,
    ),
];

fn granted(play: &mut Play) -> Verdict {
    let (call, asked) = sent(play)?;
    let token = play.grant(&asked);
    play.expect_ticket(&call, token).map(drop)
}

/// An acquire with much time that the server has.
fn sent(play: &mut Play) -> Result<(Call, Asked), Stop> {
    play.open_ready()?;
    let call = play.acquire(&Ask::new("k").wait(secs(60)).lease(secs(120)))?;
    let asked = play.asked_for("k")?;
    Ok((call, asked))
}

fn lost(play: &mut Play, call: &Call) -> Verdict {
    play.expect(call, "indeterminate")?;
    play.sentinel()?;
    play.never_asked("k")
}

fn unasked(play: &mut Play, call: &Call, asked: &Asked, token: u64, key: &str) -> Verdict {
    play.given_back(token, key)?;
    play.ended(asked.peer)?;
    play.expect(call, "indeterminate").map(drop)
}

fn unsent_goes_elsewhere(play: &mut Play) -> Verdict {
    play.open(&[Greeting::Silence, Greeting::Silence])?;
    let (one, other) = (play.connected()?, play.connected()?);
    let call = play.acquire(&Ask::new("k").wait(secs(60)).lease(secs(120)))?;
    play.stage.close(one);
    play.ended(one)?;
    play.stage.greet(other);
    let asked = play.asked_for("k")?;
    let token = play.grant(&asked);
    play.expect_ticket(&call, token).map(drop)
}

fn unasked_grant_of_a_live_ticket(play: &mut Play) -> Verdict {
    play.open_ready()?;
    let (_, token) = play.hold("held")?;
    play.acquire(&Ask::new("k").wait(secs(60)))?;
    let asked = play.asked_for("k")?;
    play.grant_with(&Asked { owner: asked.owner ^ 0x5555, key: b"held".to_vec(), ..asked.clone() }, token);
    play.ended(asked.peer)?;
    play.sentinel()?;
    play.never_given_back(token)
}
