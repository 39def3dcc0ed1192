//! Properties of the wire that hold for all bytes: round trips, any split, no panic.

#[path = "support/frames.rs"]
mod frames;

use frames::{End, Replies, Requests, Side, decode};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};
use ticketing_proto::id::{Owner, Token};
use ticketing_proto::key::{Key, MAX_KEY_LEN};
use ticketing_proto::limits::{Lease, Wait};
use ticketing_proto::wire::auth::{LineDecoder, Secret, Verdict, judge, parse_challenge, respond};
use ticketing_proto::wire::{Acquire, Decoder, FromClient, FromServer, Reason, Release, Reply, Request};

/// Numbers, with those whose bytes look like something else more often than chance would have it.
fn number() -> impl Strategy<Value = u64> {
    prop_oneof![
        2 => any::<u64>(),
        1 => 0..3_u64,
        1 => Just(u64::MAX),
        1 => Just(0x0a0a_0a0a_0a0a_0a0a),
        1 => Just(u64::from_be_bytes(*b"A\nR\nT\nE\n")),
    ]
}

fn owner() -> impl Strategy<Value = Owner> {
    number().prop_filter_map("an owner is not 0", Owner::new)
}

fn token() -> impl Strategy<Value = Token> {
    number().prop_filter_map("a token is not 0", Token::new)
}

fn key() -> impl Strategy<Value = Key> {
    let letter = prop_oneof![
        4 => any::<char>(),
        4 => prop::char::range('a', 'z'),
        1 => select(vec!['\0', '\r', '\t', 'A', 'E', '\u{a0}', '\u{feff}', '\u{301}', '\u{202e}', '\u{10ffff}']),
    ]
    .prop_filter("a key has neither spaces nor line feeds", |letter| !matches!(letter, ' ' | '\n'));
    (vec(letter, 1..=MAX_KEY_LEN), 1..=MAX_KEY_LEN).prop_map(|(letters, most)| {
        let mut text = String::new();
        for letter in letters {
            if text.len() + letter.len_utf8() > most.max(4) {
                break;
            }
            text.push(letter);
        }
        Key::new(text.as_bytes()).expect("1 to 128 bytes, as the letters are at most 4 bytes long")
    })
}

fn address() -> impl Strategy<Value = String> {
    ("[a-z0-9.-]{1,180}|\\[[0-9a-f:]{1,30}:[0-9a-f]{0,4}\\]", 1..=u16::MAX)
        .prop_map(|(host, port)| format!("{host}:{port}"))
}

fn request_bytes() -> impl Strategy<Value = Vec<u8>> {
    let acquire = (any::<u8>(), 1..=250_u8, owner(), key()).prop_map(|(wait, lease, owner, key)| {
        let lease = Lease::from_secs(lease).expect("1 to 250");
        let acquire = Acquire { wait: Wait::from_secs(wait), lease, owner, key: key.as_key_ref() };
        checked_request(Request::Acquire(acquire))
    });
    let release = (number(), key())
        .prop_map(|(token, key)| checked_request(Request::Release(Release { token, key: key.as_key_ref() })));
    prop_oneof![acquire, release]
}

/// The request's bytes, which give the same request again.
fn checked_request(request: Request<'_>) -> Vec<u8> {
    let mut encoded = Vec::new();
    request.encode(&mut encoded);
    let mut decoder = Decoder::<FromClient>::new();
    let mut input = encoded.as_slice();
    let frame = decoder.next(&mut input).expect("a good frame").expect("a whole frame");
    assert_eq!(Request::parse(frame), Ok(request));
    assert!(input.is_empty());
    encoded
}

fn reply_bytes() -> impl Strategy<Value = Vec<u8>> {
    (0..9_u8, token(), owner(), number(), key(), address(), select(Reason::ALL.to_vec())).prop_map(
        |(kind, token, owner, number, key, address, reason)| {
            let key = key.as_key_ref();
            checked_reply(match kind {
                0 => Reply::Acquired { token, owner, key },
                1 => Reply::TimedOut { owner, key },
                2 => Reply::Busy { owner, key },
                3 => Reply::Released { token: token.value(), key },
                4 => Reply::NotHeld { token: number, key },
                5 => Reply::Moved { leader: &address },
                6 => Reply::LeaderChanged { leader: Some(&address) },
                7 => Reply::LeaderChanged { leader: None },
                _ => Reply::Error(reason),
            })
        },
    )
}

/// The reply's bytes, which give the same reply again.
fn checked_reply(reply: Reply<'_>) -> Vec<u8> {
    let mut encoded = Vec::new();
    reply.encode(&mut encoded);
    let mut decoder = Decoder::<FromServer>::new();
    let mut input = encoded.as_slice();
    let frame = decoder.next(&mut input).expect("a good frame").expect("a whole frame");
    assert_eq!(Reply::parse(frame), Ok(reply));
    assert!(input.is_empty());
    encoded
}

