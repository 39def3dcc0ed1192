//! Traffic keys do not last forever: TLS 1.3 takes new ones, TLS 1.2 ends. Here they last for a few records.

use std::sync::Arc;

use ticketing_proto::client::{AcquireError, Failure};
use ticketing_proto::server::CloseReason;
use ticketing_proto::tls::rustls::crypto::CryptoProvider;
use ticketing_proto::tls::rustls::crypto::ring::{cipher_suite, default_provider};
use ticketing_proto::tls::rustls::version::{TLS12, TLS13};
use ticketing_proto::tls::rustls::{
    CipherSuiteCommon, SupportedCipherSuite, Tls12CipherSuite, Tls13CipherSuite,
};
use ticketing_proto::tls::{ClientTls, ServerTls, TlsError};

use crate::rig::{
    CHALLENGE, Peer, START, World, acquire, broker, carry, close_reason, connect, exchange, failure, offered,
    options, polled, replies, server, wanted,
};

const RECORDS: u64 = 6;

/// A provider whose keys are used up after [`RECORDS`] records.
fn short_lived() -> CryptoProvider {
    let common = |common: &CipherSuiteCommon| CipherSuiteCommon {
        suite: common.suite,
        hash_provider: common.hash_provider,
        confidentiality_limit: RECORDS,
    };
    let (SupportedCipherSuite::Tls12(old), SupportedCipherSuite::Tls13(new)) =
        (cipher_suite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256, cipher_suite::TLS13_AES_128_GCM_SHA256)
    else {
        panic!("their versions are in their names");
    };
    let tls12 = Tls12CipherSuite {
        common: common(&old.common),
        prf_provider: old.prf_provider,
        kx: old.kx,
        sign: old.sign,
        aead_alg: old.aead_alg,
    };
    let tls13 = Tls13CipherSuite {
        common: common(&new.common),
        hkdf_provider: new.hkdf_provider,
        aead_alg: new.aead_alg,
        quic: None,
    };
    let cipher_suites = vec![
        SupportedCipherSuite::Tls12(Box::leak(Box::new(tls12))),
        SupportedCipherSuite::Tls13(Box::leak(Box::new(tls13))),
    ];
    CryptoProvider { cipher_suites, ..default_provider() }
}

fn short_lived_server(world: &World) -> ServerTls {
    ServerTls::new(Arc::new(world.server_config_with(short_lived()))).expect("a good configuration")
}

#[test]
fn with_tls_1_3_a_connection_outlives_its_keys() {
    let world = World::new();
    let mut server = server(Some(short_lived_server(&world)));
    let (id, mut peer) = connect(&mut server, START, &world.client_config_with(short_lived(), &[&TLS13]));
    for round in 1..=10 * RECORDS {
        let request = peer.seal(&acquire(round, 0, &format!("k{round}")));
        server.handle_data(START, id, &request);
        assert_eq!(replies(&exchange(&mut server, START, id, &mut peer)), [(b'A', Some(round))]);
    }
    assert_eq!(server.usage().acquires.used, 0);
}

/// What was swallowed by rustls counts as not delivered.
#[test]
fn with_tls_1_2_a_connection_ends_with_its_keys_and_undelivered_grants_are_released() {
    let world = World::new();
    let mut server = server(Some(short_lived_server(&world)));
    let (id, mut peer) =
        connect(&mut server, START, &world.client_config_with(default_provider(), &[&TLS12]));
    let mut delivered = 0;
    loop {
        let request = peer.seal(&acquire(delivered + 1, 0, &format!("k{delivered}")));
        server.handle_data(START, id, &request);
        let records = polled(&mut server, id);
        server.handle_transmitted(START, id, records.len());
        let came = replies(&peer.input(&records).expect("good TLS")).len() as u64;
        if came == 0 {
            break;
        }
        delivered += came;
        assert!(delivered < 100);
    }
    assert!(peer.0.process_new_packets().expect("good TLS").peer_has_closed());
    server.handle_eof(START, id);
    let reason = close_reason(&mut server, id);
    assert_eq!(reason, Some(CloseReason::Tls(TlsError::KeysUsedUp)));
    assert_eq!(server.usage().keys.used, delivered);
}

#[test]
fn an_acquire_that_tls_1_2_swallowed_is_unsent() {
    let world = World::new();
    let config = world.client_config_with(short_lived(), &[&TLS12]);
    let mut client = broker(Some(ClientTls::new(config)));
    let id = wanted(&mut client)[0];
    let mut peer = Peer::server(&world.server_config());
    client.handle_connected(START, id);
    carry(&mut client, START, id, &mut peer);
    let challenge = peer.seal(CHALLENGE);
    client.handle_data(START, id, &challenge);
    let mut asked = Vec::new();
    let last = loop {
        let acquire = client.acquire(START, "k", options(5)).expect("nothing wrong with the call");
        let records = offered(&mut client, START, id);
        client.handle_transmitted(START, id, records.len());
        peer.input(&records).expect("good TLS");
        if let Some(failure) = failure(&mut client, id) {
            assert_eq!(failure, Failure::Tls(TlsError::KeysUsedUp));
            break acquire;
        }
        asked.push(acquire);
        assert!(asked.len() < 100);
    };
    assert!(peer.0.process_new_packets().expect("good TLS").peer_has_closed());
    for acquire in asked {
        assert_eq!(client.claim(START, acquire), Some(Err(AcquireError::Indeterminate)));
    }
    assert_eq!(client.claim(START, last), None, "it goes to another connection");
}
