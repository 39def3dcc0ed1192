//! A peer that is rustls alone, and a server and a client for it.

use std::io::{Read as _, Write as _};
use std::sync::Arc;
use std::time::Duration;

use ticketing_proto::client::{AcquireOptions, Broker, BrokerConfig, Event, Failure};
use ticketing_proto::id::{ConnectionId, Owner, Token};
use ticketing_proto::key::KeyRef;
use ticketing_proto::limits::{Lease, Limits, Wait};
use ticketing_proto::lock::TokenRange;
use ticketing_proto::server::{CloseReason, Server, ServerConfig, ServerEvent};
use ticketing_proto::time::Instant;
use ticketing_proto::tls::rustls::crypto::CryptoProvider;
use ticketing_proto::tls::rustls::crypto::ring::default_provider;
use ticketing_proto::tls::rustls::pki_types::pem::PemObject as _;
use ticketing_proto::tls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use ticketing_proto::tls::rustls::{
    self, ClientConfig, ClientConnection, Connection, RootCertStore, ServerConnection,
    SupportedProtocolVersion,
};
use ticketing_proto::tls::{ClientTls, ServerTls};
use ticketing_proto::wire::auth::{Secret, respond};
use ticketing_proto::wire::{Acquire, Decoder, FromServer, Release, Reply, Request};

use crate::certificates::{Authority, Calendar, Identity};

pub(crate) const START: Instant = Instant::from_origin(Duration::from_secs(1000));

pub(crate) fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

pub(crate) fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// One end of a TLS connection, without the core.
pub(crate) struct Peer(pub(crate) Connection);

impl Peer {
    pub(crate) fn client(config: &Arc<ClientConfig>) -> Self {
        let name = ServerName::try_from("server").expect("a name");
        Self(ClientConnection::new(Arc::clone(config), name).expect("a client").into())
    }

    pub(crate) fn server(config: &Arc<rustls::ServerConfig>) -> Self {
        Self(ServerConnection::new(Arc::clone(config)).expect("a server").into())
    }

    /// All that it has to send.
    pub(crate) fn output(&mut self) -> Vec<u8> {
        let mut out = Vec::new();
        while self.0.wants_write() {
            self.0.write_tls(&mut out).expect("room");
        }
        out
    }

    /// Takes ciphertext; gives the plaintext in it.
    pub(crate) fn input(&mut self, mut bytes: &[u8]) -> Result<Vec<u8>, rustls::Error> {
        let mut plain = Vec::new();
        while !bytes.is_empty() {
            self.0.read_tls(&mut bytes).expect("room");
            let state = self.0.process_new_packets()?;
            let start = plain.len();
            plain.resize(start + state.plaintext_bytes_to_read(), 0);
            self.0.reader().read_exact(&mut plain[start..]).expect("so much is there");
            if state.peer_has_closed() {
                break;
            }
        }
        Ok(plain)
    }

    /// Plaintext as one record.
    pub(crate) fn seal(&mut self, plain: &[u8]) -> Vec<u8> {
        self.0.writer().write_all(plain).expect("room");
        self.output()
    }
}

/// What a peer trusts and offers.
pub(crate) struct World {
    pub(crate) calendar: Calendar,
    pub(crate) authority: Authority,
    pub(crate) identity: Identity,
}

impl World {
    pub(crate) fn new() -> Self {
        let authority = Authority::new("authority");
        let identity = authority.identity(&["server"]);
        Self { calendar: Calendar::new(), authority, identity }
    }

    pub(crate) fn server_tls(&self) -> ServerTls {
        self.identity.server(self.calendar.provider())
    }

    pub(crate) fn client_tls(&self) -> ClientTls {
        self.authority.trust(self.calendar.provider())
    }

    /// A client of rustls alone.
    pub(crate) fn client_config(&self) -> Arc<ClientConfig> {
        self.client_config_with(default_provider(), rustls::ALL_VERSIONS)
    }