/// Frames with keep-alives around them; at times one byte of it all is another one, or the end is missing.
fn stream(frame: impl Strategy<Value = Vec<u8>>) -> impl Strategy<Value = Vec<u8>> {
    let frames = vec((frame, 0..3_usize), 0..8);
    let damage = prop::option::weighted(0.5, (any::<Index>(), any::<u8>()));
    let cut = prop::option::weighted(0.3, any::<Index>());
    (frames, damage, cut).prop_map(|(frames, damage, cut)| {
        let mut stream = Vec::new();
        for (frame, keep_alives) in frames {
            stream.extend(std::iter::repeat_n(b'\n', keep_alives));
            stream.extend(frame);
        }
        if let (Some((at, byte)), false) = (damage, stream.is_empty()) {
            let at = at.index(stream.len());
            stream[at] = byte;
        }
        if let (Some(at), false) = (cut, stream.is_empty()) {
            stream.truncate(at.index(stream.len()));
        }
        stream
    })
}

/// Bytes that are mostly ops, line feeds and letters, so that many of them look like frames.
fn noise() -> impl Strategy<Value = Vec<u8>> {
    let byte = prop_oneof![
        1 => any::<u8>(),
        2 => select(b"ARTBNMLE\n\n\0k:1".to_vec()),
    ];
    vec(byte, 0..600)
}

fn pieces<'a>(stream: &'a [u8], cuts: &[Index]) -> Vec<&'a [u8]> {
    let mut at: Vec<usize> = cuts.iter().map(|cut| cut.index(stream.len() + 1)).collect();
    at.extend([0, stream.len()]);
    at.sort_unstable();
    at.windows(2).map(|pair| &stream[pair[0]..pair[1]]).collect()
}

/// However the stream is split, the frames and the end are the same; and what was accepted is encoded as it came.
fn check_any_split<S: Side>(stream: &[u8], cuts: &[Index]) -> Result<(), TestCaseError> {
    let whole = decode::<S>([stream]);
    prop_assert_eq!(&decode::<S>(pieces(stream, cuts)), &whole);
    prop_assert_eq!(&decode::<S>(stream.chunks(1)), &whole);
    let (frames, end) = whole;
    for frame in &frames {
        if let Some(encoded) = &frame.encoded {
            prop_assert_eq!(encoded, &frame.raw, "decode and encode are inverse to each other");
        }
    }
    if end == End::Between {
        let taken: usize = frames.iter().map(|frame| frame.raw.len()).sum();
        let keep_alives = stream.len() - taken;
        prop_assert!(stream.iter().filter(|&&byte| byte == b'\n').count() >= keep_alives, "nothing is lost");
    }
    Ok(())
}

proptest! {
    #[test]
    fn a_stream_of_requests_means_the_same_however_it_is_split(
        stream in stream(request_bytes()), cuts in vec(any::<Index>(), 0..12),
    ) {
        check_any_split::<Requests>(&stream, &cuts)?;
    }

    #[test]
    fn a_stream_of_replies_means_the_same_however_it_is_split(
        stream in stream(reply_bytes()), cuts in vec(any::<Index>(), 0..12),
    ) {
        check_any_split::<Replies>(&stream, &cuts)?;
    }

    #[test]
    fn undamaged_frames_are_all_understood(requests in vec(request_bytes(), 0..8), replies in vec(reply_bytes(), 0..8)) {
        let (frames, end) = decode::<Requests>([requests.concat().as_slice()]);
        prop_assert_eq!((frames.len(), end), (requests.len(), End::Between));
        let (frames, end) = decode::<Replies>([replies.concat().as_slice()]);
        prop_assert_eq!((frames.len(), end), (replies.len(), End::Between));
    }

    #[test]
    fn noise_never_panics_and_means_the_same_however_it_is_split(
        noise in noise(), cuts in vec(any::<Index>(), 0..12),
    ) {
        check_any_split::<Requests>(&noise, &cuts)?;
        check_any_split::<Replies>(&noise, &cuts)?;
    }

    #[test]
    fn handshake_lines_never_panic_and_mean_the_same_however_they_are_split(
        noise in prop_oneof![
            noise(),
            "(sha256 )?[A-Za-z0-9_=-]{0,200}\n?.{0,20}".prop_map(String::into_bytes),
        ],
        cuts in vec(any::<Index>(), 0..12),
        token in vec(any::<u8>(), 0..40),
    ) {
        let read = |pieces: Vec<&[u8]>| {
            let mut decoder = LineDecoder::new();
            for mut piece in pieces {
                match decoder.next(&mut piece) {
                    Ok(Some(line)) => return Ok(Some(line.to_vec())),
                    Ok(None) => assert!(piece.is_empty()),
                    Err(error) => return Err(error),
                }
            }
            Ok(None)
        };
        let whole = read(vec![&noise]);
        prop_assert_eq!(&read(pieces(&noise, &cuts)), &whole);
        prop_assert_eq!(&read(noise.chunks(1).collect()), &whole);
        if let Ok(Some(line)) = whole {
            let token = Secret::new(token);
            let nonce = parse_challenge(&line).unwrap_or(b"aB3dEf_g");
            let well_formed =
                line.len() == 43 && line.iter().all(|&byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'));
            prop_assert_eq!(judge(&token, nonce, &line) != Verdict::Malformed, well_formed);
            prop_assert_eq!(judge(&token, nonce, &respond(&token, nonce)), Verdict::Accepted);
        }
    }
}
