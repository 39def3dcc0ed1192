//! `CK`: keys are checked before anything is sent.

use super::super::play::{Ask, Play, secs};
use crate::case::{Case, Stop, Verdict};

pub(super) const CASES: &[Case<Play>] = &[
    Case::new(
        "client/keys/empty",
        &["CK-1"],
        "An empty key is `invalid_key` (`empty`) before anything is sent.",
        |play| refused(play, "", "empty"),
    ),
    Case::new(
        "client/keys/too-long",
        &["CK-1", "FI-4"],
        "A key of 129 bytes is `invalid_key` (`too_long`) before anything is sent, and its length is said.",
        |play| refused(play, &"\u{d55c}".repeat(43), "too_long"),
    ),
    Case::new(
        "client/keys/space",
        &["CK-1"],
        "A key with a space is `invalid_key` (`space`) before anything is sent.",
        |play| refused(play, "a key", "space"),
    ),
    Case::new(
        "client/keys/lf",
        &["CK-1"],
        "A key with LF is `invalid_key` (`lf`) before anything is sent.",
        |play| refused(play, "key\n", "lf"),
    ),
    Case::new(
        "client/keys/cr",
        &["CK-1", "FI-5"],
        "A key with CR is `invalid_key` (`cr`) before anything is sent, although a server would take it.",
        |play| refused(play, "key\r", "cr"),
    ),
    Case::new(
        "client/keys/legal-ones-are-sent-as-they-are",
        &["CK-1", "FI-4", "TR-4"],
        "128 bytes, and any other characters, are legal; nothing is trimmed, folded or normalized.",
        legal_ones_are_sent_as_they_are,
    ),
];

fn refused(play: &mut Play, key: &str, rule: &str) -> Verdict {
    play.open_ready()?;
    let call = play.acquire(&Ask::new(key).wait(secs(30)))?;
    let answer = play.expect(&call, "invalid_key")?.answer;
    if answer.rule.as_deref() != Some(rule) {
        return Err(Stop::failed(format!("rule {:?}", answer.rule), format!("rule {rule:?}")));
    }
    if rule == "too_long" && answer.bytes != Some(key.len() as u64) {
        return Err(Stop::failed(format!("bytes {:?}", answer.bytes), format!("bytes {}", key.len())));
    }
    play.sentinel()?;
    play.never_asked(key)
}

fn legal_ones_are_sent_as_they_are(play: &mut Play) -> Verdict {
    play.open_ready()?;
    for key in [
        &*"x".repeat(128),
        "\u{d55c}",
        "A\u{308}a",
        "\u{feff}a\u{a0}",
        "tab\tand nul\0".replace(' ', "").as_str(),
    ] {
        play.acquire(&Ask::new(key).wait(secs(30)))?;
        play.asked_for(key)?;
    }
    Ok(())
}
