//! The decoder's own state: what it keeps, what it refuses, and how it behaves after an error.

use ticketing_proto::limits::MAX_FRAME_LEN;
use ticketing_proto::wire::{DecodeError, Decoder, Direction, FromClient, FromServer, Request};

const ACQUIRE: &[u8] = b"A\x05\x0a\0\0\0\0\0\0\0\x01k\n";
const RELEASE: &[u8] = b"R\0\0\0\0\0\0\0\x01k\n";

/// Feeds one piece; how many frames it completes.
fn feed<D: Direction>(decoder: &mut Decoder<D>, mut piece: &[u8]) -> Result<usize, DecodeError> {
    let mut frames = 0;
    while decoder.next(&mut piece)?.is_some() {
        frames += 1;
    }
    assert!(piece.is_empty());
    Ok(frames)
}

/// An acquire of this many bytes before its LF, which is not part of it.
fn acquire_of(len: usize) -> Vec<u8> {
    let mut frame = ACQUIRE[..11].to_vec();
    frame.resize(len, b'x');
    frame
}

#[test]
fn an_error_stays_and_nothing_behind_it_is_decoded() {
    let oversized = acquire_of(MAX_FRAME_LEN + 1);
    let bad: [(&[u8], DecodeError); 3] = [
        (b"\x16", DecodeError::UnknownOp { op: 0x16 }),
        (b"\r\n", DecodeError::UnknownOp { op: b'\r' }),
        (&oversized, DecodeError::LineTooLong),
    ];
    for (bytes, error) in bad {
        for split in 0..=bytes.len() {
            let mut decoder = Decoder::<FromClient>::new();
            let outcome =
                feed(&mut decoder, &bytes[..split]).and_then(|_| feed(&mut decoder, &bytes[split..]));
            assert_eq!(outcome, Err(error));
            for later in [b"\n", ACQUIRE, b""] {
                assert_eq!(feed(&mut decoder, later), Err(error));
                assert_eq!(decoder.finish(), Err(error));
            }
        }
    }
}

#[test]
fn the_end_of_the_stream_completes_no_frame_and_opens_no_new_one() {
    for cut in 1..ACQUIRE.len() {
        let mut decoder = Decoder::<FromClient>::new();
        assert_eq!(feed(&mut decoder, &ACQUIRE[..cut]), Ok(0));
        assert_eq!(decoder.finish(), Err(DecodeError::Truncated { len: cut }));
        assert_eq!(feed(&mut decoder, &ACQUIRE[cut..]), Err(DecodeError::Truncated { len: cut }));
    }
    let mut decoder = Decoder::<FromClient>::new();
    assert_eq!(feed(&mut decoder, ACQUIRE), Ok(1));
    assert_eq!(decoder.finish(), Ok(()));
}

#[test]
fn a_frame_is_open_from_its_first_byte_to_its_line_feed_and_keep_alives_open_none() {
    let mut decoder = Decoder::<FromClient>::new();
    for _ in 0..3 {
        assert_eq!(feed(&mut decoder, b"\n\n"), Ok(0));
        assert!(!decoder.is_mid_frame(), "a keep-alive starts no clock");
        for &byte in &ACQUIRE[..ACQUIRE.len() - 1] {
            assert_eq!(feed(&mut decoder, &[byte]), Ok(0));
            assert!(decoder.is_mid_frame());
        }
        let mut line_feed: &[u8] = b"\n";
        assert!(decoder.next(&mut line_feed).expect("a good frame").is_some());
        assert!(!decoder.is_mid_frame(), "at once, not only with the next call");
    }
    assert_eq!(feed(&mut decoder, &[ACQUIRE, &RELEASE[..1]].concat()), Ok(1));
    assert!(decoder.is_mid_frame(), "the next frame has begun");
}

