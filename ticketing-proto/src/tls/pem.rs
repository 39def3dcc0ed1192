//! Certificates and keys out of PEM.

use alloc::vec::Vec;

use rustls::pki_types::pem::{self, PemObject as _};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use super::error::{PemFault, PemInput, TlsConfigError};

/// All certificates, in their order. Other blocks are passed over.
pub(super) fn certificates(
    input: PemInput,
    text: &[u8],
) -> Result<Vec<CertificateDer<'static>>, TlsConfigError> {
    let certificates: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(text).collect();
    let certificates = certificates.map_err(|error| {
        malformed(&error).map_or(TlsConfigError::NoCertificate { input }, |fault| {
            TlsConfigError::MalformedPem { input, fault }
        })
    })?;
    if certificates.is_empty() {
        return Err(TlsConfigError::NoCertificate { input });
    }
    Ok(certificates)
}

/// The first key. Other blocks are passed over.
pub(super) fn private_key(text: &[u8]) -> Result<PrivateKeyDer<'static>, TlsConfigError> {
    // Of such keys the parser sees either nothing or lines that are no base64.
    if contains(text, b"-----BEGIN ENCRYPTED PRIVATE KEY-----") || contains(text, b"Proc-Type: 4,ENCRYPTED") {
        return Err(TlsConfigError::EncryptedKey);
    }
    PrivateKeyDer::from_pem_slice(text).map_err(|error| {
        malformed(&error).map_or(TlsConfigError::NoPrivateKey, |fault| TlsConfigError::MalformedPem {
            input: PemInput::Key,
            fault,
        })
    })
}

/// `None`: nothing is wrong, but nothing was found.
const fn malformed(error: &pem::Error) -> Option<PemFault> {
    match error {
        pem::Error::NoItemsFound => None,
        pem::Error::IllegalSectionStart { .. } => Some(PemFault::Begin),
        pem::Error::MissingSectionEnd { .. } => Some(PemFault::End),
        _ => Some(PemFault::Base64),
    }
}

fn contains(text: &[u8], marker: &[u8]) -> bool {
    text.windows(marker.len()).any(|window| window == marker)
}
