//! Connections: handshake, backoff, routing, servers that talk nonsense (`CC`, `AU-7`, `FR-10`, `RD`).

use ticketing_proto::client::{AcquireError, Broker, BrokerConfig, Failure, ProtocolError};
use ticketing_proto::id::Owner;
use ticketing_proto::time::Instant;
use ticketing_proto::wire::auth::{BadChallenge, Secret};
use ticketing_proto::wire::{Reason, Reply};

use crate::rig::{CHALLENGE, Rig, key, millis, secs, token, wait};

/// AU-2, A05: the control.
#[test]
fn a_good_challenge_is_answered_with_the_vector() {
    let config = BrokerConfig { secret: Secret::new(*b"secret"), ..BrokerConfig::new(["a:1"], 0) };
    let mut broker = Broker::new(Instant::ORIGIN, config).expect("good");
    let Some(ticketing_proto::client::Event::Connect { connection, .. }) = broker.poll_event() else {
        panic!("it connects at once")
    };
    broker.handle_connected(Instant::ORIGIN, connection);
    let mut out = Vec::new();
    assert!(!broker.poll_transmit(Instant::ORIGIN, connection, &mut out), "the server speaks first");
    CHALLENGE.iter().for_each(|&byte| broker.handle_data(Instant::ORIGIN, connection, &[byte]));
    assert!(broker.poll_transmit(Instant::ORIGIN, connection, &mut out));
    assert_eq!(out, b"WvDLEd0VIA9cVatiwxXYXRGMDSXw0ibHllLgAMBffdg\n");
    assert!(broker.is_ready());
}

/// A05, AU-7: with or without a token.
#[test]
fn a_bad_challenge_is_not_answered() {
    let long = [b"sha256 ".as_slice(), &[b'x'; 186]].concat();
    let cases: [(&[u8], BadChallenge); 9] = [
        (b"none aB3dEf_g\n", BadChallenge::Algorithm),
        (b"plain aB3dEf_g\n", BadChallenge::Algorithm),
        (b"sha1 aB3dEf_g\n", BadChallenge::Algorithm),
        (b"SHA-256 aB3dEf_g\n", BadChallenge::Algorithm),
        (b" sha256 aB3dEf_g\n", BadChallenge::Algorithm),
        (b"sha256  aB3dEf_g\n", BadChallenge::Nonce),
        (b"sha256 aB3dEf_\n", BadChallenge::Nonce),
        (b"Enot_active\n", BadChallenge::Algorithm),
        (&long, BadChallenge::TooLong),
    ];
    for secret in [Secret::default(), Secret::new(*b"secret")] {
        for (challenge, error) in cases {
            let config = BrokerConfig { secret: secret.clone(), ..BrokerConfig::new(["a:1"], 0) };
            let mut rig = Rig::with(config);
            let id = rig.acquire("k", wait(secs(2)));
            let first = rig.peers[0].id;
            rig.broker.handle_connected(rig.now, first);
            rig.data(first, challenge);
            let failure = Failure::Protocol(ProtocolError::Challenge(error));
            assert_eq!(rig.peer(first).failure, Some(failure), "{}", challenge.escape_ascii());
            rig.pass(secs(2));
            assert_eq!(rig.error(id), AcquireError::Protocol(ProtocolError::Challenge(error)));
            assert_eq!(rig.seen(), []);
        }
    }
}

