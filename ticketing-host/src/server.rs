//! What a server of any adapter starts with, and what it tells of its peers.

mod listen;
mod log;
#[cfg(all(test, loom))]
mod models;
mod peer;
mod serve;
mod shared;
mod upkeep;

use std::fmt;
use std::io;
use std::time::{SystemTime, UNIX_EPOCH};

use ticketing_proto::id::Token;
use ticketing_proto::limits::Limits;
use ticketing_proto::lock::TokenRange;
use ticketing_proto::tls::ServerTls;
use ticketing_proto::wire::auth::{NONCE_LEN, Secret};

pub use log::Log;
pub use serve::{ReloadHandle, Server, ShutdownHandle};

/// Where more tokens come from, see [`ServerConfig::with_reserve`].
pub type Reserve = Box<dyn FnMut() -> io::Result<Token> + Send>;

/// What a server starts with.
#[non_exhaustive]
pub struct ServerConfig {
    /// What clients must know. The empty secret lets everybody in (`AU-5`).
    pub secret: Secret,
    /// What is admitted.
    pub limits: Limits,
    /// With it every connection is inside TLS (`TR-2`).
    pub tls: Option<ServerTls>,
    tokens: TokenRange,
    reserve: Option<Reserve>,
}

impl ServerConfig {
    /// With fewer tokens left than this, more are [reserved](Self::with_reserve). A server may grant a million in
    /// a second, so a block should be some times as many.
    pub const LOW_TOKENS: u64 = 1 << 18;

    /// A server with the default limits and without TLS that grants `tokens`, see [`fresh_tokens`].
    #[must_use]
    pub fn new(secret: Secret, tokens: TokenRange) -> Self {
        Self { secret, limits: Limits::default(), tls: None, tokens, reserve: None }
    }

    /// Gets more tokens from `reserve` when few are left.
    ///
    /// It reserves, durably, a block of tokens right above the last one that it gave, and gives the last one of
    /// the block (`FI-8`). It may block: it is called where blocking is allowed, one call at a time, first when
    /// the server starts if the tokens of the start are few. While it fails, the server says so in a log event
    /// and calls it again each second; it grants the tokens that are left, and then fails closed (`FI-6`).
    #[must_use]
    pub fn with_reserve(mut self, reserve: impl FnMut() -> io::Result<Token> + Send + 'static) -> Self {
        self.reserve = Some(Box::new(reserve));
        self
    }

    /// For adapters: what the core is told, with a fresh seed for its hashes, and where more tokens come from.
    ///
    /// # Errors
    /// If the system has no randomness.
    pub fn into_parts(self) -> io::Result<(ticketing_proto::server::ServerConfig, Option<Reserve>)> {
        let Self { secret, limits, tls, tokens, reserve } = self;
        let hash_seed = [getrandom::u64()?, getrandom::u64()?];
        Ok((ticketing_proto::server::ServerConfig { secret, limits, tokens, hash_seed, tls }, reserve))
    }
}

impl fmt::Debug for ServerConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerConfig")
            .field("secret", &self.secret)
            .field("limits", &self.limits)
            .field("tls", &self.tls)
            .field("tokens", &self.tokens)
            .finish_non_exhaustive()
    }
}

/// The tokens of a server that does not know what an earlier life of it granted: from a point made of the time and
/// randomness (`FI-8`), practically never the same token twice, and no promise of order (`FI-7`).
///
/// # Errors
/// If the host's clock shows a time before 1970, or the system has no randomness.
pub fn fresh_tokens() -> io::Result<TokenRange> {
    let since_1970 = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_err(|_| io::Error::other("the host's clock shows a time before 1970"))?;
    Ok(TokenRange::fresh(since_1970, getrandom::u64()?))
}

/// For adapters: what a connection's challenge is made of (`AU-6`).
///
/// # Errors
/// If the system has no randomness.
pub fn fresh_nonce() -> io::Result<[u8; NONCE_LEN]> {
    let mut nonce = [0; NONCE_LEN];
    getrandom::fill(&mut nonce)?;
    Ok(nonce)
}
