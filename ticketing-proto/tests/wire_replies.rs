//! What a client refuses of a server, beside the vectors: addresses, and errors that it cannot read.

use ticketing_proto::wire::{Reason, is_address};

#[test]
fn addresses_are_host_and_port() {
    let longest = format!("{}:5225", "a".repeat(186));
    for good in [
        "127.0.0.1:5225",
        "localhost:1",
        "node-1.example:65535",
        "NODE:5225",
        "xn--bcher-kva.example:5225",
        "bücher.example:5225",
        "[::1]:5225",
        "[2001:db8::1]:5225",
        "[fe80::1%eth0]:5225",
        "[::ffff:127.0.0.1]:5225",
        &longest,
    ] {
        assert!(is_address(good), "{good}");
    }
}

#[test]
fn other_texts_are_no_addresses() {
    let too_long = format!("{}:5225", "a".repeat(187));
    for bad in [
        "",
        ":",
        "node",
        "node:",
        ":5225",
        "node:0",
        "node:00000",
        "node:65536",
        "node:99999999999999999999",
        "node:+5225",
        "node:-1",
        "node: 5225",
        "node:5225 ",
        " node:5225",
        "no de:5225",
        "node:5225\r",
        "node\r:5225",
        "no\0de:5225",
        "no\u{7f}de:5225",
        "no\u{a0}de:5225",
        "no\u{2028}de:5225",
        "node:http",
        "node:٥٢٢٥",
        "::1:5225",
        "a:b:5225",
        "[::1]",
        "[::1]:",
        "[::1]5225",
        "[]:5225",
        "[node]:5225",
        "[::1:5225",
        "::1]:5225",
        "[[::1]]:5225",
        "[::1][::1]:5225",
        "x[::1]:5225",
        &too_long,
    ] {
        assert!(!is_address(bad), "{bad}");
    }
}

#[test]
fn a_reason_is_one_of_eight_words_and_no_other_bytes() {
    for reason in Reason::ALL {
        let text = reason.as_str().as_bytes();
        assert_eq!(Reason::from_bytes(text), Some(reason));
        assert_eq!(Reason::from_bytes(&text.to_ascii_uppercase()), None);
        assert_eq!(Reason::from_bytes(&[text, b" "].concat()), None);
        assert_eq!(Reason::from_bytes(&text[1..]), None);
    }
    assert_eq!(Reason::from_bytes(b""), None);
}
