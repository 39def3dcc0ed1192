//! Certificates that are made when a test runs, and the time by which they are judged.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair,
    date_time_ymd,
};
use ticketing_proto::tls::rustls::pki_types::UnixTime;
use ticketing_proto::tls::rustls::time_provider::TimeProvider;
use ticketing_proto::tls::{ClientTls, Roots, ServerTls};

/// A time that tests set. It starts on 1 January 2030, when everything that is made here is valid.
#[derive(Clone, Debug)]
pub(crate) struct Calendar(Arc<AtomicU64>);

impl Calendar {
    pub(crate) fn new() -> Self {
        Self(Arc::new(AtomicU64::new(1_893_456_000)))
    }

    pub(crate) fn advance_days(&self, days: u64) {
        self.0.fetch_add(days * 86_400, Ordering::Relaxed);
    }

    pub(crate) fn set_days_back(&self, days: u64) {
        self.0.fetch_sub(days * 86_400, Ordering::Relaxed);
    }

    pub(crate) fn provider(&self) -> Arc<dyn TimeProvider> {
        Arc::new(self.clone())
    }
}

impl TimeProvider for Calendar {
    fn current_time(&self) -> Option<UnixTime> {
        Some(UnixTime::since_unix_epoch(std::time::Duration::from_secs(self.0.load(Ordering::Relaxed))))
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
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().expect("a key");
        Self(CertifiedIssuer::self_signed(params, key).expect("a certificate"))
    }

    pub(crate) fn pem(&self) -> String {
        self.0.pem()
    }

    /// A server's certificate for these names and addresses, valid from 2029 to 2031.
    pub(crate) fn identity(&self, names: &[&str]) -> Identity {
        self.identity_for(names, ExtendedKeyUsagePurpose::ServerAuth)
    }

    pub(crate) fn identity_for(&self, names: &[&str], purpose: ExtendedKeyUsagePurpose) -> Identity {
        let names: Vec<String> = names.iter().map(|&name| name.into()).collect();
        let mut params = CertificateParams::new(names).expect("good names");
        params.not_before = date_time_ymd(2029, 1, 1);
        params.not_after = date_time_ymd(2031, 1, 1);
        params.extended_key_usages = vec![purpose];
        let key = KeyPair::generate().expect("a key");
        let certificate = params.signed_by(&key, &self.0).expect("a certificate");
        Identity { certificate: certificate.pem(), key: key.serialize_pem() }
    }

    pub(crate) fn client(&self, calendar: &Calendar) -> ClientTls {
        ClientTls::with_roots(Roots::Pem(self.pem().as_bytes()), calendar.provider()).expect("an authority")
    }
}

impl Identity {
    pub(crate) fn server(&self, calendar: &Calendar) -> ServerTls {
        ServerTls::from_pem(self.certificate.as_bytes(), self.key.as_bytes(), calendar.provider())
            .expect("a certificate and its key")
    }
}
