//! `RD` and `CA-10`: servers that send their clients elsewhere.

use std::collections::BTreeSet;
use std::time::Instant;

use super::super::play::{Ask, Call, Play, millis, secs};
use super::super::stage::Greeting;
use super::super::timeline::{Asked, Event};
use crate::case::{Case, Stop, Verdict};
use crate::wire::Reply;

pub(super) const CASES: &[Case<Play>] = &[
    Case::new(
        "client/redirects/moved",
        &["CA-10", "RD-1", "RD-2", "CC-2"],
        "After `M` the unanswered acquire goes to the leader that it names, with the same owner.",
        moved,
    ),
    Case::new(
        "client/redirects/not-active",
        &["CA-10", "RD-1", "ER-7"],
        "After `Enot_active` the unanswered acquire is tried again, with the same owner.",
        |play| tried_again(play, "not_active"),
    ),
    Case::new(
        "client/redirects/no-leader",
        &["CA-10", "RD-1", "ER-8"],
        "After `Eno_leader` the unanswered acquire is tried again, with the same owner.",
        |play| tried_again(play, "no_leader"),
    ),
    Case::new(
        "client/redirects/auth-failed",
        &["CA-10", "RD-1", "ER-1", "CC-3"],
        "After `Eauth_failed` on one connection the unanswered acquire goes over another one.",
        |play| tried_again(play, "auth_failed"),
    ),
    Case::new(
        "client/redirects/wait-goes-on",
        &["CA-10", "CA-2"],
        "A redirect does not restart the wait: the frame for the leader carries what is left of it.",
        wait_goes_on,
    ),
    Case::new(
        "client/redirects/all-of-the-connection",
        &["CA-10", "RD-1"],
        "A redirect speaks for all unanswered acquires of its connection: each goes to the leader.",
        all_of_the_connection,
    ),
    Case::new(
        "client/redirects/not-for-ghosts",
        &["CA-10", "CA-11"],
        "An acquire that was cancelled is dropped by a redirect: it does not go to the leader.",
        not_for_ghosts,
    ),
    Case::new(
        "client/redirects/release-too",
        &["RD-2", "CR-2"],
        "After a redirect an unanswered release is sent to the leader.",
        release_too,
    ),
    Case::new(
        "client/redirects/unknown-leader",
        &["CC-2"],
        "An address that is not configured is not connected to; the acquire is tried again where it can be.",
        unknown_leader,
    ),
    Case::new(
        "client/redirects/capital-letters",
        &["CC-2"],
        "A leader's address is compared without regard to the case of ASCII letters.",
        capital_letters,
    ),
    Case::new(
        "client/redirects/malformed-leader",
        &["CC-2", "FR-10"],
        "An `M` whose text is not `host:port` is malformed: its connection ends, and what was sent over it is \
         `indeterminate`.",
        malformed_leader,
    ),
    Case::new(
        "client/redirects/empty-moved",
        &["CC-2", "FR-10"],
        "An `M` without an address is malformed; only an `L` may be empty.",
        |play| malformed(play, &Reply::Moved { leader: Vec::new() }),
    ),
    Case::new(
        "client/redirects/pauses",
        &["CC-2"],
        "Retries pause, 10 ms at first and up to 100 ms: nodes that name each other are not flooded.",
        pauses,
    ),
    Case::new(
        "client/redirects/leader-changed",
        &["RD-3", "CC-2"],
        "After `L` requests go to the leader that it names. It answers nothing and closes nothing.",
        leader_changed,
    ),
    Case::new(
        "client/redirects/no-leader-known",
        &["RD-3", "CC-2"],
        "After an empty `L` requests go to the usable connections in turn.",
        |play| leader_cleared(play, b""),
    ),
    Case::new(
        "client/redirects/leader-is-not-configured",
        &["RD-3", "CC-2"],
        "After an `L` with an address that is not configured requests go to the usable connections in turn.",
        |play| leader_cleared(play, b"192.0.2.1:5225"),
    ),
];

/// Answers with a redirect, which ends the connection.
fn redirect(play: &Play, asked: &Asked, reply: &Reply) {
    play.stage.reply(asked.peer, reply);
    play.stage.close(asked.peer);
}

fn moved_to(play: &Play, node: usize) -> Reply {
    Reply::Moved { leader: play.stage.address(node).into_bytes() }
}

