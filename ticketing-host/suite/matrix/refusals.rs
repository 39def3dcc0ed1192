//! Who is refused, and what is said then.

use std::time::Instant;

use ticketing_tokio::tls::{ClientTls, TlsError, system_time};
use ticketing_tokio::{AcquireError, Failure, ProtocolError, Released};

use super::certificates::{Authority, Identity};
use super::clients::Client;
use super::servers::Terms;
use super::{AUTHORITY, IDENTITY, OPTIONS, PATIENCE, Pair, SECOND, Security, trust, with_each};

#[test]
fn a_wrong_token_is_refused_and_said() {
    with_each(Pair::with(|security| !security.secret().is_empty()), |pair| {
        let server = pair.server.start(pair.security.terms());
        for secret in ["", "wrong"] {
            let client = pair.client.connect(server.address(), secret, pair.security.trust());
            assert_eq!(client.acquire("k", OPTIONS).err(), Some(AcquireError::Auth));
            assert_eq!(client.last_failure(), Some(Failure::Auth));
        }
        // Nobody else suffers from it.
        assert!(pair.connect(&server).acquire("k", OPTIONS).is_ok());
    });
}

/// How the client's acquire fails for want of TLS. It ends at its own deadline; a busy machine may take longer than
/// that to come to the fault.
pub(crate) fn tls_fault(client: &dyn Client) -> TlsError {
    let start = Instant::now();
    loop {
        match client.acquire("k", OPTIONS.wait(SECOND)).err() {
            Some(AcquireError::Protocol(ProtocolError::Tls(fault))) => {
                assert_eq!(client.last_failure(), Some(Failure::Tls(fault)));
                return fault;
            }
            Some(AcquireError::Timeout) if start.elapsed() < PATIENCE => {}
            other => panic!("no fault of TLS: {other:?}"),
        }
    }
}

#[test]
fn each_wrong_certificate_is_refused_with_its_reason() {
    let other = Authority::new("other");
    let (elsewhere, expired) = (AUTHORITY.identity(&["locks.example"]), AUTHORITY.expired(&["127.0.0.1"]));
    let wrong: [(&Identity, &(dyn Fn() -> ClientTls + Sync), TlsError); 4] = [
        (&IDENTITY, &|| other.trust(system_time()), TlsError::UnknownIssuer),
        (&elsewhere, &trust, TlsError::WrongName),
        (&IDENTITY, &|| trust().server_name("locks.example").expect("a name"), TlsError::WrongName),
        (&expired, &trust, TlsError::Expired),
    ];
    with_each(Pair::with(Security::has_tls), |pair| {
        for (identity, trust, fault) in wrong {
            let server = pair.server.start(Terms { identity: Some(identity), ..pair.security.terms() });
            let client = pair.client.connect(server.address(), pair.security.secret(), Some(trust()));
            assert_eq!(tls_fault(&*client), fault);
        }
    });
}

#[test]
fn other_names_and_expired_ones_are_accepted_by_those_who_say_so() {
    let elsewhere = AUTHORITY.identity(&["locks.example"]);
    let expired = AUTHORITY.expired(&["127.0.0.1"]);
    let anything = || ClientTls::dangerous_without_verification(system_time()).expect("the provider's");
    with_each(Pair::with(Security::has_tls), |pair| {
        for (identity, trust) in
            [(&elsewhere, trust().server_name("locks.example").expect("a name")), (&expired, anything())]
        {
            let server = pair.server.start(Terms { identity: Some(identity), ..pair.security.terms() });
            let client = pair.client.connect(server.address(), pair.security.secret(), Some(trust));
            let ticket = client.acquire("k", OPTIONS).expect("it is free");
            assert_eq!(ticket.release(), Ok(Released::Released));
        }
    });
}
