//! `FR` and `ER` for clients: what they send, and what they make of what comes.

use std::collections::BTreeSet;

use super::super::play::{Ask, Call, Play, secs};
use super::super::timeline::{Asked, Event};
use crate::case::{Case, Stop, Verdict};
use crate::wire::{Message as _, Reply};

pub(super) const CASES: &[Case<Play>] = &[
    Case::new(
        "client/frames/requests",
        &["FR-1", "TR-4", "FI-2", "FI-3"],
        "An acquire's frame has the wait, the lease, an owner that is not 0, and the key that was asked for.",
        requests,
    ),
    Case::new(
        "client/frames/header-with-lf",
        &["FR-2"],
        "A header is read by count: a token of bytes `0a` is a token.",
        header_with_lf,
    ),
    Case::new(
        "client/frames/byte-by-byte",
        &["FR-2", "FR-1"],
        "A reply that comes byte by byte is the same reply.",
        byte_by_byte,
    ),
    Case::new("client/frames/empty", &["FR-4"], "Empty frames are ignored, wherever they stand.", empty),
    Case::new(
        "client/frames/several-at-once",
        &["TR-6", "FR-1"],
        "Replies may come in another order than the requests, and several in one segment.",
        several_at_once,
    ),
    Case::new("client/frames/unknown-op", &["FR-10"], "An unknown op is fatal for the connection.", |play| {
        fatal(play, b"Z\n")
    }),
    Case::new(
        "client/frames/oversized",
        &["FR-10", "FR-5"],
        "A frame of 193 bytes without LF is fatal for the connection, with that byte.",
        |play| fatal(play, &[b'E'; 193]),
    ),
    Case::new(
        "client/frames/unknown-reason",
        &["FR-10"],
        "An `E` with a reason that is not in the table is fatal for the connection.",
        |play| fatal(play, b"Esomething\n"),
    ),
    Case::new(
        "client/frames/error-of-the-connection",
        &["FR-10", "ER-4"],
        "An `E` that fits no request, such as `line_too_long`, is fatal for the connection.",
        |play| fatal(play, b"Eline_too_long\n"),
    ),
    Case::new(
        "client/frames/zero-token",
        &["FR-10", "FI-6"],
        "A grant with token 0 is malformed, and fatal for the connection.",
        |play| fatal_grant(play, 0, None),
    ),
    Case::new(
        "client/frames/bad-key",
        &["FR-10", "FI-4"],
        "A grant whose key is none is malformed, and fatal for the connection.",
        |play| fatal_grant(play, 7, Some(b"a key")),
    ),
    Case::new(
        "client/frames/nothing-behind-a-bad-one",
        &["FR-10"],
        "Behind a malformed frame nothing is looked at: a client does not go on at the next LF.",
        nothing_behind_a_bad_one,
    ),
    Case::new(
        "client/frames/correlated-error",
        &["ER-5", "ER-6"],
        "`bad_key` and `bad_lease` are the answer to the only request in flight on the connection: `rejected`; the \
         connection stays open.",
        correlated_error,
    ),
    Case::new(
        "client/frames/uncorrelated-error",
        &["FR-10", "ER-5"],
        "With two requests in flight on the connection `bad_key` fits neither: it is fatal, and both are \
         `indeterminate`.",
        uncorrelated_error,
    ),
    Case::new(
        "client/owners/distinct",
        &["CO-1", "FI-3", "TR-6"],
        "Owners in flight at once are distinct and not 0, over all connections, and answers find their requests.",
        distinct_owners,
    ),
    Case::new(
        "client/owners/not-used-again",
        &["CO-1", "CA-11"],
        "The owners of acquires that were cancelled, and may still be answered, are not given again.",
        owners_are_not_used_again,
    ),
];

/// An acquire that the server has.
fn sent(play: &mut Play) -> Result<(Call, Asked), Stop> {
    play.open_ready()?;
    let call = play.acquire(&Ask::new("k").wait(secs(60)).lease(secs(120)))?;
    let asked = play.asked_for("k")?;
    Ok((call, asked))
}

fn acquired(asked: &Asked, token: u64) -> Vec<u8> {
    Reply::Acquired { token, owner: asked.owner, key: asked.key.clone() }.encode()
}

fn requests(play: &mut Play) -> Verdict {
    play.open_ready()?;
    play.acquire(&Ask::new("a:key/with\u{a0}more").wait(secs(200)).lease(secs(10)))?;
    let asked = play.asked()?;
    let is_right = asked.key == "a:key/with\u{a0}more".as_bytes()
        && asked.lease == 10
        && (190..=200).contains(&asked.wait)
        && asked.owner != 0;
    if is_right {
        return Ok(());
    }
    let Asked { wait, lease, owner, key, .. } = asked;
    Err(Stop::failed(
        format!("wait {wait}, lease {lease}, owner {owner}, key {}", key.escape_ascii()),
        "wait 200, lease 10, any owner but 0, and the key",
    ))
}

fn header_with_lf(play: &mut Play) -> Verdict {
    const TOKEN: u64 = 0x0a0a_0a0a_0a0a_0a0a;
    let (call, asked) = sent(play)?;
    play.grant_with(&asked, TOKEN);
    play.expect_ticket(&call, TOKEN).map(drop)
}