/// F23, FR-10: the connection ends there and then, and what was sent is unknown.
#[test]
fn a_server_that_talks_nonsense_is_left_at_once() {
    let mut too_long = vec![b'M'];
    too_long.extend_from_slice(&[b'x'; 192]);
    let cases: [&[u8]; 9] = [
        b"Z\n",
        &too_long,
        b"M\xc3\x28\n",
        b"A\0\0\0\0\0\0\0\x01\0\0\0\0\0\0\0\x01\n",
        b"A\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x01k\n",
        b"A\0\0\0\0\0\0\0\x01\0\0\0\0\0\0\0\0k\n",
        b"Enonsense\n",
        b"Mnowhere\n",
        b"T\0\0\0\0\0\0\0\x63k\n",
    ];
    for nonsense in cases {
        let (mut rig, first) = Rig::ready();
        let (id, _) = rig.acquire_on(first, "k", wait(secs(20)));
        rig.data(first, nonsense);
        assert!(matches!(rig.peer(first).failure, Some(Failure::Protocol(_))), "{}", nonsense.escape_ascii());
        assert_eq!(rig.error(id), AcquireError::Indeterminate);
        // What comes after it is not looked at.
        rig.data(first, &[b'x'; 4096]);
    }
}

/// CC-4
#[test]
fn a_handshake_has_10_s() {
    let mut rig = Rig::new(&["a:1"]);
    let (silent, unconnected) = (rig.peers[0].id, rig.peers[1].id);
    rig.pass(secs(4));
    rig.broker.handle_connected(rig.now, silent);
    rig.pass(millis(5999));
    assert_eq!((rig.peer(silent).failure, rig.peer(unconnected).failure), (None, None));
    rig.pass(millis(1));
    assert_eq!(rig.peer(silent).failure, Some(Failure::HandshakeTimeout));
    assert_eq!(rig.peer(unconnected).failure, Some(Failure::HandshakeTimeout));
}

/// C05, CC-3: each connection tries again after 100 ms, doubling to 3.2 s, with jitter.
#[test]
fn reconnects_back_off() {
    let mut rig = Rig::new(&["a:1", "b:1"]);
    let mut last = rig.now;
    for nominal in [100, 200, 400, 800, 1600, 3200, 3200] {
        let newest = rig.newest(0);
        rig.reset(newest);
        while rig.newest(0) == newest {
            rig.pass(millis(1));
        }
        let pause = rig.now.saturating_since(last);
        assert!(
            pause >= millis(nominal) && pause <= millis(nominal * 3 / 2 + 1),
            "{pause:?} after {nominal}"
        );
        last = rig.now;
    }
}

/// C05: a session shorter than 1 s does not reset the backoff, a longer one does.
#[test]
fn only_a_session_of_1_s_resets_the_backoff() {
    for (lived, is_failed) in [(999, true), (1000, false)] {
        let mut rig = Rig::new(&["a:1", "b:1"]);
        for _ in 0..4 {
            let newest = rig.newest(0);
            rig.reset(newest);
            rig.pass(secs(5));
        }
        let newest = rig.newest(0);
        rig.greet(newest);
        rig.pass(millis(lived));
        let end = rig.now;
        rig.eof(newest);
        while rig.newest(0) == newest {
            rig.pass(millis(1));
        }
        let pause = rig.now.saturating_since(end);
        assert_eq!(pause >= millis(1600), is_failed, "{pause:?} after {lived} ms");
    }
}

/// C05: clients that lost their server at one moment do not come back at one moment.
#[test]
fn jitter_spreads_many_clients() {
    let mut slots = std::collections::BTreeMap::new();
    for seed in 0..500 {
        let mut rig = Rig::with(BrokerConfig::new(["a:1", "b:1"], seed));
        for _ in 0..6 {
            let newest = rig.newest(0);
            rig.reset(newest);
            rig.pass(secs(5));
        }
        let (newest, start) = (rig.newest(0), rig.now);
        rig.reset(newest);
        while rig.newest(0) == newest {
            rig.pass(millis(10));
        }
        *slots.entry(rig.now.saturating_since(start).as_millis() / 100).or_insert(0) += 1;
    }
    assert!(slots.values().all(|&count| count <= 50), "{slots:?}");
}

