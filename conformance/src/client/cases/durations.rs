//! `CD`: what is checked before the send, and what a ticket is worth.

use std::time::Duration;

use super::super::play::{Ask, Play, millis, secs};
use super::super::stage::Greeting;
use crate::case::{Case, Stop, Verdict};

pub(super) const CASES: &[Case<Play>] = &[
    Case::new(
        "client/durations/wait-is-rounded-up",
        &["CD-1"],
        "A wait of 9.1 s is 10 s in the frame: fractions are rounded up, not down and not to the nearest.",
        wait_is_rounded_up,
    ),
    Case::new(
        "client/durations/lease-is-rounded-up",
        &["CD-1"],
        "A lease of 9.1 s is 10 s in the frame.",
        lease_is_rounded_up,
    ),
    Case::new(
        "client/durations/greatest",
        &["CD-1", "FI-1", "FI-2"],
        "A wait of 255 s and a lease of 250 s are permitted, and go on the wire as they are.",
        greatest,
    ),
    Case::new(
        "client/durations/wait-out-of-range",
        &["CD-1"],
        "A wait above 255 s is `unsupported_duration` before anything is sent; it is not clamped.",
        |play| refused(play, &Ask::new("k").wait(millis(255_001)), "wait", 255_000),
    ),
    Case::new(
        "client/durations/lease-out-of-range",
        &["CD-1", "FI-2"],
        "A lease above 250 s is `unsupported_duration` before anything is sent; it is not clamped.",
        |play| refused(play, &Ask::new("k").lease(millis(250_001)), "lease", 250_000),
    ),
    Case::new(
        "client/durations/lease-of-zero",
        &["CD-1", "FI-2"],
        "A lease of 0 is `unsupported_duration` before anything is sent.",
        |play| refused(play, &Ask::new("k").lease(Duration::ZERO), "lease", 250_000),
    ),
    Case::new(
        "client/durations/budget-out-of-range",
        &["CD-2"],
        "A `min_work_budget` above 250 s is `unsupported_duration` before anything is sent.",
        |play| {
            let ask = Ask::new("k").lease(secs(250)).budget(millis(250_001));
            refused(play, &ask, "min_work_budget", 250_000)
        },
    ),
    Case::new(
        "client/durations/budget-above-the-lease",
        &["CD-2"],
        "A `min_work_budget` above the rounded lease is `insufficient_lease` before anything is sent.",
        budget_above_the_lease,
    ),
    Case::new(
        "client/durations/budget-within-the-rounded-lease",
        &["CD-2"],
        "A `min_work_budget` of 10 s is held against the rounded lease: with 9.1 s, which is 10 s, the request goes out.",
        budget_within_the_rounded_lease,
    ),
    Case::new(
        "client/durations/budget-is-exact",
        &["CD-2", "CD-3"],
        "`min_work_budget` is not rounded: with a lease of 10 s, 9.001 s are left when a grant comes at once.",
        budget_is_exact,
    ),
    Case::new(
        "client/durations/too-little-left",
        &["CD-3"],
        "When less than `min_work_budget` is left at the grant, the token is released and the result is \
         `insufficient_lease`.",
        too_little_left,
    ),
    Case::new(
        "client/durations/valid-from-the-send",
        &["CD-3"],
        "A ticket's validity is counted from just before the request's first byte was handed out: neither from the \
         call nor from the grant.",
        valid_from_the_send,
    ),
    Case::new(
        "client/durations/valid-for-less-than-the-lease",
        &["CD-3"],
        "A thousandth of the lease is taken off a ticket's validity, for clocks of different rates.",
        valid_for_less_than_the_lease,
    ),
    Case::new(
        "client/durations/default-lease",
        &["CD-4"],
        "The lease is 30 s unless the caller says otherwise.",
        default_lease,
    ),
];

fn wait_is_rounded_up(play: &mut Play) -> Verdict {
    play.open_ready()?;
    let call = play.acquire(&Ask::new("k").wait(millis(9_100)))?;
    let asked = play.asked_for("k")?;
    play.wait_is_what_remained(&asked, &call, secs(10), call.at)
}

fn lease_is_rounded_up(play: &mut Play) -> Verdict {
    play.open_ready()?;
    play.acquire(&Ask::new("k").wait(secs(30)).lease(millis(9_100)))?;
    lease_is(play, 10)
}

fn default_lease(play: &mut Play) -> Verdict {
    play.open_ready()?;
    play.acquire(&Ask::new("k").wait(secs(30)))?;
    lease_is(play, 30)
}

fn greatest(play: &mut Play) -> Verdict {
    play.open_ready()?;
    let call = play.acquire(&Ask::new("k").wait(secs(255)).lease(secs(250)))?;
    let asked = play.asked_for("k")?;
    play.wait_is_what_remained(&asked, &call, secs(255), call.at)?;
    match asked.lease {
        250 => Ok(()),
        lease => Err(Stop::failed(format!("lease {lease} s in the frame"), "250 s")),
    }
}

