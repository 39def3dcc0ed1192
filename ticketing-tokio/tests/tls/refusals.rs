//! Whom our client refuses, and what it says then.

use std::time::Duration;

use ticketing_tokio::tls::{ClientTls, ServerTls, TlsError, system_time};
use ticketing_tokio::{AcquireError, Failure, ProtocolError, Released, Secret};

use crate::certificates::Authority;
use crate::support::{OPTIONS, client, serve, soon};

/// What a client that is refused nothing but TLS says of this server.
async fn fault(server: ServerTls, trust: ClientTls) -> TlsError {
    let running = serve(Some(server), &Secret::default()).await;
    let client = client(running.address, Some(trust), &Secret::default());
    let error = soon(client.acquire("k", OPTIONS.wait(Duration::from_secs(1)))).await.expect_err("refused");
    let AcquireError::Protocol(ProtocolError::Tls(fault)) = error else { panic!("{error}") };
    assert_eq!(client.last_failure(), Some(Failure::Tls(fault)));
    assert_eq!(client.stats().sessions, 0);
    fault
}

#[tokio::test]
async fn each_certificate_that_is_wrong_is_refused_with_its_reason() {
    let (own, other) = (Authority::new("own"), Authority::new("other"));
    let good = own.identity(&["127.0.0.1"]);
    let (issuer, name, named, expired) = tokio::join!(
        fault(good.server(), other.trust()),
        fault(own.identity(&["locks.example"]).server(), own.trust()),
        fault(good.server(), own.trust().server_name("locks.example").expect("a name")),
        fault(own.expired(&["127.0.0.1"]).server(), own.trust()),
    );
    assert_eq!(issuer, TlsError::UnknownIssuer);
    assert_eq!((name, named), (TlsError::WrongName, TlsError::WrongName));
    assert_eq!(expired, TlsError::Expired);
}

#[tokio::test]
async fn right_ones_are_accepted_and_wrong_ones_only_by_those_who_verify_nothing() {
    let authority = Authority::new("own");
    let elsewhere = authority.identity(&["locks.example"]).server();
    let anything = ClientTls::dangerous_without_verification(system_time()).expect("the provider's");
    for (server, trust) in [
        (authority.identity(&["127.0.0.1"]).server(), authority.trust()),
        (elsewhere.clone(), authority.trust().server_name("locks.example").expect("a name")),
        (elsewhere, anything.clone()),
        (authority.expired(&["127.0.0.1"]).server(), anything),
    ] {
        let secret = Secret::new(*b"a good secret");
        let running = serve(Some(server), &secret).await;
        let client = client(running.address, Some(trust), &secret);
        let ticket = soon(client.acquire("k", OPTIONS)).await.expect("it is free");
        assert_eq!(soon(ticket.release()).await, Ok(Released::Released));
        soon(client.close()).await;
    }
}
