//! The vectors of `conformance/vectors`: golden bytes both ways, and what has to be refused.

#[path = "support/frames.rs"]
mod frames;
#[path = "support/vectors.rs"]
mod vectors;

use std::collections::BTreeSet;

use frames::{Decoded, End, Replies, Requests, Side, decode, hex};
use ticketing_proto::wire::auth::{LineDecoder, Secret, Verdict, judge, parse_challenge, respond};
use vectors::{Case, bytes, cases};

const FRAME_FIELDS: &[&str] = &["frame", "end", "at"];
const LINE_FIELDS: &[&str] = &["side", "token", "nonce", "answer", "verdict"];

/// Above this, splitting a stream at every place takes too long; single bytes have to do.
const SPLIT_UP_TO: usize = 1000;

fn expected_frames(case: &Case) -> Vec<String> {
    let plain = |frame: &str| match frame.split_once(" key=") {
        Some((front, key)) => format!("{front} key={}", hex(&bytes(key))),
        None => frame.to_owned(),
    };
    case.fields("frame").map(plain).collect()
}

fn expected_end(case: &Case) -> End {
    match case.field("end").expect("each case ends somehow") {
        "between" => End::Between,
        "inside" => End::Inside,
        end => End::Fatal(end.strip_prefix("fatal ").expect("between, inside or fatal").to_owned()),
    }
}

fn texts(frames: Vec<Decoded>) -> Vec<String> {
    frames.into_iter().map(|frame| frame.text).collect()
}

fn check_frames<S: Side>(file: &str) {
    for case in cases(file, FRAME_FIELDS) {
        let name = case.name();
        let stream = case.stream();
        let expected = (expected_frames(&case), expected_end(&case));

        let (frames, end) = decode::<S>([stream.as_slice()]);
        for frame in &frames {
            if let Some(encoded) = &frame.encoded {
                assert_eq!(hex(encoded), hex(&frame.raw), "{name}: {} has one encoding", frame.text);
            }
        }
        assert_eq!((texts(frames), end), expected, "{name}, in one piece");

        let (frames, end) = decode::<S>(stream.chunks(1));
        assert_eq!((texts(frames), end), expected, "{name}, byte by byte");

        if stream.len() <= SPLIT_UP_TO {
            for at in 0..=stream.len() {
                let (front, back) = stream.split_at(at);
                let (frames, end) = decode::<S>([front, back]);
                assert_eq!((texts(frames), end), expected, "{name}, split at {at}");
            }
        }

        let at = case.field("at").map(|at| at.parse::<usize>().expect("a number of bytes"));
        assert_eq!(at.is_some(), matches!(expected.1, End::Fatal(_)), "{name}: `at` belongs to `fatal`");
        if let Some(at) = at {
            assert_eq!(decode::<S>([&stream[..at]]).1, expected.1, "{name}, known with byte {at}");
            assert_ne!(decode::<S>([&stream[..at - 1]]).1, expected.1, "{name}, not known before byte {at}");
        }
    }
}

#[test]
fn requests_are_what_the_vectors_say() {
    check_frames::<Requests>("requests.txt");
}

#[test]
fn replies_are_what_the_vectors_say() {
    check_frames::<Replies>("replies.txt");
}

/// What a line decoder makes of pieces: the first line, `None` while there is none.
fn line<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> Result<Option<Vec<u8>>, ()> {
    let mut decoder = LineDecoder::new();
    for mut piece in pieces {
        if let Some(line) = decoder.next(&mut piece).map_err(|_| ())? {
            return Ok(Some(line.to_vec()));
        }
    }
    Ok(None)
}

fn client_answer(token: &Secret, line: Result<Option<Vec<u8>>, ()>) -> String {
    match line {
        Ok(None) => "nothing yet".to_owned(),
        Ok(Some(line)) => match parse_challenge(&line) {
            Ok(nonce) => respond(token, nonce).iter().copied().map(char::from).collect(),
            Err(_) => "refused".to_owned(),
        },
        Err(()) => "refused".to_owned(),
    }
}

fn server_verdict(token: &Secret, nonce: &str, line: Result<Option<Vec<u8>>, ()>) -> String {
    let verdict = match line {
        Ok(None) => "nothing yet",
        Ok(Some(line)) => match judge(token, nonce.as_bytes(), &line) {
            Verdict::Accepted => "accepted",
            Verdict::Wrong => "auth_failed",
            Verdict::Malformed => "bad_request",
        },
        Err(()) => "line_too_long",
    };
    verdict.to_owned()
}

#[test]
fn handshakes_are_what_the_vectors_say() {
    for case in cases("handshake.txt", LINE_FIELDS) {
        let name = case.name();
        let stream = case.stream();
        let token = Secret::new(case.token());
        let outcome = |line| match case.field("side") {
            Some("client") => client_answer(&token, line),
            Some("server") => server_verdict(&token, case.field("nonce").expect("a nonce"), line),
            _ => panic!("{name}: a client or a server"),
        };
        let expected = case.field("answer").or(case.field("verdict")).expect("an outcome");
        assert_eq!(outcome(line([stream.as_slice()])), expected, "{name}, in one piece");
        assert_eq!(outcome(line(stream.chunks(1))), expected, "{name}, byte by byte");
        if stream.len() <= SPLIT_UP_TO {
            for at in 0..=stream.len() {
                let (front, back) = stream.split_at(at);
                assert_eq!(outcome(line([front, back])), expected, "{name}, split at {at}");
            }
        }
    }
}

#[test]
fn each_case_has_a_name_of_its_own_and_clauses_that_the_protocol_has() {
    let spec = concat!(env!("CARGO_MANIFEST_DIR"), "/../conformance/SPEC.md");
    let spec = std::fs::read_to_string(spec).expect("the protocol stands beside its vectors");
    let mut names = BTreeSet::new();
    for (file, fields) in
        [("requests.txt", FRAME_FIELDS), ("replies.txt", FRAME_FIELDS), ("handshake.txt", LINE_FIELDS)]
    {
        for case in cases(file, fields) {
            assert!(names.insert(case.name().to_owned()), "{} stands there twice", case.name());
            for clause in case.field("clauses").expect("each case has clauses").split(' ') {
                let is_defined =
                    spec.contains(&format!("**{clause}** ")) || spec.contains(&format!("\n| {clause} |"));
                assert!(is_defined, "{}: the protocol has no {clause}", case.name());
            }
        }
    }
}
