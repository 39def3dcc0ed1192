//! A server inside TLS, clients, and a peer that speaks bytes inside TLS.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use ticketing_tokio::tls::rustls::pki_types::ServerName;
use ticketing_tokio::tls::rustls::{self, ClientConnection, RootCertStore, StreamOwned};
use ticketing_tokio::tls::{ClientTls, Roots, ServerTls, system_time};
use ticketing_tokio::{
    AcquireOptions, Client, ReloadHandle, Secret, Server, ServerConfig, ShutdownHandle, fresh_tokens,
};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::certificates::{Authority, Identity};

/// How long a test waits for what must come.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);
pub(crate) const OPTIONS: AcquireOptions =
    AcquireOptions::new(Duration::from_secs(1)).wait(Duration::from_secs(30));

pub(crate) async fn soon<T>(future: impl Future<Output = T>) -> T {
    timeout(PATIENCE, future).await.expect("it comes soon")
}

/// What runs in the background of a test.
pub(crate) struct Running {
    pub(crate) address: SocketAddr,
    pub(crate) shutdown: ShutdownHandle,
    pub(crate) reload: ReloadHandle,
    pub(crate) serving: JoinHandle<std::io::Result<()>>,
}

pub(crate) async fn serve(tls: Option<ServerTls>, secret: &Secret) -> Running {
    let mut config = ServerConfig::new(secret.clone(), fresh_tokens().expect("a clock"));
    config.tls = tls;
    let server = Server::bind("127.0.0.1:0", config).await.expect("loopback is there");
    Running {
        address: server.local_addrs()[0],
        shutdown: server.shutdown_handle(),
        reload: server.reload_handle(),
        serving: tokio::spawn(server.serve()),
    }
}

impl Identity {
    pub(crate) fn server(&self) -> ServerTls {
        ServerTls::from_pem(self.certificate.as_bytes(), self.key.as_bytes(), system_time())
            .expect("a certificate and its key")
    }
}

impl Authority {
    pub(crate) fn trust(&self) -> ClientTls {
        ClientTls::with_roots(Roots::Pem(self.pem().as_bytes()), system_time()).expect("an authority")
    }
}

pub(crate) fn client(address: SocketAddr, tls: Option<ClientTls>, secret: &Secret) -> Client {
    let builder = Client::builder().address(address.to_string()).token(secret.clone());
    let builder = match tls {
        Some(tls) => builder.tls(tls),
        None => builder,
    };
    builder.build().expect("a good configuration")
}

/// A peer inside TLS, after the handshake.
pub(crate) fn peer(address: SocketAddr, authority: &Authority) -> StreamOwned<ClientConnection, TcpStream> {
    use rustls::pki_types::CertificateDer;
    use rustls::pki_types::pem::PemObject as _;

    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(authority.pem().as_bytes()).expect("PEM")).expect("a root");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("the provider's")
        .with_root_certificates(roots)
        .with_no_client_auth();
    let name = ServerName::from(address.ip());
    let connection = ClientConnection::new(Arc::new(config), name).expect("a good configuration");
    let mut stream = StreamOwned::new(connection, tcp(address));
    stream.flush().expect("a handshake");
    stream
}

pub(crate) fn tcp(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).expect("the server listens");
    stream.set_read_timeout(Some(PATIENCE)).expect("TCP");
    stream
}

/// All that comes until the end, which is an end of stream or a reset.
pub(crate) fn rest(stream: &mut TcpStream) -> Vec<u8> {
    let mut bytes = Vec::new();
    match stream.read_to_end(&mut bytes) {
        Ok(_) => {}
        Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset),
    }
    bytes
}
