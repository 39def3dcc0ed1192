//! Frames that come split and merged, and streams that end behind them.

use std::collections::BTreeSet;
use std::thread::sleep;
use std::time::Duration;

use ticketing_proto::wire::auth::Secret;

use super::support::{Client, Running, Said, acquire, limited, release, response};

/// Every way to cut `len` bytes in two or in three.
fn cuts(len: usize) -> Vec<[usize; 2]> {
    (1..len).flat_map(|first| (first..len).map(move |second| [first, second])).collect()
}

/// Writes each client's bytes in the pieces of its cut, with a pause in between that all clients share.
fn send_in_pieces(clients: &mut [(Client, Vec<u8>, [usize; 2])]) {
    for piece in 0..3 {
        for (client, bytes, [first, second]) in clients.iter_mut() {
            let pieces = [&bytes[..*first], &bytes[*first..*second], &bytes[*second..]];
            client.send(pieces[piece]);
        }
        sleep(Duration::from_millis(20));
    }
}

/// F01
#[test]
fn frames_split_at_every_byte_are_answered_as_whole_ones() {
    let server = Running::start();
    for plain in ['!', '\u{a1}'] {
        // As many keys as cuts, all of one length.
        let keys = (u32::from(plain)..).filter_map(char::from_u32).map(String::from);
        let cut = cuts(acquire(5, 10, 1, &plain.to_string()).len());
        let frames = keys.map(|key| (acquire(5, 10, 1, &key), key));
        let mut clients = Vec::new();
        let mut expected = Vec::new();
        for (cut, (frame, key)) in cut.into_iter().zip(frames) {
            assert_eq!(key.len(), plain.len_utf8());
            clients.push((server.client(), frame, cut));
            expected.push(key);
        }
        send_in_pieces(&mut clients);
        for ((client, ..), key) in clients.iter_mut().zip(&expected) {
            client.granted(1, key);
        }

        let key = plain.to_string();
        let frame = release(1, &key);
        let mut clients: Vec<_> =
            cuts(frame.len()).into_iter().map(|cut| (server.client(), frame.clone(), cut)).collect();
        send_in_pieces(&mut clients);
        for (client, _, cut) in &mut clients {
            let said = client.hear();
            assert!(matches!(said, Said::NotHeld { .. } | Said::Released { .. }), "{cut:?}: {said:?}");
            client.sentinel("behind");
        }
    }
}

/// F01, `AU-4`
#[test]
fn a_response_split_at_every_byte_is_accepted() {
    let server = Running::with(limited(|limits| limits.unauthenticated = 4000));
    // Each has 10 s for its handshake, so that not all of them go at once.
    for cuts in cuts(44).chunks(100) {
        let mut clients = Vec::new();
        for &cut in cuts {
            let mut client = server.stranger();
            let nonce = client.challenge();
            clients.push((client, response(&Secret::default(), &nonce), cut));
        }
        send_in_pieces(&mut clients);
        for (client, ..) in &mut clients {
            client.sentinel("in");
        }
    }
}

/// F08
#[test]
fn five_hundred_frames_in_one_write_are_all_answered() {
    let server = Running::start();
    let mut other = server.client();
    for ends in [false, true] {
        let mut client = server.client();
        let frames =
            (1..=500).flat_map(|owner| [acquire(0, 60, owner, &format!("{ends}-{owner}")), b"\n".to_vec()]);
        client.send(&frames.collect::<Vec<_>>().concat());
        if ends {
            client.shut_down_write();
        }
        let mut owners = BTreeSet::new();
        for _ in 0..500 {
            match client.hear() {
                Said::Acquired { owner, key, .. } if key == format!("{ends}-{owner}") => owners.insert(owner),
                other => panic!("{other:?}"),
            };
        }
        assert_eq!(owners.len(), 500);
        if ends {
            assert_eq!(client.hear(), Said::End);
        } else {
            client.sentinel("behind");
        }
        // The holds outlive the connection.
        let key = format!("{ends}-500");
        other.ask(0, 1, 1, &key);
        assert_eq!(other.hear(), Said::TimedOut { owner: 1, key });
    }
}

/// F20
#[test]
fn a_half_close_right_after_the_request_still_gets_its_reply() {
    let server = Running::start();
    let mut client = server.client();
    client.ask(0, 60, 1, "k");
    client.shut_down_write();
    let token = client.granted(1, "k");
    assert_eq!(client.hear(), Said::End);

    let mut waiter = server.client();
    waiter.ask(60, 60, 2, "k");
    waiter.shut_down_write();
    assert_eq!(waiter.hear_all(), [Said::End]);
    let mut next = server.client();
    next.ask(60, 60, 3, "k");
    next.sentinel("queued");

    let mut client = server.client();
    client.send(&release(token, "k"));
    client.shut_down_write();
    assert_eq!(client.hear_all(), [Said::Released { token, key: "k".to_owned() }, Said::End]);
    next.granted(3, "k");
}

/// N16, `TR-9`
#[test]
fn unread_input_does_not_destroy_replies() {
    let server = Running::start();
    let mut client = server.client();
    let frames: Vec<u8> = (1..=1000).flat_map(|owner| acquire(0, 1, owner, &format!("k{owner}"))).collect();
    client.send(&[&frames[..], b"?", &[b'x'; 100_000]].concat());
    sleep(Duration::from_millis(1500));
    for owner in 1..=1000 {
        client.granted(owner, &format!("k{owner}"));
        if owner % 100 == 0 {
            sleep(Duration::from_millis(20));
        }
    }
    assert_eq!(client.hear_all(), [Said::Error("bad_op".to_owned()), Said::End]);
}
