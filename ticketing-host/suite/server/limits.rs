//! Limits and back-pressure.

use std::io::{self, Read as _, Write as _};
use std::thread;
use std::time::{Duration, Instant};

use super::support::{Client, PATIENCE, Running, Said, acquire, limited};

/// Waits until the server has ended the connection, without reading what it says.
fn wait_for_end_unread(client: &mut Client) -> io::ErrorKind {
    client.stream.set_nonblocking(true).unwrap();
    let start = Instant::now();
    while start.elapsed() < PATIENCE {
        match client.stream.write(b"\n") {
            Err(error) if error.kind() != io::ErrorKind::WouldBlock => return error.kind(),
            _ => thread::sleep(Duration::from_millis(50)),
        }
    }
    panic!("the server does not end the connection");
}

/// Writes until the server does not read any more.
pub(super) fn write_until_full(client: &mut Client, bytes: &[u8]) -> usize {
    client.stream.set_write_timeout(Some(Duration::from_secs(2))).unwrap();
    let mut written = 0;
    while written < bytes.len() {
        match client.stream.write(&bytes[written..]) {
            Ok(len) => written += len,
            Err(error) => {
                assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
                break;
            }
        }
    }
    written
}

/// `AD-4`
#[test]
fn a_connection_beyond_the_limit_is_closed_right_after_accept() {
    let server = Running::with(limited(|limits| limits.connections = 3));
    let mut clients: Vec<Client> = (0..3).map(|_| server.client()).collect();
    clients.iter_mut().for_each(|client| client.sentinel("in"));
    assert_eq!(server.stranger().hear_all(), [Said::End]);
    clients.pop();
    let start = Instant::now();
    while !server.stranger().is_let_in() {
        assert!(start.elapsed() < PATIENCE, "the place is not free");
    }
    clients[0].sentinel("still in");
}

/// A08, A09, `AU-8`, `TR-7`
pub(crate) fn strangers_have_a_limit_of_their_own_and_10_seconds() {
    const PLACES: usize = 8;
    let server = Running::with(limited(|limits| limits.unauthenticated = PLACES as u32));
    let mut good = server.client();
    good.sentinel("in");
    let start = Instant::now();
    let mut strangers: Vec<Client> = (0..PLACES).map(|_| server.stranger()).collect();
    for (place, stranger) in strangers.iter_mut().enumerate() {
        stranger.challenge();
        if place % 2 == 1 {
            stranger.send(b"half-a-line");
        }
    }
    for _ in 0..20 {
        assert_eq!(server.stranger().hear_all(), [Said::End]);
    }
    good.sentinel("not affected");
    // Some go on to send a byte now and then, for ever: that does not help them.
    let ends: Vec<_> = strangers
        .into_iter()
        .enumerate()
        .map(|(place, mut stranger)| {
            thread::spawn(move || {
                let mut trickle = stranger.stream.try_clone().unwrap();
                let trickling = thread::spawn(move || {
                    while place % 4 == 1 && trickle.write_all(b"x").is_ok() {
                        thread::sleep(Duration::from_secs(1));
                    }
                });
                assert!(matches!(stranger.hear_all()[..], [Said::End | Said::Reset]));
                let end = start.elapsed().as_secs_f64();
                drop(stranger);
                trickling.join().unwrap();
                end
            })
        })
        .collect();
    for end in ends {
        let end = end.join().unwrap();
        assert!((10.0..25.0).contains(&end), "{end} s");
    }
    good.sentinel("never closed");
    server.client().sentinel("the places are free");
}

/// A08
#[test]
fn one_wrong_line_is_one_too_many() {
    let server = Running::start();
    let mut client = server.stranger();
    client.challenge();
    let mut writer = client.stream.try_clone().unwrap();
    // It may fail when the server has closed.
    let writing = thread::spawn(move || {
        for _ in 0..1000 {
            if writer.write_all(&b"x\n".repeat(1000)).is_err() {
                return;
            }
        }
    });
    let said = client.hear_all();
    assert_eq!(said[0], Said::Error("bad_request".to_owned()));
    assert!(matches!(said[1..], [Said::End | Said::Reset]), "{said:?}");
    drop(client);
    writing.join().unwrap();
}

/// R01, `AD-5`, `AD-6`
pub(crate) fn those_who_do_not_read_are_not_read_and_closed_after_10_seconds() {
    let server = Running::start();
    let mut holder = server.client();
    holder.take(0, 250, 1, "hot");
    let frame = acquire(0, 1, 1, "hot");
    let flood = frame.repeat(1_000_000);
    let start = Instant::now();
    let mut deaf: Vec<Client> = (0..5).map(|_| server.client()).collect();
    let written: Vec<usize> = thread::scope(|scope| {
        let fill = |client| {
            let flood = &flood;
            scope.spawn(move || write_until_full(client, flood))
        };
        let filling: Vec<_> = deaf.iter_mut().map(fill).collect();
        filling.into_iter().map(|filling| filling.join().unwrap()).collect()
    });
    assert!(written.iter().all(|&len| len < flood.len()), "the server goes on reading: {written:?}");
    holder.sentinel("served all the while");

    // One of them reads after all: it gets every reply.
    let mut late = deaf.pop().unwrap();
    let frames = written.last().unwrap().div_ceil(frame.len());
    let rest = flood[*written.last().unwrap()..frames * frame.len()].to_vec();
    let mut writer = late.stream.try_clone().unwrap();
    writer.set_write_timeout(Some(PATIENCE)).unwrap();
    let writing = thread::spawn(move || writer.write_all(&rest).unwrap());
    // `T` or `B`, the owner, the key, LF
    let mut replies = vec![0; frames * (1 + 8 + 3 + 1)];
    late.stream.read_exact(&mut replies).unwrap();
    writing.join().unwrap();
    assert!(replies.chunks(13).all(|reply| matches!(reply[0], b'T' | b'B') && reply.ends_with(b"hot\n")));
    late.sentinel("still in");

    for client in &mut deaf {
        let kind = wait_for_end_unread(client);
        assert!(matches!(kind, io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe), "{kind:?}");
        let elapsed = start.elapsed().as_secs_f64();
        assert!(elapsed >= 10.0, "{elapsed} s");
    }
    holder.sentinel("still in");
}
