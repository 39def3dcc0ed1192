//! Certificates and tokens that change while the server runs.

use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ticketing_tokio::tls::ClientTls;
use ticketing_tokio::tls::rustls::client::WebPkiServerVerifier;
use ticketing_tokio::tls::rustls::client::danger::{
    HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier,
};
use ticketing_tokio::tls::rustls::pki_types::pem::PemObject as _;
use ticketing_tokio::tls::rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use ticketing_tokio::tls::rustls::{
    self, ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme,
};
use ticketing_tokio::{AcquireError, Failure, Released, Secret};
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::certificates::Authority;
use crate::support::{OPTIONS, client, serve, soon};

const CLIENTS: usize = 64;
const CHANGES: usize = 10;

/// Verifies as every client does, and remembers which certificate it was.
#[derive(Debug)]
struct Witness {
    verifier: Arc<WebPkiServerVerifier>,
    seen: Arc<Mutex<Vec<u8>>>,
}

impl ServerCertVerifier for Witness {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        others: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let verified = self.verifier.verify_server_cert(certificate, others, name, ocsp, now)?;
        *self.seen.lock().unwrap() = certificate.to_vec();
        Ok(verified)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.verifier.verify_tls12_signature(message, certificate, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.verifier.verify_tls13_signature(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.verifier.supported_verify_schemes()
    }
}

/// A client's TLS, with its sessions, and the certificate that it has verified last.
fn witness(authority: &Authority) -> (ClientTls, Arc<Mutex<Vec<u8>>>) {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(authority.pem().as_bytes()).unwrap()).unwrap();
    let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider));
    let seen = Arc::default();
    let witness = Witness { verifier: verifier.build().unwrap(), seen: Arc::clone(&seen) };
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(witness))
        .with_no_client_auth();
    (ClientTls::new(Arc::new(config)), seen)
}

/// Clients that connect anew for each operation, and remember sessions: each sees every certificate, and no acquire
/// fails.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn certificates_change_under_load() {
    let authority = Authority::new("own");
    let secret = Secret::new(*b"a good secret");
    let running = serve(Some(authority.identity(&["127.0.0.1"]).server()), &secret).await;
    let address = running.address;
    let holder = client(address, Some(authority.trust()), &secret);
    let held = soon(holder.acquire("held", OPTIONS.lease(Duration::from_secs(250)))).await.expect("free");

    let is_over = Arc::new(AtomicBool::new(false));
    let mut tasks = JoinSet::new();
    let mut witnesses = Vec::new();
    for number in 0..CLIENTS {
        let (tls, seen) = witness(&authority);
        witnesses.push(seen);
        let (is_over, secret) = (Arc::clone(&is_over), secret.clone());
        tasks.spawn(async move {
            while !is_over.load(Ordering::Relaxed) {
                let client = client(address, Some(tls.clone()), &secret);
                let ticket = soon(client.acquire(&format!("k{number}"), OPTIONS)).await.expect("it is free");
                assert_eq!(soon(ticket.release()).await, Ok(Released::Released));
                assert_eq!(client.stats().failed_sessions, 0, "{:?}", client.last_failure());
                soon(client.close()).await;
            }
        });
    }
    for _ in 0..CHANGES {
        let next = authority.identity(&["127.0.0.1"]);
        let expected = CertificateDer::from_pem_slice(next.certificate.as_bytes()).unwrap();
        running.reload.reload(Some(next.server()), secret.clone());
        let all_have_seen_it = async {
            while !witnesses.iter().all(|seen| **seen.lock().unwrap() == *expected) {
                assert!(tasks.try_join_next().is_none(), "a client has ended");
                sleep(Duration::from_millis(1)).await;
            }
        };
        soon(all_have_seen_it).await;
    }
    is_over.store(true, Ordering::Relaxed);
    while let Some(done) = tasks.join_next().await {
        done.expect("no assertion fails");
    }
    // The one connection that was there before all this lives on.
    assert_eq!(soon(held.release()).await, Ok(Released::Released));
    assert_eq!(holder.stats().failed_sessions, 0);
}

#[tokio::test]
async fn a_new_token_is_asked_of_new_connections_only() {
    let authority = Authority::new("own");
    let tls = authority.identity(&["127.0.0.1"]).server();
    let (old, new) = (Secret::new(*b"the old token"), Secret::new(*b"the new token"));
    let running = serve(Some(tls.clone()), &old).await;
    let before = client(running.address, Some(authority.trust()), &old);
    let held = soon(before.acquire("held", OPTIONS)).await.expect("it is free");
    running.reload.reload(Some(tls), new.clone());

    let late = client(running.address, Some(authority.trust()), &old);
    let refused = soon(late.acquire("k", OPTIONS)).await.expect_err("the token is an old one");
    assert_eq!(refused, AcquireError::Auth);
    assert_eq!(late.last_failure(), Some(Failure::Auth));
    let after = client(running.address, Some(authority.trust()), &new);
    let _ticket = soon(after.acquire("k", OPTIONS)).await.expect("it is free");
    assert_eq!(soon(held.release()).await, Ok(Released::Released));
    assert_eq!(before.stats().failed_sessions, 0);
}

/// From plain text to TLS and back, for new connections.
#[tokio::test]
async fn tls_itself_can_be_turned_on_and_off() {
    let authority = Authority::new("own");
    let secret = Secret::default();
    let running = serve(None, &secret).await;
    for tls in [None, Some(authority.identity(&["127.0.0.1"]).server()), None] {
        let trust = tls.as_ref().map(|_| authority.trust());
        running.reload.reload(tls, secret.clone());
        let client = client(running.address, trust, &secret);
        let ticket = soon(client.acquire("k", OPTIONS)).await.expect("it is free");
        assert_eq!(soon(ticket.release()).await, Ok(Released::Released));
        soon(client.close()).await;
    }
}
