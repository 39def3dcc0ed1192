//! `AU`: how a client answers a challenge, and which ones it does not answer.

use super::super::play::{Ask, Play, SECRET, secs};
use super::super::stage::Greeting;
use super::super::timeline::Event;
use crate::case::{Case, Stop, Verdict};
use crate::wire;

pub(super) const CASES: &[Case<Play>] = &[
    Case::new(
        "client/handshake/response",
        &["AU-2", "AU-6"],
        "Each connection answers its own challenge with the SHA-256 of token and nonce, as 43 base64url characters.",
        response,
    ),
    Case::new(
        "client/handshake/response-without-a-token",
        &["AU-2", "AU-5"],
        "Without a token the response is the SHA-256 of the nonce alone.",
        |play| responds_to(play, None, &"x".repeat(43)),
    ),
    Case::new(
        "client/handshake/shortest-nonce",
        &["AU-7", "AU-2"],
        "A nonce of 8 characters is answered, text as it came.",
        |play| responds_to(play, Some(SECRET), "aB3dEf_g"),
    ),
    Case::new(
        "client/handshake/longest-nonce",
        &["AU-7", "AU-2"],
        "A nonce of 128 characters is answered, text as it came.",
        |play| responds_to(play, Some(SECRET), &"aB3dEf_-".repeat(16)),
    ),
    Case::new(
        "client/handshake/server-speaks-first",
        &["AU-1", "TR-3"],
        "The first bytes of a client are its response: it says nothing before the challenge, however long it takes.",
        server_speaks_first,
    ),
    Case::new(
        "client/handshake/other-algorithm",
        &["AU-7"],
        "A challenge of another algorithm than `sha256` is not answered, and ends the connection.",
        |play| not_answered(play, b"sha512 aB3dEf_gaB3dEf_gaB3dEf_gaB3dEf_gaB3dEf_gaBc\n"),
    ),
    Case::new(
        "client/handshake/algorithm-in-capitals",
        &["AU-7"],
        "The algorithm is exactly `sha256`.",
        |play| not_answered(play, b"SHA256 aB3dEf_gaB3dEf_gaB3dEf_gaB3dEf_gaB3dEf_gaBc\n"),
    ),
    Case::new(
        "client/handshake/nonce-too-short",
        &["AU-7"],
        "A nonce of 7 characters is not answered, and ends the connection.",
        |play| not_answered(play, b"sha256 aB3dEf_\n"),
    ),
    Case::new(
        "client/handshake/nonce-too-long",
        &["AU-7"],
        "A nonce of 129 characters is not answered, and ends the connection.",
        |play| not_answered(play, format!("sha256 {}\n", "x".repeat(129)).as_bytes()),
    ),
    Case::new(
        "client/handshake/nonce-of-other-characters",
        &["AU-7"],
        "A nonce that is not base64url is not answered, and ends the connection.",
        |play| not_answered(play, b"sha256 aB3dEf+gaB3dEf/gaB3dEf_gaB3dEf_gaB3dEf_gaB=\n"),
    ),
    Case::new(
        "client/handshake/endless-line",
        &["AU-7", "AU-1"],
        "A challenge of more than 192 bytes without LF ends the connection.",
        |play| not_answered(play, &[b'x'; 193]),
    ),
    Case::new(
        "client/handshake/refused-everywhere",
        &["CC-3", "ER-1"],
        "When every connection was refused, an acquire ends as `auth`, without waiting for its deadline.",
        refused_everywhere,
    ),
    Case::new(
        "client/handshake/refused-is-not-retried-fast",
        &["CC-3"],
        "After `Eauth_failed` a connection is not tried again before the longest pause, 3.2 s.",
        refused_is_not_retried_fast,
    ),
];

const REFUSAL: &[u8] = b"Eauth_failed\n";

fn response(play: &mut Play) -> Verdict {
    play.open(&[Greeting::Challenge])?;
    for _ in 0..2 {
        is_right(play)?;
    }
    Ok(())
}

fn is_right(play: &Play) -> Verdict {
    let (_, is_right) = play.take("the response to a challenge", |event| match event {
        Event::Responded { is_right, .. } => Some(*is_right),
        _ => None,
    })?;
    if is_right { Ok(()) } else { Err(Stop::failed("a line that is not the response", "the response")) }
}

fn responds_to(play: &mut Play, token: Option<&str>, nonce: &str) -> Verdict {
    let address = play.add_node(Greeting::Bytes(format!("sha256 {nonce}\n").into_bytes()))?;
    play.open_at(vec![address], token, None)?;
    let (_, line) = play.take("the response to a challenge", |event| match event {
        Event::Responded { line, .. } => Some(line.clone()),
        _ => None,
    })?;
    let right = wire::response(token.unwrap_or_default().as_bytes(), nonce.as_bytes());
    match line == right.as_bytes() {
        true => Ok(()),
        false => Err(Stop::failed(String::from_utf8_lossy(&line), right)),
    }
}

fn server_speaks_first(play: &mut Play) -> Verdict {
    play.open(&[Greeting::Silence])?;
    let peer = play.connected()?;
    play.acquire(&Ask::new("k").wait(secs(60)))?;
    play.pass(secs(1));
    play.stage.greet(peer);
    is_right(play)?;
    play.asked_for("k").map(drop)
}

fn not_answered(play: &mut Play, challenge: &[u8]) -> Verdict {
    play.open(&[Greeting::Bytes(challenge.to_vec())])?;
    let call = play.acquire(&Ask::new("k").wait(secs(2)))?;
    let peer = play.connected()?;
    play.ended(peer)?;
    if let Some((_, line)) = play.seen(answer_of).into_iter().next() {
        return Err(Stop::failed(format!("the answer {}", String::from_utf8_lossy(&line)), "no answer"));
    }
    play.expect_one_of(&call, &["protocol", "timeout"]).map(drop)
}

fn answer_of(event: &Event) -> Option<Vec<u8>> {
    match event {
        Event::Responded { line, .. } => Some(line.clone()),
        _ => None,
    }
}

fn refused_everywhere(play: &mut Play) -> Verdict {
    play.open(&[Greeting::Farewell(REFUSAL.to_vec())])?;
    for _ in 0..2 {
        let refused = play.responded()?;
        play.ended(refused)?;
    }
    let call = play.acquire(&Ask::new("k").wait(secs(200)))?;
    play.expect(&call, "auth").map(drop)
}

fn refused_is_not_retried_fast(play: &mut Play) -> Verdict {
    play.open(&[Greeting::Farewell(REFUSAL.to_vec())])?;
    play.connected()?;
    play.pass(secs(3));
    let connections = play.seen(|event| matches!(event, Event::Connected(_)).then_some(())).len();
    match connections {
        ..=2 => Ok(()),
        _ => Err(Stop::failed(format!("{connections} connections within 3 s"), "no more than the first two")),
    }
}
