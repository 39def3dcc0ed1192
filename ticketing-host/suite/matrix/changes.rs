//! Certificates and tokens that change while the server runs.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use ticketing_tokio::tls::ClientTls;
use ticketing_tokio::tls::rustls::client::WebPkiServerVerifier;
use ticketing_tokio::tls::rustls::client::danger::{
    HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier,
};
use ticketing_tokio::tls::rustls::crypto::ring;
use ticketing_tokio::tls::rustls::pki_types::pem::PemObject as _;
use ticketing_tokio::tls::rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use ticketing_tokio::tls::rustls::{ClientConfig, DigitallySignedStruct, Error, SignatureScheme};
use ticketing_tokio::{AcquireError, Failure, Released};

use super::clients::ClientKind;
use super::raw::roots;
use super::servers::{ServerKind, Terms};
use super::{AUTHORITY, OPTIONS, Pair, Security, eventually, trust, with_each};

const CLIENTS: usize = 64;
const CHANGES: usize = 10;
const SECRET: &str = Security::TlsAndToken.secret();
const LONG: Duration = Duration::from_secs(250);

/// The certificate that a client has verified last.
type Seen = Arc<Mutex<Vec<u8>>>;

/// Verifies as every client does, and remembers which certificate it was.
#[derive(Debug)]
struct Witness {
    verifier: Arc<WebPkiServerVerifier>,
    seen: Seen,
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
        *self.seen.lock().expect("nobody panics with it") = certificate.to_vec();
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

/// A client's TLS, with its sessions.
fn witness() -> (ClientTls, Seen) {
    let provider = Arc::new(ring::default_provider());
    let verifier =
        WebPkiServerVerifier::builder_with_provider(Arc::new(roots()), Arc::clone(&provider)).build();
    let seen = Seen::default();
    let witness = Witness { verifier: verifier.expect("an authority"), seen: Arc::clone(&seen) };
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("the provider's")
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(witness))
        .with_no_client_auth();
    (ClientTls::new(Arc::new(config)), seen)
}

/// Raises its flag when it is dropped.
struct Raise<'a>(&'a AtomicBool);

impl Drop for Raise<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Clients that connect anew for each operation, and remember sessions: each sees every certificate, and no acquire
/// fails.
#[test]
fn certificates_change_under_load() {
    // One by one: each of them is load enough.
    for kind in ServerKind::all() {
        with_each(vec![kind], change_certificates);
    }
}

fn change_certificates(kind: ServerKind) {
    let first = AUTHORITY.identity(&["127.0.0.1"]);
    let server = kind.start(Terms { secret: SECRET, identity: Some(&first) });
    let address = server.address();
    let holder = ClientKind::Tokio.connect(address, SECRET, Some(trust()));
    let held = holder.acquire("held", OPTIONS.lease(LONG)).expect("it is free");

    let is_over = &AtomicBool::new(false);
    thread::scope(|scope| {
        let mut witnesses = Vec::new();
        let mut threads = Vec::new();
        for (number, kind) in ClientKind::ALL.into_iter().cycle().take(CLIENTS).enumerate() {
            let (tls, seen) = witness();
            witnesses.push(seen);
            threads.push(scope.spawn(move || {
                while !is_over.load(Ordering::Relaxed) {
                    let client = kind.connect(address, SECRET, Some(tls.clone()));
                    let ticket = client.acquire(&format!("k{number}"), OPTIONS).expect("it is free");
                    assert_eq!(ticket.release(), Ok(Released::Released));
                    assert_eq!(client.failed_sessions(), 0, "{:?}", client.last_failure());
                    client.close();
                }
            }));
        }
        // Also when a change is not seen, or the scope would never end.
        let _end = Raise(is_over);
        for _ in 0..CHANGES {
            let next = AUTHORITY.identity(&["127.0.0.1"]);
            let expected = CertificateDer::from_pem_slice(next.certificate.as_bytes()).expect("PEM");
            server.change(Terms { secret: SECRET, identity: Some(&next) });
            eventually("all have seen the new certificate", || {
                assert!(threads.iter().all(|thread| !thread.is_finished()), "a client has ended");
                witnesses.iter().all(|seen| **seen.lock().expect("no panic") == *expected)
            });
        }
    });
    // The one connection that was there before all this lives on.
    assert_eq!(held.release(), Ok(Released::Released));
    assert_eq!(holder.failed_sessions(), 0);
}

#[test]
fn a_new_token_is_asked_of_new_connections_only() {
    with_each(Pair::with(|security| !security.secret().is_empty()), |pair| {
        let (server, before) = pair.start();
        let held = before.acquire("held", OPTIONS.lease(LONG)).expect("it is free");
        server.change(Terms { secret: "another-horse-battery", ..pair.security.terms() });
        let connect = |secret| pair.client.connect(server.address(), secret, pair.security.trust());
        eventually("the old token is refused", || {
            let late = connect(pair.security.secret());
            let refused = late.acquire("k", OPTIONS).err();
            assert!(matches!(refused, None | Some(AcquireError::Auth)), "{refused:?}");
            refused.is_some() && late.last_failure() == Some(Failure::Auth)
        });
        drop(connect("another-horse-battery").acquire("k", OPTIONS).expect("it is free"));
        assert_eq!(held.release(), Ok(Released::Released));
        assert_eq!(before.failed_sessions(), 0);
    });
}
