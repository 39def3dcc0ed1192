//! `CC-1` to `CC-5`: connections, and how many acquires they carry.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use super::super::play::{Ask, Call, Play, SECRET, millis, secs};
use super::super::stage::Greeting;
use super::super::timeline::{Asked, Event};
use crate::case::{Case, Stop, Verdict};

pub(super) const CASES: &[Case<Play>] = &[
    Case::new(
        "client/connections/two-to-one-address",
        &["CC-1"],
        "One address is held by two connections.",
        |play| {
            play.open(&[Greeting::Challenge])?;
            play.responded()?;
            play.responded().map(drop)
        },
    ),
    Case::new(
        "client/connections/one-to-each-of-several",
        &["CC-1"],
        "Of several addresses each is held by one connection.",
        one_to_each_of_several,
    ),
    Case::new(
        "client/connections/a-broken-one-interrupts-nothing",
        &["CC-1", "CC-2"],
        "When one of the two connections breaks, the other one carries the next request.",
        a_broken_one_interrupts_nothing,
    ),
    Case::new(
        "client/connections/in-turn",
        &["CC-2"],
        "Where no leader is known, requests go to the usable connections in turn.",
        in_turn,
    ),
    Case::new(
        "client/connections/come-back",
        &["CC-3"],
        "A connection that is lost is made again, and no pause is longer than 3.2 s and its jitter.",
        come_back,
    ),
    Case::new(
        "client/connections/backoff",
        &["CC-3"],
        "Reconnects pause ever longer, up to 3.2 s: a server that closes at once is not flooded.",
        |play| backoff(play, Greeting::Close),
    )
    .slow(),
    Case::new(
        "client/connections/short-sessions-are-failures",
        &["CC-3"],
        "A session that lived for less than 1 s counts as failed: its end does not begin the pauses anew.",
        |play| backoff(play, Greeting::Farewell(Vec::new())),
    )
    .slow(),
    Case::new(
        "client/connections/silent-server",
        &["CC-4"],
        "A server that takes connections and says nothing is given up after 10 s, and tried again.",
        silent_server,
    )
    .slow(),
    Case::new(
        "client/connections/names",
        &["CC-4"],
        "A host may be a name; each of its addresses is tried.",
        names,
    ),
    Case::new(
        "client/capacity/waits-its-turn",
        &["CC-5", "CA-2", "CA-1"],
        "An acquire beyond the bound is sent when a place is free, with what is then left of its wait.",
        waits_its_turn,
    ),
    Case::new(
        "client/capacity/times-out-in-the-queue",
        &["CC-5", "CA-4"],
        "An acquire beyond the bound ends as `timeout` when no place becomes free until its deadline.",
        times_out_in_the_queue,
    ),
    Case::new(
        "client/capacity/try",
        &["CC-5"],
        "The variant that does not wait for a place is `client_capacity` at once.",
        try_variant,
    ),
    Case::new(
        "client/capacity/ghosts-count",
        &["CC-5", "CA-11"],
        "An acquire that was cancelled after it was sent keeps its place until it is answered.",
        ghosts_count,
    ),
];

fn one_to_each_of_several(play: &mut Play) -> Verdict {
    play.open_cluster(3)?;
    play.sentinel()?;
    for node in 0..3 {
        let connections = play
            .seen(|event| matches!(event, Event::Connected(peer) if peer.node == node).then_some(()))
            .len();
        if connections != 1 {
            return Err(Stop::failed(
                format!("{connections} connections to node {node}"),
                "one connection to each",
            ));
        }
    }
    Ok(())
}

fn a_broken_one_interrupts_nothing(play: &mut Play) -> Verdict {
    play.open(&[Greeting::Challenge])?;
    let (broken, other) = (play.responded()?, play.responded()?);
    play.stage.set_greeting(0, Greeting::Silence);
    play.stage.close(broken);
    play.ended(broken)?;
    let call = play.acquire(&Ask::new("k").wait(secs(60)).lease(secs(120)))?;
    let asked = play.asked_for("k")?;
    if asked.peer != other {
        return Err(Stop::failed("the request over a new connection", "over the one that is left"));
    }
    let token = play.grant(&asked);
    play.expect_ticket(&call, token).map(drop)
}

fn in_turn(play: &mut Play) -> Verdict {
    play.open_cluster(2)?;
    let mut nodes = BTreeSet::new();
    for key in ["a", "b", "c", "d"] {
        let call = play.acquire(&Ask::new(key).wait(secs(60)))?;
        let asked = play.asked_for(key)?;
        nodes.insert(asked.peer.node);
        play.refuse(&asked);
        play.ending(&call)?;
    }
    match nodes.len() {
        2 => Ok(()),
        _ => Err(Stop::failed(format!("four requests at the nodes {nodes:?}"), "requests at both nodes")),
    }
}