fn byte_by_byte(play: &mut Play) -> Verdict {
    let (call, asked) = sent(play)?;
    let token = play.token();
    for byte in acquired(&asked, token) {
        play.stage.say(asked.peer, &[byte], "a byte of a grant");
        std::thread::sleep(std::time::Duration::from_millis(2));
    }
    play.expect_ticket(&call, token).map(drop)
}

fn empty(play: &mut Play) -> Verdict {
    let (call, asked) = sent(play)?;
    let token = play.token();
    let bytes = [b"\n\n\n", &acquired(&asked, token)[..], b"\n"].concat();
    play.stage.say(asked.peer, &bytes, "a grant between empty frames");
    play.expect_ticket(&call, token)?;
    play.sentinel()?;
    play.still_open(asked.peer)
}

fn several_at_once(play: &mut Play) -> Verdict {
    play.open_narrow()?;
    let keys = ["a", "b", "c"];
    let mut calls = Vec::new();
    for key in keys {
        calls.push(play.acquire(&Ask::new(key).wait(secs(60)).lease(secs(120)))?);
    }
    let asked = keys.iter().map(|key| play.asked_for(key)).collect::<Result<Vec<_>, _>>()?;
    let tokens: Vec<_> = keys.iter().map(|_| play.token()).collect();
    let grants: Vec<u8> =
        asked.iter().zip(&tokens).rev().flat_map(|(asked, &token)| acquired(asked, token)).collect();
    play.stage.say(asked[0].peer, &grants, "three grants, last request first");
    calls.iter().zip(tokens).try_for_each(|(call, token)| play.expect_ticket(call, token).map(drop))
}

fn fatal(play: &mut Play, bytes: &[u8]) -> Verdict {
    let (call, asked) = sent(play)?;
    is_fatal(play, &call, &asked, bytes)
}

fn is_fatal(play: &mut Play, call: &Call, asked: &Asked, bytes: &[u8]) -> Verdict {
    play.stage.say(asked.peer, bytes, "what no server may send");
    play.ended(asked.peer)?;
    play.expect(call, "indeterminate")?;
    play.sentinel()
}

fn fatal_grant(play: &mut Play, token: u64, key: Option<&[u8]>) -> Verdict {
    let (call, asked) = sent(play)?;
    let key = key.map_or_else(|| asked.key.clone(), <[u8]>::to_vec);
    let grant = Reply::Acquired { token, owner: asked.owner, key }.encode();
    is_fatal(play, &call, &asked, &grant)
}

fn nothing_behind_a_bad_one(play: &mut Play) -> Verdict {
    let (call, asked) = sent(play)?;
    let token = play.token();
    let bytes = [&[b'E'; 193], &b"\n"[..], &acquired(&asked, token)].concat();
    is_fatal(play, &call, &asked, &bytes)
}

fn correlated_error(play: &mut Play) -> Verdict {
    let peer = play.open_narrow()?;
    for reason in ["bad_key", "bad_lease"] {
        let call = play.acquire(&Ask::new("k").wait(secs(60)))?;
        play.asked_for("k")?;
        play.stage.reply(peer, &Reply::error(reason));
        play.expect(&call, "rejected")?;
    }
    play.sentinel()?;
    play.still_open(peer)
}

fn uncorrelated_error(play: &mut Play) -> Verdict {
    let peer = play.open_narrow()?;
    let calls = [play.acquire(&Ask::new("a").wait(secs(60)))?, play.acquire(&Ask::new("b").wait(secs(60)))?];
    play.asked_for("a")?;
    play.asked_for("b")?;
    play.stage.reply(peer, &Reply::error("bad_key"));
    play.ended(peer)?;
    calls.iter().try_for_each(|call| play.expect(call, "indeterminate").map(drop))
}

fn distinct_owners(play: &mut Play) -> Verdict {
    play.open_ready()?;
    let keys: Vec<_> = (0..16).map(|number| format!("k{number}")).collect();
    let mut calls = Vec::new();
    for key in &keys {
        calls.push(play.acquire(&Ask::new(key).wait(secs(60)).lease(secs(120)))?);
    }
    let asked = keys.iter().map(|key| play.asked_for(key)).collect::<Result<Vec<_>, _>>()?;
    owners_are_distinct(&asked)?;
    for (call, asked) in calls.iter().zip(&asked).rev() {
        let token = play.grant(asked);
        play.expect_ticket(call, token)?;
    }
    Ok(())
}

fn owners_are_distinct<'a>(asked: impl IntoIterator<Item = &'a Asked>) -> Verdict {
    let mut owners = BTreeSet::from([0]);
    match asked.into_iter().find(|asked| !owners.insert(asked.owner)) {
        Some(asked) => {
            Err(Stop::failed(format!("owner {} twice, or 0", asked.owner), "distinct owners, none of them 0"))
        }
        None => Ok(()),
    }
}

fn owners_are_not_used_again(play: &mut Play) -> Verdict {
    play.open_ready()?;
    for key in ["a", "b", "c", "d", "e", "f"] {
        let call = play.acquire(&Ask::new(key).wait(secs(60)))?;
        play.asked_for(key)?;
        play.cancel(&call)?;
    }
    play.acquire(&Ask::new("last").wait(secs(60)))?;
    play.asked_for("last")?;
    let asked = play.seen(|event| match event {
        Event::Asked(asked) => Some(asked.clone()),
        _ => None,
    });
    owners_are_distinct(asked.iter().map(|(_, asked)| asked))
}
