//! TLS for server and client (`TR-2`): `ServerConfig::tls` and `ClientBuilder::tls`.
//!
//! ```no_run
//! use std::path::Path;
//! use ticketing_mio::{Client, Server, ServerConfig, Secret, fresh_tokens, tls};
//!
//! # fn both() -> Result<(), Box<dyn std::error::Error>> {
//! let files = tls::ServerFiles::new("cert.pem", "key.pem");
//! let mut config = ServerConfig::new(Secret::default(), fresh_tokens()?);
//! config.tls = Some(files.read()?);
//! let server = Server::bind("[::]:5225", config)?;
//! // After the files have changed: connections that come from now on see the new certificate.
//! server.reload_handle().reload(Some(files.read()?), Secret::default());
//!
//! let trust = tls::client_with_authorities(Path::new("ca.pem"))?;
//! let client = Client::builder().address("locks.example:5225").tls(trust).build()?;
//! # Ok(())
//! # }
//! ```

pub use ticketing_host::tls::{
    ServerFiles, TlsFileError, client_with_authorities, client_with_system_authorities, system_time,
};
pub use ticketing_proto::tls::{
    ClientTls, PemFault, PemInput, Roots, ServerTls, TlsConfigError, TlsError, rustls,
};