fn lease_is(play: &Play, expected: u8) -> Verdict {
    match play.asked_for("k")?.lease {
        lease if lease == expected => Ok(()),
        lease => Err(Stop::failed(format!("lease {lease} s in the frame"), format!("{expected} s"))),
    }
}

fn refused(play: &mut Play, ask: &Ask, field: &str, max_ms: u64) -> Verdict {
    play.open_ready()?;
    let call = play.acquire(ask)?;
    let answer = play.expect(&call, "unsupported_duration")?.answer;
    if answer.field.as_deref() != Some(field) || answer.max_ms != Some(max_ms) {
        return Err(Stop::failed(
            format!("field {:?}, max_ms {:?}", answer.field, answer.max_ms),
            format!("field {field:?}, max_ms {max_ms}"),
        ));
    }
    play.sentinel()?;
    play.never_asked("k")
}

fn budget_above_the_lease(play: &mut Play) -> Verdict {
    play.open_ready()?;
    let call = play.acquire(&Ask::new("k").wait(secs(30)).lease(secs(10)).budget(millis(10_001)))?;
    play.expect(&call, "insufficient_lease")?;
    play.sentinel()?;
    play.never_asked("k")
}

fn budget_within_the_rounded_lease(play: &mut Play) -> Verdict {
    play.open_ready()?;
    play.acquire(&Ask::new("k").wait(secs(30)).lease(millis(9_100)).budget(secs(10)))?;
    play.asked_for("k").map(drop)
}

fn budget_is_exact(play: &mut Play) -> Verdict {
    // A busy machine may be too slow for the time that is left; a client that rounds is so each time.
    const TRIES: usize = 5;
    play.open_ready()?;
    for _ in 0..TRIES {
        let call = play.acquire(&Ask::new("k").wait(secs(30)).lease(secs(10)).budget(millis(9_001)))?;
        let asked = play.asked_for("k")?;
        play.grant(&asked);
        if play.expect_one_of(&call, &["ticket", "insufficient_lease"])?.answer.result == "ticket" {
            return Ok(());
        }
    }
    Err(Stop::failed(format!("insufficient_lease, {TRIES} times"), "a ticket"))
}

fn too_little_left(play: &mut Play) -> Verdict {
    play.open_ready()?;
    let call = play.acquire(&Ask::new("k").wait(secs(30)).lease(secs(5)).budget(secs(4)))?;
    let asked = play.asked_for("k")?;
    play.pass(millis(1_500));
    let token = play.grant(&asked);
    play.expect(&call, "insufficient_lease")?;
    play.given_back(token, "k").map(drop)
}

fn valid_from_the_send(play: &mut Play) -> Verdict {
    play.open(&[Greeting::Silence])?;
    let peer = play.connected()?;
    let call = play.acquire(&Ask::new("k").wait(secs(30)).lease(secs(20)))?;
    play.pass(millis(1_500));
    let greeted_at = std::time::Instant::now();
    play.stage.greet(peer);
    let asked = play.asked_for("k")?;
    play.pass(millis(1_500));
    let granted_at = std::time::Instant::now();
    play.grant(&asked);
    let ending = play.expect(&call, "ticket")?;
    let remaining = remaining(&ending.answer)?;
    // The request was sent between the challenge and its arrival, and the client looked at its clock between the
    // grant and its answer.
    let valid = secs(20) - millis(20);
    play.not_before("the ticket ends", ending.at + remaining, greeted_at + valid)?;
    play.not_before("the ticket ends too late: it", asked.at + valid, granted_at + remaining)
}

fn valid_for_less_than_the_lease(play: &mut Play) -> Verdict {
    // A quarter of a second: a busy machine may lose it on the way, but not each time.
    const TRIES: usize = 5;
    let valid = secs(250) - millis(250);
    play.open_ready()?;
    for _ in 0..TRIES {
        let call = play.acquire(&Ask::new("k").wait(secs(30)).lease(secs(250)))?;
        let asked = play.asked_for("k")?;
        play.grant(&asked);
        let remaining = remaining(&play.expect(&call, "ticket")?.answer)?;
        if remaining > valid {
            return Err(Stop::failed(
                format!("{} ms left", remaining.as_millis()),
                format!("at most {} ms of a lease of 250 s", valid.as_millis()),
            ));
        }
    }
    Ok(())
}

fn remaining(answer: &super::super::line::Answer) -> Result<Duration, Stop> {
    let missing = || Stop::failed("a ticket without remaining_ms", "how much of the lease is left");
    answer.remaining_ms.map(Duration::from_millis).ok_or_else(missing)
}