/// CC-3
#[test]
fn a_refused_token_fails_acquires_once_no_connection_can_carry_them() {
    let (mut rig, first, second) = Rig::both_ready();
    let (id, _) = rig.acquire_on(first, "k", wait(secs(20)));
    rig.reply(first, Reply::Error(Reason::AuthFailed));
    assert_eq!(rig.peer(first).failure, Some(Failure::Auth));
    rig.pass(millis(10));
    assert_eq!(rig.peer(second).seen.len(), 1, "nothing was executed, so it goes elsewhere");
    assert_eq!(rig.claim(id), None);
    rig.reply(second, Reply::Error(Reason::AuthFailed));
    assert_eq!(rig.error(id), AcquireError::Auth);
    assert_eq!(rig.broker.acquire(rig.now, "k", wait(secs(20))), Err(AcquireError::Auth));
    assert_eq!(rig.broker.last_failure(), Some(Failure::Auth));
    rig.pass(millis(3189));
    assert_eq!(rig.open(), 0, "not faster than the longest backoff");
    rig.pass(secs(2));
    assert_eq!(rig.open(), 2);
    let newest = rig.newest(0);
    rig.greet(newest);
    rig.acquire_on(newest, "k", wait(secs(20)));
}

/// CC-3: also where the other node can't be reached.
#[test]
fn a_refused_token_is_the_answer_when_no_other_connection_comes_up() {
    let mut rig = Rig::new(&["a:1", "b:1"]);
    let (refusing, down) = (rig.peers[0].id, rig.peers[1].id);
    rig.reset(down);
    rig.greet(refusing);
    let (id, _) = rig.acquire_on(refusing, "k", wait(secs(2)));
    rig.reply(refusing, Reply::Error(Reason::AuthFailed));
    rig.pass(millis(1999));
    assert_eq!(rig.claim(id), None, "the other one may still come up");
    rig.pass(millis(1));
    assert_eq!(rig.error(id), AcquireError::Auth);
}

/// CC-1
#[test]
fn one_broken_connection_does_not_interrupt_service() {
    let (mut rig, first, second) = Rig::both_ready();
    rig.reset(first);
    rig.acquire_on(second, "k", wait(secs(20)));
    assert!(rig.broker.is_ready());
}

/// CC-2
#[test]
fn requests_go_round_the_usable_connections() {
    let (mut rig, first, second) = Rig::both_ready();
    for n in 0..10 {
        rig.acquire(&format!("k{n}"), wait(secs(20)));
    }
    assert_eq!((rig.peer(first).seen.len(), rig.peer(second).seen.len()), (5, 5));
}

/// CC-2, RD-3: `L` and `M` name the leader, as text, case folded.
#[test]
fn requests_go_to_the_known_leader() {
    let mut rig = Rig::new(&["a:1", "b:1", "c:1"]);
    let (a, b, c) = (rig.peers[0].id, rig.peers[1].id, rig.peers[2].id);
    [a, b, c].into_iter().for_each(|peer| rig.greet(peer));
    rig.reply(a, Reply::LeaderChanged { leader: Some("B:1") });
    for n in 0..3 {
        rig.acquire_on(b, &format!("k{n}"), wait(secs(20)));
    }
    rig.reply(b, Reply::Moved { leader: "c:1" });
    assert_eq!(rig.peer(b).failure, Some(Failure::Redirected));
    rig.pass(millis(10));
    assert_eq!(rig.peer(c).seen.len(), 3, "all three are retried where the leader is");
    rig.reply(c, Reply::LeaderChanged { leader: Some("stranger:1") });
    let before = rig.peer(a).seen.len();
    (0..4).for_each(|n| _ = rig.acquire(&format!("m{n}"), wait(secs(20))));
    assert!(rig.peer(a).seen.len() > before, "an unknown address clears it: round robin again");
    rig.reply(c, Reply::LeaderChanged { leader: None });
    assert_eq!(rig.peer(c).failure, None);
}

