use alloc::sync::Arc;
use core::fmt;

use rustls::crypto::ring;
use rustls::server::{ParsedCertificate, ServerConfig, ServerConnection, ServerSessionMemoryCache};
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::time_provider::TimeProvider;

use super::error::{PemInput, TlsConfigError};
use super::pem;

/// Sessions that a server remembers for those who come back.
const SESSIONS: usize = 4096;

/// A server's TLS: its certificate, its key, and the sessions that it remembers.
///
/// Clones share all of that, and equal each other; no two others do. Debug output shows nothing of it.
#[derive(Clone)]
pub struct ServerTls(Arc<ServerConfig>);

impl ServerTls {
    /// A server with this certificate chain, its own certificate first, and the key that belongs to that, both in
    /// PEM. Client certificates are not asked for (`TR-2`).
    ///
    /// # Errors
    /// [`TlsConfigError`]
    pub fn from_pem(
        certificate_chain: &[u8],
        key: &[u8],
        time: Arc<dyn TimeProvider>,
    ) -> Result<Self, TlsConfigError> {
        let input = PemInput::CertificateChain;
        let chain = pem::certificates(input, certificate_chain)?;
        let is_bad = |certificate| ParsedCertificate::try_from(certificate).is_err();
        if let Some(index) = chain.iter().position(is_bad) {
            return Err(TlsConfigError::BadCertificate { input, number: index + 1 });
        }
        let provider = Arc::new(ring::default_provider());
        let key = provider
            .key_provider
            .load_private_key(pem::private_key(key)?)
            .map_err(|_| TlsConfigError::UnsupportedKey)?;
        let certified = CertifiedKey::new(chain, key);
        certified.keys_match().map_err(|error| match error {
            rustls::Error::InconsistentKeys(_) => TlsConfigError::KeyMismatch,
            _ => TlsConfigError::BadCertificate { input, number: 1 },
        })?;
        let mut config = ServerConfig::builder_with_details(provider, time)
            .with_safe_default_protocol_versions()
            .map_err(|_| TlsConfigError::Unusable)?
            .with_no_client_auth()
            .with_cert_resolver(Arc::new(SingleCertAndKey::from(certified)));
        // Remembered sessions rather than sealed tickets: rustls turns the keys of those by the system's clock, not
        // by the one that is passed in.
        config.session_storage = ServerSessionMemoryCache::new(SESSIONS);
        // A connection comes back once.
        config.send_tls13_tickets = 1;
        Self::new(Arc::new(config))
    }

    /// A server with a configuration that was made elsewhere.
    ///
    /// # Errors
    /// [`TlsConfigError::BadFragmentSize`], [`TlsConfigError::Unusable`]
    pub fn new(config: Arc<ServerConfig>) -> Result<Self, TlsConfigError> {
        match ServerConnection::new(Arc::clone(&config)) {
            Ok(_) => Ok(Self(config)),
            Err(rustls::Error::BadMaxFragmentSize) => Err(TlsConfigError::BadFragmentSize),
            Err(_) => Err(TlsConfigError::Unusable),
        }
    }

    pub(super) const fn config(&self) -> &Arc<ServerConfig> {
        &self.0
    }
}

impl PartialEq for ServerTls {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for ServerTls {}

impl fmt::Debug for ServerTls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ServerTls(..)")
    }
}
