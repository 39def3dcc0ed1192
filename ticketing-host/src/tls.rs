//! What TLS needs of the host: files with certificates and keys, the authorities that the system trusts, and the time
//! of day. With the feature `tls`.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls_native_certs::load_native_certs;
use ticketing_proto::tls::rustls::time_provider::{DefaultTimeProvider, TimeProvider};
use ticketing_proto::tls::{ClientTls, PemInput, Roots, ServerTls, TlsConfigError};

/// The greatest length in bytes of a file: more is surely neither a key nor certificates.
const MAX_FILE: u64 = 4 << 20;

/// The time by which certificates are judged: the system's.
#[must_use]
pub fn system_time() -> Arc<dyn TimeProvider> {
    Arc::new(DefaultTimeProvider)
}

/// Where a server's certificate and key are, to be read at the start and again whenever they have changed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ServerFiles {
    certificate: PathBuf,
    key: PathBuf,
}

impl ServerFiles {
    /// The file with the server's certificate and those between it and its authority's, its own first, and the file
    /// with its key; both are PEM, and both may be one.
    #[must_use]
    pub fn new(certificate: impl Into<PathBuf>, key: impl Into<PathBuf>) -> Self {
        Self { certificate: certificate.into(), key: key.into() }
    }

    /// The certificate's file.
    #[must_use]
    pub fn certificate(&self) -> &Path {
        &self.certificate
    }

    /// Reads both. It blocks.
    ///
    /// # Errors
    /// [`TlsFileError`]
    pub fn read(&self) -> Result<ServerTls, TlsFileError> {
        let (certificate, key) = (read(&self.certificate)?, read(&self.key)?);
        ServerTls::from_pem(&certificate, &key, system_time()).map_err(|error| self.at_fault(error))
    }

    fn at_fault(&self, error: TlsConfigError) -> TlsFileError {
        let path = match error {
            TlsConfigError::MalformedPem { input: PemInput::Key, .. }
            | TlsConfigError::NoPrivateKey
            | TlsConfigError::EncryptedKey
            | TlsConfigError::UnsupportedKey
            | TlsConfigError::KeyMismatch => &self.key,
            _ => &self.certificate,
        };
        TlsFileError::Unusable { path: path.clone(), error }
    }
}

/// A client that trusts the authorities in this file of PEM, and no others. It blocks.
///
/// # Errors
/// [`TlsFileError`]
pub fn client_with_authorities(file: &Path) -> Result<ClientTls, TlsFileError> {
    let text = read(file)?;
    ClientTls::with_roots(Roots::Pem(&text), system_time())
        .map_err(|error| TlsFileError::Unusable { path: file.to_owned(), error })
}

/// A client that trusts the authorities that the system trusts, or those that the variables `SSL_CERT_FILE` and
/// `SSL_CERT_DIR` name. It blocks.
///
/// # Errors
/// [`TlsFileError::NoSystemAuthorities`]. Some that can't be used are passed over while others can.
pub fn client_with_system_authorities() -> Result<ClientTls, TlsFileError> {
    let loaded = load_native_certs();
    ClientTls::with_roots(Roots::Certificates(loaded.certs), system_time()).map_err(|error| {
        let faults: Vec<String> = loaded.errors.iter().map(ToString::to_string).collect();
        let why = if faults.is_empty() { error.to_string() } else { faults.join("; ") };
        TlsFileError::NoSystemAuthorities { why }
    })
}

/// Why files make no configuration of TLS.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TlsFileError {
    /// A file can't be read.
    #[error("{} cannot be read: {error}", path.display())]
    Unreadable {
        /// Which one.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// What is in a file can't be used.
    #[error("{}: {error}", path.display())]
    Unusable {
        /// Which one.
        path: PathBuf,
        /// Why.
        error: TlsConfigError,
    },
    /// The system has no authorities, or does not give them.
    #[error("the system's trusted authorities cannot be used: {why}")]
    NoSystemAuthorities {
        /// What it said.
        why: String,
    },
}

fn read(path: &Path) -> Result<Vec<u8>, TlsFileError> {
    let unreadable = |error| TlsFileError::Unreadable { path: path.to_owned(), error };
    let mut text = Vec::new();
    File::open(path).and_then(|file| file.take(MAX_FILE + 1).read_to_end(&mut text)).map_err(unreadable)?;
    if text.len() as u64 > MAX_FILE {
        let why = format!("it has more than {MAX_FILE} bytes");
        return Err(unreadable(io::Error::new(io::ErrorKind::InvalidData, why)));
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    struct Identity {
        certificate: String,
        key: String,
    }

    fn identity() -> Identity {
        let made = rcgen::generate_simple_self_signed(["locks.example".to_owned()]).expect("a good name");
        Identity { certificate: made.cert.pem(), key: made.signing_key.serialize_pem() }
    }

    #[test]
    fn a_fault_names_its_file_and_what_is_wrong() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = |name: &str| dir.path().join(name);
        let (own, other) = (identity(), identity());
        for (name, content) in [
            ("cert", own.certificate.as_str()),
            ("key", &own.key),
            ("other-key", &other.key),
            ("both", &format!("{}{}", own.key, own.certificate)),
            ("empty", ""),
            (
                "encrypted",
                "-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----\n",
            ),
            ("cut", own.certificate.trim_end_matches("-----END CERTIFICATE-----\n")),
        ] {
            fs::write(path(name), content).expect("written");
        }
        let server = |certificate: &str, key: &str| ServerFiles::new(path(certificate), path(key)).read();
        assert!(server("cert", "key").is_ok());
        assert!(server("both", "both").is_ok());
        for (certificate, key, at_fault, words) in [
            ("none", "key", "none", "cannot be read"),
            ("cert", "none", "none", "cannot be read"),
            ("empty", "key", "empty", "no `BEGIN CERTIFICATE`"),
            ("cut", "key", "cut", "no `END` line"),
            ("key", "key", "key", "no `BEGIN CERTIFICATE`"),
            ("cert", "cert", "cert", "no `BEGIN PRIVATE KEY`"),
            ("cert", "encrypted", "encrypted", "encrypted with a password"),
            ("cert", "other-key", "other-key", "does not belong"),
        ] {
            let error = server(certificate, key).expect_err(words).to_string();
            let starts = format!("{}", path(at_fault).display());
            assert!(error.starts_with(&starts) && error.contains(words), "{certificate} {key}: {error}");
        }
        assert!(client_with_authorities(&path("cert")).is_ok());
        for (file, words) in [("none", "cannot be read"), ("key", "no `BEGIN CERTIFICATE`")] {
            let error = client_with_authorities(&path(file)).expect_err(words).to_string();
            assert!(error.contains(words) && error.contains(file), "{error}");
        }
    }

    #[test]
    fn a_file_without_an_end_is_not_read_for_ever() {
        let error = read(Path::new("/dev/zero")).expect_err("no certificate is that long");
        assert!(error.to_string().contains("more than"), "{error}");
    }
}