    pub(crate) fn client_config_with(
        &self,
        provider: CryptoProvider,
        versions: &[&'static SupportedProtocolVersion],
    ) -> Arc<ClientConfig> {
        let mut roots = RootCertStore::empty();
        roots
            .add(CertificateDer::from_pem_slice(self.authority.pem().as_bytes()).expect("PEM"))
            .expect("a root");
        let config = ClientConfig::builder_with_details(Arc::new(provider), self.calendar.provider())
            .with_protocol_versions(versions)
            .expect("versions")
            .with_root_certificates(roots)
            .with_no_client_auth();
        Arc::new(config)
    }

    /// A server's configuration of rustls alone.
    pub(crate) fn server_config_with(&self, provider: CryptoProvider) -> rustls::ServerConfig {
        let certificate = CertificateDer::from_pem_slice(self.identity.certificate.as_bytes()).expect("PEM");
        let key = PrivateKeyDer::from_pem_slice(self.identity.key.as_bytes()).expect("PEM");
        rustls::ServerConfig::builder_with_details(Arc::new(provider), self.calendar.provider())
            .with_safe_default_protocol_versions()
            .expect("versions")
            .with_no_client_auth()
            .with_single_cert(vec![certificate], key)
            .expect("a certificate and its key")
    }

    pub(crate) fn server_config(&self) -> Arc<rustls::ServerConfig> {
        Arc::new(self.server_config_with(default_provider()))
    }
}

pub(crate) fn server(tls: Option<ServerTls>) -> Server {
    let token = |value| Token::new(value).expect("not 0");
    let config = ServerConfig {
        secret: Secret::new(*b"correct horse"),
        limits: Limits::default(),
        tokens: TokenRange { next: token(1), last: token(u64::MAX) },
        hash_seed: [1, 2],
        tls,
    };
    Server::new(START, config).expect("good limits")
}

pub(crate) fn broker(tls: Option<ClientTls>) -> Broker {
    broker_of(["server:5225"], tls)
}

pub(crate) fn broker_of<const N: usize>(addresses: [&str; N], tls: Option<ClientTls>) -> Broker {
    let config =
        BrokerConfig { secret: Secret::new(*b"correct horse"), tls, ..BrokerConfig::new(addresses, 1) };
    Broker::new(START, config).expect("a good configuration")
}

pub(crate) fn options(wait: u64) -> AcquireOptions {
    AcquireOptions::new(Duration::ZERO).wait(secs(wait))
}

pub(crate) fn acquire(owner: u64, wait: u8, key: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    let owner = Owner::new(owner).expect("not 0");
    let (wait, key) = (Wait::from_secs(wait), KeyRef::new(key.as_bytes()).expect("a key"));
    Request::Acquire(Acquire { wait, lease: Lease::DEFAULT, owner, key }).encode(&mut bytes);
    bytes
}

pub(crate) fn release(token: u64, key: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    let key = KeyRef::new(key.as_bytes()).expect("a key");
    Request::Release(Release { token, key }).encode(&mut bytes);
    bytes
}

/// The op of each reply, with its token if it is a grant.
pub(crate) fn replies(mut bytes: &[u8]) -> Vec<(u8, Option<u64>)> {
    let mut decoder = Decoder::<FromServer>::new();
    let mut replies = Vec::new();
    while let Some(frame) = decoder.next(&mut bytes).expect("frames") {
        let op = frame.op;
        replies.push(match Reply::parse(frame).expect("a reply") {
            Reply::Acquired { token, .. } => (op, Some(token.value())),
            _ => (op, None),
        });
    }
    replies
}

/// Everything that the server has for a connection.
pub(crate) fn polled(server: &mut Server, id: ConnectionId) -> Vec<u8> {
    let mut out = Vec::new();
    let any = server.poll_transmit(id, &mut out);
    assert_eq!(any, !out.is_empty());
    out
}

pub(crate) fn close_reason(server: &mut Server, id: ConnectionId) -> Option<CloseReason> {
    let mut found = None;
    while let Some(event) = server.poll_event() {
        if let ServerEvent::Close { connection, reason } = event
            && connection == id
        {
            found = Some(reason);
        }
    }
    found
}

/// Both carry everything until neither has any. Gives the plaintext that the peer got.
pub(crate) fn exchange(server: &mut Server, now: Instant, id: ConnectionId, peer: &mut Peer) -> Vec<u8> {
    let mut plain = Vec::new();
    loop {
        let up = peer.output();
        if !up.is_empty() {
            server.handle_data(now, id, &up);
        }
        let down = polled(server, id);
        if !down.is_empty() {
            server.handle_transmitted(now, id, down.len());
            plain.extend(peer.input(&down).expect("good TLS"));
        }
        if up.is_empty() && down.is_empty() {
            return plain;
        }
    }
}

/// The response to a challenge, with its LF.
pub(crate) fn response_to(challenge: &[u8]) -> Vec<u8> {
    let nonce =
        challenge.strip_prefix(b"sha256 ").and_then(|rest| rest.strip_suffix(b"\n")).expect("a challenge");
    let mut response = respond(&Secret::new(*b"correct horse"), nonce).to_vec();
    response.push(b'\n');
    response
}

/// A connection that got through both handshakes.
pub(crate) fn connect(server: &mut Server, now: Instant, config: &Arc<ClientConfig>) -> (ConnectionId, Peer) {
    let id = server.accept(now, [7; 32]).expect("room");
    let mut peer = Peer::client(config);
    let challenge = exchange(server, now, id, &mut peer);
    let response = peer.seal(&response_to(&challenge));
    server.handle_data(now, id, &response);
    assert_eq!(exchange(server, now, id, &mut peer), b"");
    (id, peer)
}

/// The connections that a client wants to have made, in order.
pub(crate) fn wanted(client: &mut Broker) -> Vec<ConnectionId> {
    let events = core::iter::from_fn(|| client.poll_event());
    events
        .filter_map(|event| match event {
            Event::Connect { connection, .. } => Some(connection),
            _ => None,
        })
        .collect()
}

/// How a connection of the client's ended.
pub(crate) fn failure(client: &mut Broker, id: ConnectionId) -> Option<Failure> {
    let mut found = None;
    while let Some(event) = client.poll_event() {
        if let Event::Disconnect { connection, failure } = event
            && connection == id
        {
            found = Some(failure);
        }
    }
    found
}

/// What a client has to send over a connection.
pub(crate) fn offered(client: &mut Broker, now: Instant, id: ConnectionId) -> Vec<u8> {
    let mut out = Vec::new();
    let any = client.poll_transmit(now, id, &mut out);
    assert_eq!(any, !out.is_empty());
    out
}

/// Both carry everything until neither has any. Gives the plaintext that the peer, a server, got.
pub(crate) fn carry(client: &mut Broker, now: Instant, id: ConnectionId, peer: &mut Peer) -> Vec<u8> {
    let mut plain = Vec::new();
    loop {
        let up = offered(client, now, id);
        if !up.is_empty() {
            client.handle_transmitted(now, id, up.len());
            plain.extend(peer.input(&up).expect("good TLS"));
        }
        let down = peer.output();
        if !down.is_empty() {
            client.handle_data(now, id, &down);
        }
        if up.is_empty() && down.is_empty() {
            return plain;
        }
    }
}

pub(crate) const CHALLENGE: &[u8] = b"sha256 aB3dEf_gaB3dEf_gaB3dEf_gaB3dEf_gaB3dEf_gaB3\n";

/// A client's connection that is ready, and its peer.
pub(crate) fn ready(client: &mut Broker, now: Instant, id: ConnectionId, world: &World) -> Peer {
    let mut peer = Peer::server(&world.server_config());
    client.handle_connected(now, id);
    assert_eq!(carry(client, now, id, &mut peer), b"");
    let challenge = peer.seal(CHALLENGE);
    client.handle_data(now, id, &challenge);
    assert_eq!(carry(client, now, id, &mut peer), response_to(CHALLENGE));
    peer
}