const fn other(node: usize) -> usize {
    1 - node
}

/// Two nodes, and an acquire that one of them has.
fn sent(play: &mut Play) -> Result<(Call, Asked), Stop> {
    play.open_cluster(2)?;
    let call = play.acquire(&Ask::new("k").wait(secs(60)).lease(secs(120)))?;
    let asked = play.asked_for("k")?;
    Ok((call, asked))
}

fn same_owner(first: &Asked, again: &Asked) -> Verdict {
    match again.owner == first.owner {
        true => Ok(()),
        false => {
            Err(Stop::failed(format!("owner {}", again.owner), format!("owner {}, as before", first.owner)))
        }
    }
}

fn moved(play: &mut Play) -> Verdict {
    let (call, asked) = sent(play)?;
    let leader = other(asked.peer.node);
    redirect(play, &asked, &moved_to(play, leader));
    let again = play.asked_for("k")?;
    if again.peer.node != leader {
        return Err(Stop::failed(
            format!("the acquire at node {}", again.peer.node),
            format!("at node {leader}"),
        ));
    }
    same_owner(&asked, &again)?;
    let token = play.grant(&again);
    play.expect_ticket(&call, token).map(drop)
}

fn tried_again(play: &mut Play, reason: &str) -> Verdict {
    let (call, asked) = sent(play)?;
    redirect(play, &asked, &Reply::error(reason));
    let again = play.asked_for("k")?;
    same_owner(&asked, &again)?;
    let token = play.grant(&again);
    play.expect_ticket(&call, token).map(drop)
}

fn wait_goes_on(play: &mut Play) -> Verdict {
    play.open_cluster(2)?;
    let call = play.acquire(&Ask::new("k").wait(secs(10)))?;
    let asked = play.asked_for("k")?;
    play.pass(millis(3_500));
    let redirected_at = Instant::now();
    redirect(play, &asked, &moved_to(play, other(asked.peer.node)));
    let again = play.asked_for("k")?;
    play.wait_is_what_remained(&again, &call, secs(10), redirected_at)
}

fn all_of_the_connection(play: &mut Play) -> Verdict {
    let keys = ["a", "b", "c", "d"];
    play.open_cluster(2)?;
    let mut calls = Vec::new();
    for key in keys {
        calls.push(play.acquire(&Ask::new(key).wait(secs(60)).lease(secs(120)))?);
    }
    let asked = keys.iter().map(|key| play.asked_for(key)).collect::<Result<Vec<_>, _>>()?;
    let from = asked[0].peer;
    let leader = other(from.node);
    redirect(play, &asked[0], &moved_to(play, leader));
    for (call, mut asked) in calls.iter().zip(asked) {
        if asked.peer == from {
            asked = play.asked_for(&String::from_utf8_lossy(&asked.key))?;
        }
        let token = play.grant(&asked);
        play.expect_ticket(call, token)?;
    }
    Ok(())
}

fn not_for_ghosts(play: &mut Play) -> Verdict {
    let (call, asked) = sent(play)?;
    play.cancel(&call)?;
    redirect(play, &asked, &moved_to(play, other(asked.peer.node)));
    play.ended(asked.peer)?;
    play.sentinel()?;
    play.never_asked("k")
}

fn release_too(play: &mut Play) -> Verdict {
    play.open_cluster(2)?;
    let (ticket, token) = play.hold("k")?;
    let release = play.release(&ticket)?;
    let given_back = play.given_back(token, "k")?;
    play.stage.reply(given_back.peer, &moved_to(play, other(given_back.peer.node)));
    play.stage.close(given_back.peer);
    let again = play.given_back(token, "k")?;
    play.confirm(&again);
    play.expect(&release, "released").map(drop)
}

fn unknown_leader(play: &mut Play) -> Verdict {
    let (call, asked) = sent(play)?;
    let stranger = play.add_node(Greeting::Challenge)?;
    redirect(play, &asked, &Reply::Moved { leader: stranger.into_bytes() });
    let again = play.asked_for("k")?;
    let token = play.grant(&again);
    play.expect_ticket(&call, token)?;
    play.sentinel()?;
    let strangers =
        play.seen(|event| matches!(event, Event::Connected(peer) if peer.node == 2).then_some(()));
    match strangers.is_empty() {
        true => Ok(()),
        false => {
            Err(Stop::failed("a connection to it", "no connection to an address that is not configured"))
        }
    }
}

