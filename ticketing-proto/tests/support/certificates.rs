//! Certificates that are made when a test runs, and the time by which they are judged.

use std::sync::Arc;
use std::time::Duration;

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair,
    PKCS_ECDSA_P256_SHA256, SignatureAlgorithm, date_time_ymd,
};
use ticketing_proto::tls::rustls::pki_types::UnixTime;
use ticketing_proto::tls::rustls::time_provider::TimeProvider;
use ticketing_proto::tls::{ClientTls, Roots, ServerTls};

/// A time that stands still.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Calendar(u64);

impl Calendar {
    /// At 1 January 2030.
    pub(crate) const fn new() -> Self {
        Self(1_893_456_000)
    }

    /// At 1 January 1970, when nothing that is made here is valid yet.
    pub(crate) const fn early() -> Self {
        Self(0)
    }

    pub(crate) fn provider(self) -> Arc<dyn TimeProvider> {
        Arc::new(self)
    }
}

impl TimeProvider for Calendar {
    fn current_time(&self) -> Option<UnixTime> {
        Some(UnixTime::since_unix_epoch(Duration::from_secs(self.0)))
    }
}

/// An authority that signs certificates.
pub(crate) struct Authority(CertifiedIssuer<'static, KeyPair>);

/// A certificate and its key, in PEM.
pub(crate) struct Identity {
    pub(crate) certificate: String,
    pub(crate) key: String,
}

impl Authority {
    pub(crate) fn new(name: &str) -> Self {
        Self::with_key(name, &PKCS_ECDSA_P256_SHA256)
    }

    pub(crate) fn with_key(name: &str, kind: &'static SignatureAlgorithm) -> Self {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate_for(kind).expect("a key");
        Self(CertifiedIssuer::self_signed(params, key).expect("a certificate"))
    }

    pub(crate) fn pem(&self) -> String {
        self.0.pem()
    }

    /// A client's TLS that trusts this authority alone.
    pub(crate) fn trust(&self, time: Arc<dyn TimeProvider>) -> ClientTls {
        ClientTls::with_roots(Roots::Pem(self.pem().as_bytes()), time).expect("an authority")
    }

    /// A server's certificate for these names and addresses, valid from 1975 to 4096.
    pub(crate) fn identity(&self, names: &[&str]) -> Identity {
        self.sign(names, |_| {})
    }

    /// One that was valid until the year 2000.
    pub(crate) fn expired(&self, names: &[&str]) -> Identity {
        self.sign(names, |params| params.not_after = date_time_ymd(2000, 1, 1))
    }

    /// One that is as a server's, but for what is changed.
    pub(crate) fn sign(&self, names: &[&str], but: impl FnOnce(&mut CertificateParams)) -> Identity {
        let names: Vec<String> = names.iter().map(|&name| name.into()).collect();
        let mut params = CertificateParams::new(names).expect("good names");
        params.distinguished_name.push(DnType::CommonName, "a server of a test");
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        but(&mut params);
        let key = KeyPair::generate().expect("a key");
        let certificate = params.signed_by(&key, &self.0).expect("a certificate");
        Identity { certificate: certificate.pem(), key: key.serialize_pem() }
    }
}

impl Identity {
    pub(crate) fn server(&self, time: Arc<dyn TimeProvider>) -> ServerTls {
        ServerTls::from_pem(self.certificate.as_bytes(), self.key.as_bytes(), time)
            .expect("a certificate and its key")
    }
}