fn come_back(play: &mut Play) -> Verdict {
    play.open(&[Greeting::Challenge])?;
    let peers = [play.responded()?, play.responded()?];
    play.pass(millis(1_200));
    let closed_at = Instant::now();
    peers.into_iter().for_each(|peer| play.stage.close(peer));
    for _ in peers {
        let (at, ()) = play.take("a new connection", |event| {
            matches!(event, Event::Connected(peer) if peer.number > 2).then_some(())
        })?;
        // Threads that work for the first time in a while may be kept waiting: the longest pause is time enough.
        play.by("the connection is made again", at, closed_at + millis(4_800))?;
    }
    Ok(())
}

fn backoff(play: &mut Play, greeting: Greeting) -> Verdict {
    const TIME: Duration = secs(6);
    /// Either connection after 0, 0.1, 0.3, 0.7, 1.5 and 3.1 s makes 12; jitter may be anything.
    const COUNT: std::ops::RangeInclusive<usize> = 4..=30;
    play.open(&[greeting])?;
    play.connected()?;
    play.pass(TIME);
    let connections = play.seen(|event| matches!(event, Event::Connected(_)).then_some(()));
    let (count, first) = (connections.len(), connections.first());
    let within = connections.last().zip(first).map_or(Duration::ZERO, |(last, first)| last.0 - first.0);
    match COUNT.contains(&count) {
        true => Ok(()),
        false => Err(Stop::failed(
            format!("{count} connections within {} ms", within.as_millis()),
            "12 or so within 6 s: 100 ms, doubling, with jitter",
        )),
    }
}

fn silent_server(play: &mut Play) -> Verdict {
    play.open(&[Greeting::Silence])?;
    let (at, peer) = play.take("a connection", |event| match event {
        Event::Connected(peer) => Some(*peer),
        _ => None,
    })?;
    play.connected()?;
    let ended_at = play.ended(peer)?;
    play.by("the connection is given up", ended_at, at + secs(10))?;
    play.connected().map(drop)
}

fn names(play: &mut Play) -> Verdict {
    let address = play.add_node(Greeting::Challenge)?.replace("127.0.0.1", "localhost");
    play.open_at(vec![address], Some(SECRET), None)?;
    play.responded()?;
    play.sentinel()
}

/// A client with room for two acquires, both of them sent; it also holds a ticket.
fn full(play: &mut Play) -> Result<Full, Stop> {
    play.open_with(&[Greeting::Challenge], Some(2))?;
    play.responded()?;
    let (ticket, token) = play.hold("held")?;
    let first = play.acquire(&Ask::new("first").wait(secs(60)))?;
    let asked = play.asked_for("first")?;
    play.acquire(&Ask::new("second").wait(secs(60)))?;
    play.asked_for("second")?;
    Ok(Full { ticket, token, first, asked })
}

struct Full {
    ticket: Call,
    token: u64,
    first: Call,
    asked: Asked,
}

/// The release shows that an acquire before it was not sent: releases need no place. As they go first, it is given only
/// when the client has been through what it was told before.
fn third_is_not_sent(play: &mut Play, full: &Full) -> Verdict {
    let refused = play.acquire(&Ask::new("").wait(secs(60)))?;
    play.ending(&refused)?;
    let release = play.release(&full.ticket)?;
    let given_back = play.given_back(full.token, "held")?;
    play.confirm(&given_back);
    play.expect(&release, "released")?;
    play.never_asked("third")
}

fn waits_its_turn(play: &mut Play) -> Verdict {
    let full = full(play)?;
    let third = play.acquire(&Ask::new("third").wait(secs(10)))?;
    third_is_not_sent(play, &full)?;
    play.pass_until(third.at + millis(2_500));
    let freed_at = Instant::now();
    play.refuse(&full.asked);
    play.ending(&full.first)?;
    let asked = play.asked_for("third")?;
    play.wait_is_what_remained(&asked, &third, secs(10), freed_at)
}

fn times_out_in_the_queue(play: &mut Play) -> Verdict {
    let full = full(play)?;
    let third = play.acquire(&Ask::new("third").wait(secs(1)))?;
    let ending = play.expect(&third, "timeout")?;
    play.on_time("timeout", ending.at, third.at + secs(1))?;
    third_is_not_sent(play, &full)
}

fn try_variant(play: &mut Play) -> Verdict {
    let full = full(play)?;
    let third = play.acquire(&Ask::new("third").wait(secs(10)).without_waiting_for_a_place())?;
    let ending = play.expect(&third, "client_capacity")?;
    play.by("client_capacity", ending.at, third.at)?;
    third_is_not_sent(play, &full)
}

fn ghosts_count(play: &mut Play) -> Verdict {
    let full = full(play)?;
    play.cancel(&full.first)?;
    play.acquire(&Ask::new("third").wait(secs(60)))?;
    third_is_not_sent(play, &full)?;
    play.refuse(&full.asked);
    play.asked_for("third").map(drop)
}
