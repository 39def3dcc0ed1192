//! Whatever the transports take of the ciphertext: what the other side can read, and what is believed of it, agree.

use std::collections::BTreeSet;

use proptest::collection::vec;
use proptest::prelude::*;
use ticketing_proto::client::AcquireError;
use ticketing_proto::tls::rustls::crypto::ring::default_provider;
use ticketing_proto::tls::{ClientTls, ServerTls};
use ticketing_proto::wire::{Decoder, FromClient, FromServer, Request};

use crate::rig::{
    CHALLENGE, Peer, START, World, acquire, broker, carry, connect, exchange, offered, options, polled,
    replies, server, wanted,
};

#[derive(Clone, Debug)]
enum Step {
    /// So many acquires in one piece.
    Ask(usize),
    /// What is polled, and how much of it is taken.
    Take(usize),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        (1..9_usize).prop_map(Step::Ask),
        prop_oneof![0..40_usize, 0..2000_usize].prop_map(Step::Take),
    ];
    vec(step, 1..25)
}

/// Records of the usual size, or small ones.
fn record_size() -> impl Strategy<Value = Option<usize>> {
    prop_oneof![Just(None), (32..200_usize).prop_map(Some)]
}

/// The whole frames of a stream of which the end may be missing.
fn whole_frames(bytes: &[u8], mut next: impl FnMut(&mut &[u8]) -> bool) {
    let mut rest = bytes;
    while next(&mut rest) {}
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    /// Each grant that the peer could read is held, and no other.
    #[test]
    fn a_server_holds_what_its_peer_could_read(steps in steps(), size in record_size(), with_eof in any::<bool>()) {
        let world = World::new();
        let mut config = world.server_config_with(default_provider());
        config.max_fragment_size = size;
        let mut server = server(Some(ServerTls::new(config.into()).expect("a good size")));
        let (id, mut peer) = connect(&mut server, START, &world.client_config());
        let (mut asked, mut taken) = (0, Vec::new());
        for step in steps {
            match step {
                Step::Ask(count) => {
                    let acquires: Vec<u8> =
                        (asked..asked + count).flat_map(|number| acquire(number as u64 + 1, 0, &format!("k{number}"))).collect();
                    asked += count;
                    let record = peer.seal(&acquires);
                    server.handle_data(START, id, &record);
                }
                Step::Take(len) => {
                    let bytes = polled(&mut server, id);
                    let len = len.min(bytes.len());
                    server.handle_transmitted(START, id, len);
                    taken.extend_from_slice(&bytes[..len]);
                }
            }
        }
        let mut plain = peer.input(&taken).expect("good TLS");
        if with_eof {
            server.handle_eof(START, id);
            plain.extend(exchange(&mut server, START, id, &mut peer));
            prop_assert_eq!(replies(&plain).len(), asked, "every reply but a waiter's is flushed (TR-10)");
        } else {
            server.handle_disconnected(START, id);
        }
        let mut read = 0;
        let mut decoder = Decoder::<FromServer>::new();
        whole_frames(&plain, |rest| {
            let is_whole = matches!(decoder.next(rest), Ok(Some(_)));
            read += u64::from(is_whole);
            is_whole
        });
        prop_assert_eq!(server.usage().keys.used, read);
        prop_assert_eq!(server.usage().acquires.used, 0);
    }

    /// Each acquire that the server could read, and more, is possibly sent; an unsent one nobody could.
    #[test]
    fn a_client_calls_nothing_unsent_that_its_server_could_read(steps in steps(), size in record_size()) {
        let world = World::new();
        let mut config = (*world.client_config()).clone();
        config.max_fragment_size = size;
        let mut client = broker(Some(ClientTls::new(config.into())));
        let id = wanted(&mut client)[0];
        let mut peer = Peer::server(&world.server_config());
        client.handle_connected(START, id);
        carry(&mut client, START, id, &mut peer);
        let challenge = peer.seal(CHALLENGE);
        client.handle_data(START, id, &challenge);
        let mut plain = carry(&mut client, START, id, &mut peer).split_off(44);
        let (mut asked, mut taken) = (Vec::new(), Vec::new());
        for step in steps {
            match step {
                Step::Ask(count) => asked.extend((0..count).map(|_| {
                    client.acquire(START, "k", options(9)).expect("nothing wrong with the call")
                })),
                Step::Take(len) => {
                    let bytes = offered(&mut client, START, id);
                    let len = len.min(bytes.len());
                    client.handle_transmitted(START, id, len);
                    taken.extend_from_slice(&bytes[..len]);
                }
            }
        }
        plain.extend(peer.input(&taken).expect("good TLS"));
        client.handle_disconnected(START, id);
        let mut read = BTreeSet::new();
        let mut decoder = Decoder::<FromClient>::new();
        whole_frames(&plain, |rest| match decoder.next(rest).expect("frames").map(Request::parse) {
            Some(Ok(Request::Acquire(acquire))) => read.insert(acquire.owner.value()),
            _ => false,
        });
        let (mut sent, mut unsent) = (BTreeSet::new(), BTreeSet::new());
        for id in asked {
            match client.claim(START, id) {
                Some(Err(AcquireError::Indeterminate)) => sent.insert(id.owner().value()),
                None => unsent.insert(id.owner().value()),
                other => panic!("{other:?}"),
            };
        }
        prop_assert!(read.is_subset(&sent), "{:?} {:?}", read, sent);
        prop_assert!(read.is_disjoint(&unsent));
    }
}
