//! A connector for servers inside TLS.

use std::fmt;
use std::io::{self, Cursor, Read, Write};
use std::net::{Shutdown, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore};

use super::connector::{Connector, Link, TcpEnd, tcp};

/// How much ciphertext is read at once.
const READ_LEN: usize = 4 * 1024;

/// Connects by TLS 1.3 or 1.2, and verifies the server (`TR-2`).
#[derive(Clone)]
pub struct TlsConnector {
    address: SocketAddr,
    name: ServerName<'static>,
    config: Arc<ClientConfig>,
}

impl TlsConnector {
    /// For a server whose certificate holds for `name`, a host name or an IP address. Trusts the authorities in `ca`,
    /// PEM, and no others; without it those that the system trusts.
    ///
    /// # Errors
    /// If the name is none, or there is no usable authority.
    pub fn new(address: SocketAddr, name: &str, ca: Option<&[u8]>) -> io::Result<Self> {
        let name = ServerName::try_from(name.to_owned()).map_err(io::Error::other)?;
        let mut roots = RootCertStore::empty();
        match ca {
            Some(pem) => {
                for certificate in CertificateDer::pem_slice_iter(pem) {
                    roots.add(certificate.map_err(io::Error::other)?).map_err(io::Error::other)?;
                }
            }
            None => _ = roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs),
        }
        if roots.is_empty() {
            return Err(io::Error::other("no authority to trust"));
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(io::Error::other)?
            .with_root_certificates(roots)
            .with_no_client_auth();
        Ok(Self { address, name, config: Arc::new(config) })
    }
}

impl fmt::Debug for TlsConnector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TlsConnector")
            .field("address", &self.address)
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

impl Connector for TlsConnector {
    fn connect(&self) -> io::Result<Link> {
        let tcp = TcpEnd::new(tcp(self.address)?);
        let connection =
            ClientConnection::new(Arc::clone(&self.config), self.name.clone()).map_err(io::Error::other)?;
        let stage = Stage {
            incoming: tcp.clone(),
            tls: Arc::new(Mutex::new(connection)),
            outgoing: Arc::new(Mutex::new(tcp.clone())),
        };
        stage.send_records(&mut lock(&stage.outgoing))?;
        let (ending, cutting, resetting) = (stage.clone(), tcp.clone(), tcp);
        Ok(Link::new(stage.clone(), stage)
            .with_shutdown(move |how| ending.shutdown(how))
            .with_cut(move || cutting.shutdown(Shutdown::Write))
            .with_reset(move || resetting.reset()))
    }

    fn connect_beneath(&self) -> Option<io::Result<Link>> {
        Some(tcp(self.address).map(Link::from))
    }
}

/// Both halves of a connection inside TLS. Nobody waits for the socket with the TLS state locked: a writer that is
/// blocked must not keep a reader from its work.
#[derive(Clone)]
struct Stage {
    incoming: TcpEnd,
    tls: Arc<Mutex<ClientConnection>>,
    /// Locked before `tls`, so that records go out in order.
    outgoing: Arc<Mutex<TcpEnd>>,
}

impl Stage {
    fn shutdown(&self, how: Shutdown) -> io::Result<()> {
        if how == Shutdown::Write {
            let mut outgoing = lock(&self.outgoing);
            lock(&self.tls).send_close_notify();
            self.send_records(&mut outgoing)?;
        }
        self.incoming.shutdown(how)
    }

    fn send_records(&self, outgoing: &mut TcpEnd) -> io::Result<()> {
        let mut records = Vec::new();
        let mut tls = lock(&self.tls);
        while tls.wants_write() {
            tls.write_tls(&mut records)?;
        }
        drop(tls);
        outgoing.write_all(&records)
    }

    /// Takes ciphertext in; none is the end of the transport.
    fn process(&self, ciphertext: &[u8]) -> io::Result<()> {
        let mut records = Cursor::new(ciphertext);
        let mut tls = lock(&self.tls);
        loop {
            tls.read_tls(&mut records)?;
            tls.process_new_packets().map_err(io::Error::other)?;
            if records.position() == ciphertext.len() as u64 {
                break;
            }
        }
        drop(tls);
        // If somebody is writing, the records of TLS itself go out with the next write.
        match self.outgoing.try_lock() {
            Ok(mut outgoing) => self.send_records(&mut outgoing),
            Err(_) => Ok(()),
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Read for Stage {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut ciphertext = [0; READ_LEN];
        loop {
            match lock(&self.tls).reader().read(buffer) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                other => return other,
            }
            let len = self.incoming.read(&mut ciphertext)?;
            self.process(&ciphertext[..len])?;
        }
    }
}

impl Write for Stage {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut outgoing = lock(&self.outgoing);
        let len = lock(&self.tls).writer().write(bytes)?;
        self.send_records(&mut outgoing)?;
        Ok(len)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
