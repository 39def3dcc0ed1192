//! What a server program proves itself with and asks of its clients, and reads again while it runs.

use std::path::PathBuf;

use ticketing_proto::tls::ServerTls;
use ticketing_proto::wire::auth::Secret;
use tracing::{error, info};

use super::Failure;
use super::token::{self, TokenSource};

/// Where a server's token, certificate and key are.
#[derive(Clone, Default, Debug)]
pub struct Credentials {
    token: TokenSource,
    /// The certificate's file, and the key's.
    tls: Option<(PathBuf, PathBuf)>,
}

impl Credentials {
    /// The token from this source, and TLS with both files or neither.
    ///
    /// # Errors
    /// If there is one file without the other.
    pub fn new(
        token: TokenSource,
        certificate: Option<PathBuf>,
        key: Option<PathBuf>,
    ) -> Result<Self, Failure> {
        let tls = match (certificate, key) {
            (None, None) => None,
            (Some(certificate), Some(key)) => Some((certificate, key)),
            (Some(_), None) => {
                return Err(Failure::usage("there is a TLS certificate and no key; give it by --tls-key"));
            }
            (None, Some(_)) => {
                return Err(Failure::usage("there is a TLS key and no certificate; give it by --tls-cert"));
            }
        };
        Ok(Self { token, tls })
    }

    /// Reads all. It blocks.
    ///
    /// # Errors
    /// If a file can't be read or holds what can't be used, the token is too short for a server (`AU-9`), or there
    /// are files for TLS and the program was built without it.
    pub fn read(&self) -> Result<(Option<ServerTls>, Secret), Failure> {
        let secret = self.token.read()?;
        token::check_for_server(&secret)?;
        Ok((self.read_tls()?, secret))
    }

    /// Reads all again, and has `reload` put it to use. If any of it can't be used, the log says why, and nothing
    /// changes. It blocks.
    pub fn read_again(&self, reload: impl FnOnce(Option<ServerTls>, Secret)) {
        match self.read() {
            Ok((tls, secret)) => {
                let (has_tls, has_token) = (tls.is_some(), !secret.is_empty());
                reload(tls, secret);
                info!(tls = has_tls, token = has_token, "certificate, key and token were read again");
            }
            Err(Failure { message, .. }) => {
                error!(error = %message, "certificate, key and token can't be read again; the old ones stay");
            }
        }
    }

    #[cfg(feature = "tls")]
    fn read_tls(&self) -> Result<Option<ServerTls>, Failure> {
        let Some((certificate, key)) = &self.tls else { return Ok(None) };
        crate::tls::ServerFiles::new(certificate, key).read().map(Some).map_err(Failure::usage)
    }

    #[cfg(not(feature = "tls"))]
    fn read_tls(&self) -> Result<Option<ServerTls>, Failure> {
        match self.tls {
            None => Ok(None),
            Some(_) => Err(Failure::usage("this program was built without TLS")),
        }
    }
}
