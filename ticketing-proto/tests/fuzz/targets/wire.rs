//! Decoding against a naive reading of the same bytes, round trips, and splits (`FR`, `AU`).

use arbitrary::{Arbitrary as _, Result, Unstructured};
use ticketing_proto::limits::MAX_FRAME_LEN;
use ticketing_proto::wire::auth::{
    LineDecoder, LineTooLong, Secret, Verdict, judge, parse_challenge, respond,
};
use ticketing_proto::wire::{Decoder, FromClient, FromServer, Reply, Request};

use super::frames::{End, Replies, Requests, Side, decode as decode_pieces};

/// Any bytes in both directions, and as lines of the handshake: cut as a naive reader cuts them, and what is
/// understood gives the same bytes again.
pub(crate) fn decode(data: &[u8]) {
    check_side::<Requests>(data, |op| match op {
        b'A' => Some(10),
        b'R' => Some(8),
        _ => None,
    });
    check_side::<Replies>(data, |op| match op {
        b'A' => Some(16),
        b'T' | b'B' | b'R' | b'N' => Some(8),
        b'M' | b'L' | b'E' => Some(0),
        _ => None,
    });
    if let Ok(nonce) = parse_challenge(data) {
        assert!((8..=128).contains(&nonce.len()), "AU-7");
        let response = respond(&Secret::new(*b"secret"), nonce);
        assert_eq!(judge(&Secret::new(*b"secret"), nonce, &response), Verdict::Accepted);
    }
    let is_accepted = judge(&Secret::new(*b"another"), b"aB3dEf_g", data) == Verdict::Accepted;
    assert_eq!(is_accepted, data == respond(&Secret::new(*b"another"), b"aB3dEf_g"), "AU-4");
}

fn check_side<S: Side>(data: &[u8], header_len: impl Fn(u8) -> Option<usize>) {
    let (frames, end) = decode_pieces::<S>([data]);
    let (expected, expected_end) = cut(data, header_len);
    for (frame, expected) in frames.iter().zip(&expected) {
        assert_eq!(frame.raw, *expected);
        if let Some(encoded) = &frame.encoded {
            assert_eq!(encoded, expected, "{}", frame.text);
        }
    }
    if frames.len() == expected.len() {
        // A frame that is fatal by its contents is not among the frames: it would be one more.
        let end = match end {
            End::Between => CutEnd::BetweenFrames,
            End::Inside => CutEnd::MidFrame,
            End::Fatal(_) => CutEnd::Worthless,
        };
        assert_eq!(end, expected_end);
    } else {
        assert!(frames.len() < expected.len() && matches!(end, End::Fatal(_)), "{end:?}");
    }
}

#[derive(PartialEq, Eq, Debug)]
enum CutEnd {
    BetweenFrames,
    MidFrame,
    Worthless,
}

/// The frames of a stream, LF included, as one would cut them who has all of it.
fn cut(mut data: &[u8], header_len: impl Fn(u8) -> Option<usize>) -> (Vec<&[u8]>, CutEnd) {
    let mut frames = Vec::new();
    loop {
        let Some((&op, _)) = data.split_first() else { return (frames, CutEnd::BetweenFrames) };
        if op == b'\n' {
            data = &data[1..];
            continue;
        }
        let Some(header_len) = header_len(op) else { return (frames, CutEnd::Worthless) };
        let behind_header = data.get(1 + header_len..).unwrap_or_default();
        match behind_header.iter().position(|&byte| byte == b'\n').map(|at| 1 + header_len + at) {
            Some(len) if len <= MAX_FRAME_LEN => {
                frames.push(&data[..=len]);
                data = &data[len + 1..];
            }
            _ if data.len() > MAX_FRAME_LEN => return (frames, CutEnd::Worthless),
            _ => return (frames, CutEnd::MidFrame),
        }
    }
}

/// Messages, whatever they are, come back from their bytes.
pub(crate) fn round_trip(data: &[u8]) {
    let mut u = Unstructured::new(data);
    while !u.is_empty() {
        if one_round_trip(&mut u).is_err() {
            return;
        }
    }
}

fn one_round_trip(u: &mut Unstructured<'_>) -> Result<()> {
    let mut bytes = Vec::new();
    if u.arbitrary()? {
        let request = Request::arbitrary(u)?;
        request.encode(&mut bytes);
        let mut decoder = Decoder::<FromClient>::new();
        let frame = decoder.next(&mut bytes.as_slice()).expect("a good frame").expect("a whole frame");
        assert_eq!(Request::parse(frame), Ok(request));
    } else {
        let reply = Reply::arbitrary(u)?;
        reply.encode(&mut bytes);
        let mut decoder = Decoder::<FromServer>::new();
        let frame = decoder.next(&mut bytes.as_slice()).expect("a good frame").expect("a whole frame");
        assert_eq!(Reply::parse(frame), Ok(reply));
    }
    Ok(())
}

/// Bytes that come in other pieces mean the same.
pub(crate) fn split(data: &[u8]) {
    let mut u = Unstructured::new(data);
    let Ok(stream) = stream(&mut u) else { return };
    let mut pieces = Vec::new();
    let mut rest = stream.as_slice();
    while let Some(most) = rest.len().checked_sub(1) {
        let len = 1 + u.int_in_range(0..=most.min(250)).unwrap_or_default();
        let (piece, behind) = rest.split_at(len);
        pieces.push(piece);
        rest = behind;
    }
    same::<Requests>(&stream, &pieces);
    same::<Replies>(&stream, &pieces);
    assert_eq!(lines(&pieces), lines(&[&stream]));
}

fn same<S: Side>(stream: &[u8], pieces: &[&[u8]]) {
    assert_eq!(decode_pieces::<S>(pieces.iter().copied()), decode_pieces::<S>([stream]));
}

/// The lines of a stream, up to one that is too long.
fn lines(pieces: &[&[u8]]) -> Vec<Option<Vec<u8>>> {
    let (mut decoder, mut lines) = (LineDecoder::new(), Vec::new());
    for mut input in pieces.iter().copied() {
        loop {
            match decoder.next(&mut input) {
                Ok(Some(line)) => lines.push(Some(line.to_vec())),
                Ok(None) => break,
                Err(LineTooLong) => {
                    lines.push(None);
                    return lines;
                }
            }
        }
    }
    lines
}

/// Messages of one direction, or of both, and noise.
pub(super) fn stream(u: &mut Unstructured<'_>) -> Result<Vec<u8>> {
    let mut stream = Vec::new();
    for _ in 0..u.int_in_range(0..=20)? {
        match u.int_in_range(0..=5)? {
            0..=2 => Request::arbitrary(u)?.encode(&mut stream),
            3 => Reply::arbitrary(u)?.encode(&mut stream),
            4 => stream.extend_from_slice(u.arbitrary()?),
            _ => stream.push(b'\n'),
        }
    }
    Ok(stream)
}