/// CC-2: requests wait for a leader that is just being connected to, and not for one that can't be reached.
#[test]
fn a_leader_that_cannot_be_reached_does_not_stop_requests() {
    let mut rig = Rig::new(&["a:1", "b:1"]);
    let (a, b) = (rig.peers[0].id, rig.peers[1].id);
    rig.greet(a);
    rig.reply(a, Reply::LeaderChanged { leader: Some("b:1") });
    rig.acquire("k", wait(secs(20)));
    assert_eq!(rig.seen(), []);
    rig.reset(b);
    rig.acquire("l", wait(secs(20)));
    assert_eq!(rig.peer(a).seen.len(), 2);
}

/// A node that redirects without being asked is not reconnected to in a tight loop.
#[test]
fn unasked_redirects_do_not_make_a_storm() {
    let mut rig = Rig::new(&["a:1", "b:1"]);
    for _ in 0..100 {
        let newest = rig.newest(0);
        if rig.peer(newest).failure.is_none() {
            rig.greet(newest);
            rig.reply(newest, Reply::Error(Reason::NotActive));
        }
        rig.pass(millis(10));
    }
    let tries = rig.peers.iter().filter(|peer| peer.address == 0).count();
    assert!((5..=11).contains(&tries), "{tries} in a second");
}

/// FR-4: keep-alives are ignored in this direction too.
#[test]
fn lone_line_feeds_are_ignored() {
    let (mut rig, first) = Rig::ready();
    rig.data(first, &[b'\n'; 100_000]);
    let (id, request) = rig.acquire_on(first, "k", wait(secs(20)));
    rig.data(first, b"\n\n");
    rig.reply(first, Reply::Busy { owner: request.owner(), key: key("k") });
    assert_eq!(rig.error(id), AcquireError::Busy);
}

/// A11
#[test]
fn debug_output_shows_no_secret() {
    let config = BrokerConfig { secret: Secret::new(*b"hunter2hunter2!!"), ..BrokerConfig::new(["a:1"], 0) };
    let text = format!("{config:?} {:?}", Broker::new(Instant::ORIGIN, config.clone()).expect("good"));
    assert!(!text.contains("hunter2") && !text.contains("104, 117, 110"), "{text}");
}

/// Whatever a server sends, split anyhow, nothing panics and every acquire ends by its deadline.
#[test]
fn random_bytes_never_panic_and_every_acquire_ends() {
    let mut state = 42_u64;
    let mut random = move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        state >> 33
    };
    for _ in 0..500 {
        let mut rig = Rig::new(&["a:1"]);
        let ids: Vec<_> = (0..4).map(|n| rig.acquire(&format!("k{n}"), wait(secs(2)))).collect();
        for _ in 0..20 {
            let peer = rig.peers[random() as usize % rig.peers.len()].id;
            match random() % 6 {
                0 => rig.greet(peer),
                1 => rig.eof(peer),
                2 => {
                    let owner = Owner::new(random() % 5 + 1).expect("not 0");
                    rig.reply(
                        peer,
                        Reply::Acquired { token: token(random() % 3 + 1), owner, key: key("k1") },
                    );
                }
                3 => {
                    let mut bytes: Vec<u8> = (0..random() % 40).map(|_| random() as u8).collect();
                    bytes.insert(0, b"ATBRNMLE\n"[random() as usize % 9]);
                    bytes.push(b'\n');
                    rig.data(peer, &bytes);
                }
                4 => rig.broker.handle_write_failed(rig.now, peer),
                _ => rig.pass(millis(random() % 200)),
            }
        }
        rig.pass(secs(5));
        for id in ids {
            assert!(rig.claim(id).is_some());
        }
        rig.broker.close(rig.now);
        rig.pump();
        rig.pass(secs(5));
        assert!(rig.is_closed);
        assert_eq!(rig.broker.outstanding(), 0);
        assert_eq!(rig.broker.poll_timeout(), None::<Instant>);
    }
}
