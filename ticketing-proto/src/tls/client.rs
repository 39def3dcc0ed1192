use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{ClientConfig, ClientConnection};
use rustls::crypto::{
    CryptoProvider, WebPkiSupportedAlgorithms, ring, verify_tls12_signature, verify_tls13_signature,
};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::time_provider::TimeProvider;
use rustls::{ConfigBuilder, DigitallySignedStruct, RootCertStore, SignatureScheme, WantsVerifier};

use super::error::{PemInput, TlsConfigError, TlsError};
use super::pem;

/// Which authorities a client trusts.
#[derive(Clone, Debug)]
pub enum Roots<'a> {
    /// Those in this PEM, all of which must be usable: a file that somebody chose.
    Pem(&'a [u8]),
    /// Those of these that are usable: the system's, which may hold some that are not.
    Certificates(Vec<CertificateDer<'static>>),
}

/// A client's TLS: whom it trusts, how it calls the server, and the sessions that it remembers.
///
/// Clones share their sessions. Debug output shows nothing but the name.
#[derive(Clone)]
pub struct ClientTls {
    config: Arc<ClientConfig>,
    server_name: Option<ServerName<'static>>,
}

impl ClientTls {
    /// A client that accepts servers with a certificate of one of these authorities, for the host that stands in
    /// the address or for [`server_name`](Self::server_name).
    ///
    /// # Errors
    /// [`TlsConfigError`]
    pub fn with_roots(roots: Roots<'_>, time: Arc<dyn TimeProvider>) -> Result<Self, TlsConfigError> {
        let mut store = RootCertStore::empty();
        match roots {
            Roots::Pem(text) => {
                let input = PemInput::Roots;
                for (index, certificate) in pem::certificates(input, text)?.into_iter().enumerate() {
                    let number = index + 1;
                    store.add(certificate).map_err(|_| TlsConfigError::BadCertificate { input, number })?;
                }
            }
            Roots::Certificates(certificates) => {
                let given = certificates.len();
                store.add_parsable_certificates(certificates);
                if store.is_empty() {
                    return Err(TlsConfigError::NoRoots { given });
                }
            }
        }
        let config = builder(Arc::new(ring::default_provider()), time)?.with_root_certificates(store);
        Ok(Self::new(Arc::new(config.with_no_client_auth())))
    }

    /// A client that accepts every certificate of whoever it is. Its connections are encrypted and can be read by
    /// anyone who answers in the server's place: this is for trying things out.
    ///
    /// # Errors
    /// [`TlsConfigError::Unusable`]
    pub fn dangerous_without_verification(time: Arc<dyn TimeProvider>) -> Result<Self, TlsConfigError> {
        let provider = Arc::new(ring::default_provider());
        let verifier = NoVerification(provider.signature_verification_algorithms);
        let config =
            builder(provider, time)?.dangerous().with_custom_certificate_verifier(Arc::new(verifier));
        Ok(Self::new(Arc::new(config.with_no_client_auth())))
    }

    /// A client with a configuration that was made elsewhere.
    #[must_use]
    pub const fn new(config: Arc<ClientConfig>) -> Self {
        Self { config, server_name: None }
    }

    /// The name, or IP address, that the server's certificate must hold for, instead of the host in the address.
    ///
    /// # Errors
    /// [`TlsConfigError::BadServerName`]
    pub fn server_name(self, name: &str) -> Result<Self, TlsConfigError> {
        match ServerName::try_from(name) {
            Ok(parsed) => Ok(Self { server_name: Some(parsed.to_owned()), ..self }),
            Err(_) => Err(TlsConfigError::BadServerName { name: name.into() }),
        }
    }

    /// A connection of rustls to the server at `host:port`, for those who bring everything else themselves. What goes
    /// wrong with it is said by [`TlsError::of`].
    ///
    /// # Errors
    /// [`TlsError::WrongName`] if the host is no name that a certificate can hold for.
    pub fn connection(&self, address: &str) -> Result<ClientConnection, TlsError> {
        let name = self.name_at(address).ok_or(TlsError::WrongName)?;
        ClientConnection::new(Arc::clone(&self.config), name).map_err(|error| TlsError::of(&error, true))
    }

    pub(super) const fn config(&self) -> &Arc<ClientConfig> {
        &self.config
    }

    /// What the certificate of the server at `host:port` must hold for; `None` if the host is no name.
    pub(super) fn name_at(&self, address: &str) -> Option<ServerName<'static>> {
        if let Some(name) = &self.server_name {
            return Some(name.clone());
        }
        let (host, _) = address.rsplit_once(':')?;
        // Brackets and the scope of an IPv6 literal are no part of the address that a certificate names.
        let literal = host.strip_prefix('[').and_then(|literal| literal.strip_suffix(']'));
        let host = literal.map_or(host, |literal| literal.split('%').next().unwrap_or(literal));
        ServerName::try_from(host).ok().map(|name| name.to_owned())
    }

    /// Whether the server at this address has a name that a certificate can hold for.
    pub(crate) fn can_name(&self, address: &str) -> bool {
        self.name_at(address).is_some()
    }
}

impl fmt::Debug for ClientTls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientTls").field("server_name", &self.server_name).finish_non_exhaustive()
    }
}

fn builder(
    provider: Arc<CryptoProvider>,
    time: Arc<dyn TimeProvider>,
) -> Result<ConfigBuilder<ClientConfig, WantsVerifier>, TlsConfigError> {
    ClientConfig::builder_with_details(provider, time)
        .with_safe_default_protocol_versions()
        .map_err(|_| TlsConfigError::Unusable)
}

/// Accepts every certificate. What is signed with its key is checked all the same.
#[derive(Debug)]
struct NoVerification(WebPkiSupportedAlgorithms);

impl ServerCertVerifier for NoVerification {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signed, &self.0)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signed, &self.0)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_schemes()
    }
}