fn capital_letters(play: &mut Play) -> Verdict {
    let mut addresses = Vec::new();
    for _ in 0..2 {
        let address = play.add_node(Greeting::Challenge)?;
        addresses.push(address.replace("127.0.0.1", "localhost"));
    }
    play.open_at(addresses.clone(), Some(super::super::play::SECRET), None)?;
    play.responded_at(0)?;
    play.responded_at(1)?;
    let call = play.acquire(&Ask::new("k").wait(secs(60)))?;
    let asked = play.asked_for("k")?;
    let leader = other(asked.peer.node);
    // Behind `L` the answer shows that it was read.
    play.stage.reply(
        asked.peer,
        &Reply::LeaderChanged { leader: addresses[leader].replace("localhost", "LOCALhost").into_bytes() },
    );
    play.refuse(&asked);
    play.ending(&call)?;
    all_go_to(play, leader)
}

fn malformed_leader(play: &mut Play) -> Verdict {
    malformed(play, &Reply::Moved { leader: b"somewhere".to_vec() })
}

fn malformed(play: &mut Play, reply: &Reply) -> Verdict {
    let (call, asked) = sent(play)?;
    play.stage.reply(asked.peer, reply);
    play.ended(asked.peer)?;
    play.expect(&call, "indeterminate")?;
    play.sentinel()?;
    play.never_asked("k")
}

fn pauses(play: &mut Play) -> Verdict {
    const PAUSES: [u64; 12] = [10, 20, 40, 80, 100, 100, 100, 100, 100, 100, 100, 100];
    let (call, mut asked) = sent(play)?;
    for pause in PAUSES {
        let redirected_at = Instant::now();
        redirect(play, &asked, &moved_to(play, other(asked.peer.node)));
        asked = play.asked_for("k")?;
        play.not_before("the retry", asked.at, redirected_at + millis(pause))?;
    }
    let token = play.grant(&asked);
    play.expect_ticket(&call, token).map(drop)
}

/// Tells a client of two nodes where the leader is; the node that it is.
fn told_leader(play: &mut Play) -> Result<usize, Stop> {
    let (call, asked) = sent(play)?;
    let leader = other(asked.peer.node);
    play.stage.reply(asked.peer, &Reply::LeaderChanged { leader: play.stage.address(leader).into_bytes() });
    // Behind `L` the answer shows that it was read, and that it ended nothing.
    let token = play.grant(&asked);
    play.expect_ticket(&call, token)?;
    play.still_open(asked.peer)?;
    Ok(leader)
}

/// The nodes that the next requests go to.
fn where_requests_go(play: &mut Play) -> Result<BTreeSet<usize>, Stop> {
    let keys = ["a", "b", "c", "d"];
    keys.iter()
        .map(|key| {
            let call = play.acquire(&Ask::new(key).wait(secs(60)))?;
            let asked = play.asked_for(key)?;
            play.refuse(&asked);
            play.ending(&call)?;
            Ok(asked.peer.node)
        })
        .collect()
}

fn all_go_to(play: &mut Play, leader: usize) -> Verdict {
    let nodes = where_requests_go(play)?;
    match nodes == BTreeSet::from([leader]) {
        true => Ok(()),
        false => {
            Err(Stop::failed(format!("requests at the nodes {nodes:?}"), format!("only at node {leader}")))
        }
    }
}

fn leader_changed(play: &mut Play) -> Verdict {
    let leader = told_leader(play)?;
    all_go_to(play, leader)
}

fn leader_cleared(play: &mut Play, text: &[u8]) -> Verdict {
    let leader = told_leader(play)?;
    let call = play.acquire(&Ask::new("last").wait(secs(60)))?;
    let asked = play.asked_for("last")?;
    play.stage.reply(asked.peer, &Reply::LeaderChanged { leader: text.to_vec() });
    play.refuse(&asked);
    play.ending(&call)?;
    let nodes = where_requests_go(play)?;
    match nodes == BTreeSet::from([0, 1]) {
        true => Ok(()),
        false => Err(Stop::failed(
            format!("requests at the nodes {nodes:?}; the leader was node {leader}"),
            "at both, in turn",
        )),
    }
}