#[test]
fn a_million_keep_alives_are_skipped_in_one_call_and_leave_nothing_behind() {
    let flood = vec![b'\n'; 1_000_000];
    let mut decoder = Decoder::<FromClient>::new();
    let mut input = flood.as_slice();
    assert_eq!(decoder.next(&mut input), Ok(None));
    assert!(input.is_empty() && !decoder.is_mid_frame());
    assert_eq!(feed(&mut decoder, ACQUIRE), Ok(1));
}

#[test]
fn the_limit_is_192_bytes_before_the_line_feed_in_both_directions() {
    fn check<D: Direction>(op: u8) {
        for (len, expected) in [(191, Ok(1)), (192, Ok(1)), (193, Err(DecodeError::LineTooLong))] {
            let mut frame = vec![b'x'; len];
            frame[0] = op;
            frame.push(b'\n');
            assert_eq!(
                feed(&mut Decoder::<D>::new(), &frame),
                expected,
                "op {op} and {len} bytes in one piece"
            );
            let mut decoder = Decoder::<D>::new();
            let bytewise: Result<usize, _> = frame.chunks(1).map(|byte| feed(&mut decoder, byte)).sum();
            assert_eq!(bytewise, expected, "op {op} and {len} bytes one by one");
        }
    }
    for op in *b"AR" {
        check::<FromClient>(op);
    }
    for op in *b"ATBRNMLE" {
        check::<FromServer>(op);
    }
}

#[test]
fn a_late_line_feed_decides_nothing_before_it_comes() {
    let frame = acquire_of(MAX_FRAME_LEN);
    let mut decoder = Decoder::<FromClient>::new();
    assert_eq!(feed(&mut decoder, &frame), Ok(0));
    assert_eq!(feed(&mut decoder, b""), Ok(0));
    assert_eq!(feed(&mut decoder, b"\n"), Ok(1));
}

#[test]
fn only_the_ops_of_the_table_are_known() {
    for op in 0..=u8::MAX {
        let client = matches!(op, b'A' | b'R');
        let server = b"ATBRNMLE".contains(&op);
        assert_eq!(FromClient::header_len(op).is_some(), client, "{op:#04x} from a client");
        assert_eq!(FromServer::header_len(op).is_some(), server, "{op:#04x} from a server");
        if !client && op != b'\n' {
            let error = feed(&mut Decoder::<FromClient>::new(), &[op]);
            assert_eq!(
                error,
                Err(DecodeError::UnknownOp { op }),
                "judged at its byte, before anything follows"
            );
        }
    }
}

#[test]
fn a_frame_that_came_whole_is_not_copied() {
    let stream = [b"\n", ACQUIRE, RELEASE].concat();
    let mut decoder = Decoder::<FromClient>::new();
    let mut input = stream.as_slice();
    let frame = decoder.next(&mut input).expect("a good frame").expect("a whole frame");
    assert!(std::ptr::eq(frame.header, &stream[2..12]) && std::ptr::eq(frame.body, &stream[12..13]));
}

#[test]
fn a_decoder_holds_one_frame_and_not_more() {
    let size = size_of::<Decoder<FromClient>>();
    assert!(size <= MAX_FRAME_LEN + 32, "{size} bytes, whatever the peer sends");
}

#[test]
fn what_was_left_of_one_frame_never_shows_in_the_next() {
    let long = [&acquire_of(60)[..], b"\n"].concat();
    for cut in 1..long.len() {
        let mut decoder = Decoder::<FromClient>::new();
        assert_eq!(feed(&mut decoder, &long[..cut]), Ok(0));
        assert_eq!(feed(&mut decoder, &long[cut..]), Ok(1));
        assert_eq!(feed(&mut decoder, &RELEASE[..5]), Ok(0));
        let mut rest = &RELEASE[5..];
        let frame = decoder.next(&mut rest).expect("a good frame").expect("a whole frame");
        let Ok(Request::Release(release)) = Request::parse(frame) else { panic!("a release") };
        assert_eq!((release.token, release.key.as_str()), (1, "k"));
    }
}
