//! A certificate that is not accepted: each with its reason, on both sides.

use rcgen::{BasicConstraints, ExtendedKeyUsagePurpose, IsCa, PKCS_ECDSA_P256_SHA256, PKCS_ED25519};
use ticketing_proto::client::{AcquireError, Broker, Failure, ProtocolError};
use ticketing_proto::id::ConnectionId;
use ticketing_proto::server::{CloseReason, Server};
use ticketing_proto::tls::{ClientTls, ServerTls, TlsError};

use crate::certificates::{Authority, Calendar, Identity};
use crate::rig::{
    START, World, broker, broker_of, close_reason, failure, offered, options, polled, secs, server, wanted,
};

/// Carries everything between a client's connection and a server's, until neither has any.
fn carry(client: &mut Broker, here: ConnectionId, server: &mut Server, there: ConnectionId) {
    loop {
        let up = offered(client, START, here);
        if !up.is_empty() {
            client.handle_transmitted(START, here, up.len());
            server.handle_data(START, there, &up);
        }
        let down = polled(server, there);
        if !down.is_empty() {
            server.handle_transmitted(START, there, down.len());
            client.handle_data(START, here, &down);
        }
        if up.is_empty() && down.is_empty() {
            return;
        }
    }
}

/// What the client and the server say of a connection. The client's acquire ends for the client's reason.
fn met(server_tls: ServerTls, client_tls: ClientTls) -> (Option<Failure>, Option<CloseReason>) {
    let mut server = server(Some(server_tls));
    let mut client = broker(Some(client_tls));
    let mut ends = (None, None);
    let asked = client.acquire(START, "k", options(1)).expect("nothing wrong with the call");
    for here in wanted(&mut client) {
        let there = server.accept(START, [7; 32]).expect("room");
        client.handle_connected(START, here);
        carry(&mut client, here, &mut server, there);
        let failed = failure(&mut client, here);
        server.handle_eof(START, there);
        let last_words = polled(&mut server, there).len();
        server.handle_transmitted(START, there, last_words);
        ends = (failed, close_reason(&mut server, there));
    }
    let outcome = client.claim(START, asked);
    let Some(Failure::Tls(reason)) = ends.0 else {
        assert!(matches!(outcome, Some(Ok(_))), "{outcome:?}");
        return ends;
    };
    assert_eq!(outcome, None);
    client.handle_timeout(START + secs(1));
    let error = AcquireError::Protocol(ProtocolError::Tls(reason));
    assert!(error.is_certain());
    assert_eq!(client.claim(START + secs(1), asked), Some(Err(error)));
    ends
}

fn refused(alert: u8) -> Option<CloseReason> {
    Some(CloseReason::Tls(TlsError::Refused { alert }))
}

#[test]
fn each_fault_of_a_certificate_has_its_reason_on_both_sides() {
    let world = World::new();
    let (time, authority) = (|| world.calendar.provider(), &world.authority);
    let client = || world.client_tls();

    let stranger = Authority::new("stranger").identity(&["server"]);
    let ends = met(stranger.server(time()), client());
    assert_eq!(ends, (Some(Failure::Tls(TlsError::UnknownIssuer)), refused(48)));

    let other = authority.identity(&["other"]);
    let ends = met(other.server(time()), client());
    assert_eq!(ends.0, Some(Failure::Tls(TlsError::WrongName)));
    assert!(matches!(ends.1, Some(CloseReason::Tls(TlsError::Refused { .. }))), "{ends:?}");

    let for_clients = authority.sign(&["server"], |params| {
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    });
    let ends = met(for_clients.server(time()), client());
    assert_eq!(ends.0, Some(Failure::Tls(TlsError::WrongPurpose)));

    let signer =
        authority.sign(&["server"], |params| params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained));
    let ends = met(signer.server(time()), client());
    assert_eq!(ends.0, Some(Failure::Tls(TlsError::AuthorityCertificate)));

    // By other keys, under the name of the one that is trusted.
    for algorithm in [&PKCS_ECDSA_P256_SHA256, &PKCS_ED25519] {
        let impostor = Authority::with_key("authority", algorithm).identity(&["server"]);
        let ends = met(impostor.server(time()), client());
        assert_eq!(ends.0, Some(Failure::Tls(TlsError::BadSignature)));
    }

    let expired = authority.expired(&["server"]);
    let ends = met(expired.server(time()), client());
    assert_eq!(ends, (Some(Failure::Tls(TlsError::Expired)), refused(45)));
}

#[test]
fn a_certificate_of_the_future_is_not_valid_yet() {
    let world = World::new();
    let early = Calendar::early().provider();
    let ends = met(world.server_tls(), world.authority.trust(early));
    assert_eq!(ends.0, Some(Failure::Tls(TlsError::NotValidYet)));
}

#[test]
fn a_name_that_is_given_is_the_one_that_counts() {
    let world = World::new();
    let other = world.authority.identity(&["other"]);
    let named = world.client_tls().server_name("other").expect("a name");
    assert_eq!(met(other.server(world.calendar.provider()), named.clone()), (None, Some(CloseReason::Ended)));
    let ends = met(world.server_tls(), named);
    assert_eq!(ends.0, Some(Failure::Tls(TlsError::WrongName)));
}

/// IPv6 literals, with and without a scope, and IPv4.
#[test]
fn a_certificate_can_hold_for_addresses() {
    let world = World::new();
    let numbers = world.authority.identity(&["127.0.0.1", "::1", "fe80::1"]);
    for (address, is_accepted) in [
        ("127.0.0.1:5225", true),
        ("[::1]:5225", true),
        ("[0:0:0:0:0:0:0:1]:5225", true),
        ("[fe80::1%eth0]:5225", true),
        ("[::2]:5225", false),
        ("127.0.0.2:5225", false),
    ] {
        let mut server = server(Some(numbers.server(world.calendar.provider())));
        let mut client = broker_of([address], Some(world.client_tls()));
        let here = wanted(&mut client)[0];
        let there = server.accept(START, [7; 32]).expect("room");
        client.handle_connected(START, here);
        carry(&mut client, here, &mut server, there);
        assert_eq!(client.is_ready(), is_accepted, "{address}");
        let reason = failure(&mut client, here);
        assert_eq!(reason, (!is_accepted).then_some(Failure::Tls(TlsError::WrongName)), "{address}");
    }
}

#[test]
fn without_verification_everybody_is_accepted() {
    let world = World::new();
    let Identity { certificate, key } = Authority::new("stranger").identity(&["elsewhere"]);
    let stranger =
        ServerTls::from_pem(certificate.as_bytes(), key.as_bytes(), world.calendar.provider()).expect("PEM");
    let client = ClientTls::dangerous_without_verification(world.calendar.provider()).expect("a client");
    assert_eq!(met(stranger, client), (None, Some(CloseReason::Ended)));
}
