//! The handshake's lines, the secret, and which challenges are answered.

use ticketing_proto::wire::auth::{
    BadChallenge, LineDecoder, LineTooLong, NONCE_LEN, Secret, TEXT_LEN, Verdict, encode_challenge, judge,
    nonce_text, parse_challenge, respond,
};

fn feed(decoder: &mut LineDecoder, mut piece: &[u8]) -> Result<Option<Vec<u8>>, LineTooLong> {
    decoder.next(&mut piece).map(|line| line.map(<[u8]>::to_vec))
}

#[test]
fn a_line_has_at_most_192_bytes_and_its_end_is_not_awaited_beyond() {
    for (len, fits) in [(0, true), (191, true), (192, true), (193, false)] {
        let text = vec![b'A'; len];
        let line = [&text[..], b"\n"].concat();
        let expected = if fits { Ok(Some(text.clone())) } else { Err(LineTooLong) };
        assert_eq!(feed(&mut LineDecoder::new(), &line), expected, "{len} bytes and their LF");
        let without_lf = if fits { Ok(None) } else { Err(LineTooLong) };
        assert_eq!(feed(&mut LineDecoder::new(), &text), without_lf, "{len} bytes");
        for split in 0..=len {
            let mut decoder = LineDecoder::new();
            let outcome = feed(&mut decoder, &line[..split]).and_then(|_| feed(&mut decoder, &line[split..]));
            assert_eq!(outcome, expected, "{len} bytes, split at {split}");
        }
    }
}

#[test]
fn a_line_that_was_too_long_is_never_completed() {
    let mut decoder = LineDecoder::new();
    assert_eq!(feed(&mut decoder, &[b'A'; 100]), Ok(None));
    assert_eq!(feed(&mut decoder, &[b'A'; 93]), Err(LineTooLong));
    assert_eq!(feed(&mut decoder, b"\n"), Err(LineTooLong));
    assert_eq!(feed(&mut decoder, b"A\n"), Err(LineTooLong));
}

#[test]
fn what_stands_behind_the_line_is_left_to_the_next_reader() {
    let mut input: &[u8] = b"response\nA\x05\x0a";
    let mut decoder = LineDecoder::new();
    assert_eq!(decoder.next(&mut input), Ok(Some(&b"response"[..])));
    assert_eq!(input, b"A\x05\x0a");
}

#[test]
fn a_second_line_does_not_begin_with_the_first() {
    let mut decoder = LineDecoder::new();
    assert_eq!(feed(&mut decoder, b"first\n"), Ok(Some(b"first".to_vec())));
    assert_eq!(feed(&mut decoder, b"second\n"), Ok(Some(b"second".to_vec())));
}

#[test]
fn a_challenge_is_43_characters_behind_the_name_and_its_own_response_is_accepted() {
    let mut seen = std::collections::BTreeSet::new();
    for first in 0..=u8::MAX {
        let mut nonce = [0xff; NONCE_LEN];
        nonce[0] = first;
        let text = nonce_text(&nonce);
        assert!(seen.insert(text), "another nonce has another text");
        let mut line = Vec::new();
        encode_challenge(&text, &mut line);
        assert_eq!(line.len(), "sha256 ".len() + 43 + 1);
        assert_eq!(line.pop(), Some(b'\n'));
        assert_eq!(parse_challenge(&line), Ok(&text[..]), "the nonce as it came");
        let secret = Secret::new(*b"secret");
        assert_eq!(judge(&secret, &text, &respond(&secret, &text)), Verdict::Accepted);
    }
}

#[test]
fn a_response_serves_its_own_nonce_only() {
    let secret = Secret::new(*b"secret");
    let (one, other) = (nonce_text(&[1; NONCE_LEN]), nonce_text(&[2; NONCE_LEN]));
    assert_eq!(judge(&secret, &other, &respond(&secret, &one)), Verdict::Wrong);
}

#[test]
fn each_character_of_a_response_counts() {
    let secret = Secret::new(*b"secret");
    let nonce = nonce_text(&[7; NONCE_LEN]);
    let right = respond(&secret, &nonce);
    for at in 0..TEXT_LEN {
        for other in *b"AZaz09-_" {
            let mut wrong = right;
            wrong[at] = other;
            let expected = if wrong == right { Verdict::Accepted } else { Verdict::Wrong };
            assert_eq!(judge(&secret, &nonce, &wrong), expected, "{} at {at}", char::from(other));
        }
    }
}

#[test]
fn a_response_has_43_base64url_characters_with_a_token_and_without() {
    let nonce = nonce_text(&[7; NONCE_LEN]);
    for secret in [Secret::default(), Secret::new(*b"secret")] {
        let right = respond(&secret, &nonce);
        for byte in 0..=u8::MAX {
            let mut line = right;
            line[20] = byte;
            let well_formed = byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
            assert_eq!(judge(&secret, &nonce, &line) != Verdict::Malformed, well_formed, "{byte:#04x}");
        }
        for len in [0, 1, 42, 44, 192] {
            assert_eq!(judge(&secret, &nonce, &vec![b'A'; len]), Verdict::Malformed, "{len} characters");
        }
    }
}

#[test]
fn a_challenge_with_another_algorithm_is_told_from_one_with_a_bad_nonce() {
    let cases: [(&[u8], BadChallenge); 8] = [
        (b"none aB3dEf_g", BadChallenge::Algorithm),
        (b"sha256", BadChallenge::Algorithm),
        (b" sha256 aB3dEf_g", BadChallenge::Algorithm),
        (b"SHA-256 aB3dEf_g", BadChallenge::Algorithm),
        (b"sha256  aB3dEf_g", BadChallenge::Nonce),
        (b"sha256 aB3dEf_", BadChallenge::Nonce),
        (b"sha256 aB3dEf_g ", BadChallenge::Nonce),
        (b"sha256 aB3dEf_g\r", BadChallenge::Nonce),
    ];
    for (line, error) in cases {
        assert_eq!(parse_challenge(line), Err(error), "{}", line.escape_ascii());
    }
}

#[test]
fn secrets_differ_by_each_byte_and_a_line_end_is_a_byte() {
    let nonce = b"aB3dEf_g";
    let response = respond(&Secret::new(*b"secret"), nonce);
    for other in [&b"secret\n"[..], b"secret\r\n", b"secre", b"Secret", b"secret\0", b""] {
        let other = Secret::new(other);
        assert_ne!(respond(&other, nonce), response);
        assert_ne!(other, Secret::new(*b"secret"));
    }
    assert_eq!(Secret::new(*b"secret"), Secret::new(*b"secret"));
}

#[test]
fn a_secret_is_never_shown() {
    let secret = Secret::new(*b"open sesame");
    for text in [format!("{secret:?}"), format!("{secret:#?}"), format!("{:?}", Some(&secret))] {
        assert!(!text.contains("sesame") && !text.contains("111"), "{text}");
    }
    assert!(Secret::default().is_empty() && !secret.is_empty());
}
