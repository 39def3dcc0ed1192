//! A peer that speaks bytes, in plain text or inside TLS.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::Arc;

use ticketing_proto::wire::auth;
use ticketing_tokio::Secret;
use ticketing_tokio::tls::rustls::crypto::ring;
use ticketing_tokio::tls::rustls::pki_types::pem::PemObject as _;
use ticketing_tokio::tls::rustls::pki_types::{CertificateDer, ServerName};
use ticketing_tokio::tls::rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use super::{AUTHORITY, PATIENCE, Security};

pub(crate) enum Raw {
    Plain(TcpStream),
    Tls(Box<StreamOwned<ClientConnection, TcpStream>>),
}

impl Raw {
    pub(crate) fn connect(address: SocketAddr, security: Security) -> Self {
        let stream = tcp(address);
        if !security.has_tls() {
            return Self::Plain(stream);
        }
        let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .expect("the provider's")
            .with_root_certificates(roots())
            .with_no_client_auth();
        let name = ServerName::from(address.ip());
        let connection = ClientConnection::new(Arc::new(config), name).expect("a good configuration");
        Self::Tls(Box::new(StreamOwned::new(connection, stream)))
    }

    /// One that has said what the server wants to be known.
    pub(crate) fn authenticated(address: SocketAddr, security: Security) -> Self {
        let mut peer = Self::connect(address, security);
        let mut challenge = [0; 51];
        peer.read_exact(&mut challenge).expect("the challenge");
        let response = auth::respond(&Secret::new(security.secret().as_bytes()), &challenge[7..50]);
        peer.write_all(&[&response[..], b"\n"].concat()).expect("sent");
        peer
    }

    /// What it wrote has an end; it goes on reading.
    pub(crate) fn shut_down_writing(&mut self) {
        let stream = match self {
            Self::Plain(stream) => stream,
            Self::Tls(stream) => {
                stream.conn.send_close_notify();
                stream.flush().expect("sent");
                &mut stream.sock
            }
        };
        stream.shutdown(Shutdown::Write).expect("TCP");
    }
}

impl Read for Raw {
    fn read(&mut self, space: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Plain(stream) => stream.read(space),
            Self::Tls(stream) => stream.read(space),
        }
    }
}

impl Write for Raw {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Plain(stream) => stream.write(bytes),
            Self::Tls(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Plain(stream) => stream.flush(),
            Self::Tls(stream) => stream.flush(),
        }
    }
}

pub(crate) fn tcp(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).expect("the server listens");
    stream.set_read_timeout(Some(PATIENCE)).expect("TCP");
    stream
}

/// The authority that clients trust, as rustls has it.
pub(crate) fn roots() -> RootCertStore {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(AUTHORITY.pem().as_bytes()).expect("PEM")).expect("a root");
    roots
}
