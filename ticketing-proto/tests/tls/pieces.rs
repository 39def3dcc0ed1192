//! F01: the same frames, however they are cut into records, and records into reads.

use std::io::Write as _;

use ticketing_proto::id::ConnectionId;
use ticketing_proto::server::Server;

use crate::rig::{Peer, START, World, connect, exchange, polled, replies, response_to, server};

/// An acquire and a release of each key; the release has the token that is granted first.
fn frames() -> Vec<Vec<u8>> {
    let mut frames = Vec::new();
    for key in [&b"k"[..], &[0xc3, 0xa9]] {
        let acquire = [b"A\x05\x0a\0\0\0\0\0\0\0\x01", key, b"\n"].concat();
        frames.push([&acquire[..], b"R\0\0\0\0\0\0\0\x01", key, b"\n"].concat());
    }
    frames
}

fn served(
    server: &mut Server,
    id: ConnectionId,
    peer: &mut Peer,
    pieces: &[&[u8]],
) -> Vec<(u8, Option<u64>)> {
    for piece in pieces {
        let record = peer.seal(piece);
        server.handle_data(START, id, &record);
    }
    replies(&exchange(server, START, id, peer))
}

/// One record per piece, for every one and every two places to cut at.
#[test]
fn frames_cut_into_records_mean_what_they_mean_in_one() {
    let world = World::new();
    let (tls, config) = (world.server_tls(), world.client_config());
    for bytes in frames() {
        let expected = [(b'A', Some(1)), (b'R', None)];
        for first in 0..bytes.len() {
            // One connection per `first`: a key that is granted anew has another token.
            let mut server = server(Some(tls.clone()));
            let (id, mut peer) = connect(&mut server, START, &config);
            let second = first + (bytes.len() - first) / 2;
            let pieces = [&bytes[..first], &bytes[first..second], &bytes[second..]];
            assert_eq!(served(&mut server, id, &mut peer, &pieces), expected, "{first}, {second}");
        }
        let mut server = server(Some(tls.clone()));
        let (id, mut peer) = connect(&mut server, START, &config);
        let (acquire, release) = bytes.split_at(bytes.len() / 2 + 1);
        let mut token = 1_u8;
        for first in 1..acquire.len() {
            for second in first..acquire.len() {
                let pieces = [&acquire[..first], &acquire[first..second], &acquire[second..]];
                let got = served(&mut server, id, &mut peer, &pieces);
                assert_eq!(got, [(b'A', Some(u64::from(token)))], "{first}, {second}");
                let mut release = release.to_vec();
                release[8] = token;
                let cut = first % release.len();
                let got = served(&mut server, id, &mut peer, &[&release[..cut], &release[cut..]]);
                assert_eq!(got, [(b'R', None)]);
                token += 1;
            }
        }
    }
}

/// The handshakes, too: the ciphertext comes and goes byte by byte.
#[test]
fn a_connection_byte_by_byte_means_what_it_means_in_one_piece() {
    let world = World::new();
    for bytes in frames() {
        let mut server = server(Some(world.server_tls()));
        let id = server.accept(START, [7; 32]).expect("room");
        let mut peer = Peer::client(&world.client_config());
        let mut plain = Vec::new();
        let mut is_authenticated = false;
        loop {
            let up = peer.output();
            for byte in up.chunks(1) {
                server.handle_data(START, id, byte);
            }
            let mut is_idle = up.is_empty();
            loop {
                let down = polled(&mut server, id);
                let Some(first) = down.get(..1) else { break };
                server.handle_transmitted(START, id, 1);
                plain.extend(peer.input(first).expect("good TLS"));
                is_idle = false;
            }
            if !is_authenticated && plain.ends_with(b"\n") {
                let response = response_to(&plain);
                plain.clear();
                peer.0.writer().write_all(&response).expect("room");
                peer.0.writer().write_all(&bytes).expect("room");
                is_authenticated = true;
            } else if is_idle {
                break;
            }
        }
        assert_eq!(replies(&plain), [(b'A', Some(1)), (b'R', None)]);
    }
}
