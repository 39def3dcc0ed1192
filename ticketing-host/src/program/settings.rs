//! What a server program is to do.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use ticketing_proto::id::Token;
use ticketing_proto::limits::{DEFAULT_PORT, Limits};
use ticketing_proto::lock::TokenRange;
use ticketing_proto::tls::ServerTls;
use ticketing_proto::wire::auth::Secret;
use tracing::{Level, info, warn};

use super::first_token::{self, StateDir};
use super::{Credentials, Failure, Flusher, Log, LogFormat, SYSTEM, token};
use crate::server::ServerConfig;

/// Descriptors that are not connections.
const OTHER_DESCRIPTORS: u64 = 64;

/// What a server program is to do, as its sources say.
#[derive(Debug)]
pub struct Settings {
    /// Where to listen.
    pub listen: Vec<SocketAddr>,
    /// What clients must know.
    pub secret: Secret,
    /// With it every connection is inside TLS (`TR-2`).
    pub tls: Option<ServerTls>,
    /// Where these two are, to be read again.
    pub credentials: Credentials,
    /// Whether strangers are welcome: without a secret, beyond loopback (`AU-9`).
    pub allow_no_token: bool,
    /// The directory that remembers which tokens were used (`FI-8`).
    pub state_dir: Option<PathBuf>,
    /// The first token to grant; with a state directory, at least this one.
    pub first_token: Option<u64>,
    /// What is admitted.
    pub limits: Limits,
    /// How log lines look.
    pub log_format: LogFormat,
    /// The least weighty lines that are logged.
    pub log_level: Level,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            listen: vec![SocketAddr::from(([127, 0, 0, 1], DEFAULT_PORT))],
            secret: Secret::default(),
            tls: None,
            credentials: Credentials::default(),
            allow_no_token: false,
            state_dir: None,
            first_token: None,
            limits: Limits::default(),
            log_format: LogFormat::default(),
            log_level: Level::INFO,
        }
    }
}

impl Settings {
    /// Checks what can be checked without files.
    ///
    /// # Errors
    /// If the token is too short for a server, or is missing where it must not be (`AU-9`).
    pub fn check(self) -> Result<Self, Failure> {
        token::check_for_server(&self.secret)?;
        let may_be_open = !self.secret.is_empty() || self.allow_no_token;
        match self.listen.iter().find(|address| !address.ip().to_canonical().is_loopback()) {
            Some(address) if !may_be_open => Err(Failure::usage(format_args!(
                "{address} is not a loopback address and there is no token: everybody who can reach it could take \
                 and release every lock; give a token by --token-file, or say --allow-no-token"
            ))),
            _ => Ok(self),
        }
    }

    /// Checks what [`server_config`](Self::server_config) needs, without changing anything. Whether another server
    /// uses the state directory is not looked at: a configuration can be checked while it is served.
    ///
    /// # Errors
    /// If the host's clock is wrong, all tokens are used up, or the state directory can't be used.
    pub fn check_files(&self) -> Result<(), Failure> {
        match (&self.state_dir, self.first_token) {
            (Some(path), given) => first_token::check(path, given),
            (None, None) => first_token::from_clock().map(drop),
            (None, Some(_)) => Ok(()),
        }
    }

    /// Starts the log on stderr, for the whole process, and says what a look at the log should show.
    ///
    /// # Errors
    /// If there is a log already, or no thread for it.
    pub fn start_log(&self) -> Result<Flusher, Failure> {
        let (log, flusher) = Log::to_stderr(self.log_format, self.log_level)
            .map_err(|error| Failure::internal(format_args!("no thread for the log: {error}")))?;
        tracing::subscriber::set_global_default(log).map_err(Failure::internal)?;
        if self.secret.is_empty() {
            info!("there is no token: whoever reaches the server may use it");
        }
        Ok(flusher)
    }

    /// What the server is told, with the tokens that it may grant (`FI-8`). The state directory, if there is one, is
    /// locked for as long as that lives.
    ///
    /// # Errors
    /// If the host's clock is wrong, all tokens are used up, or the state directory can't be used.
    pub fn server_config(&self) -> Result<ServerConfig, Failure> {
        let mut config = match &self.state_dir {
            None => {
                let first = self.first_token.map_or_else(first_token::from_clock, Ok)?;
                let tokens = TokenRange { next: token(first)?, last: token(u64::MAX)? };
                ServerConfig::new(self.secret.clone(), tokens)
            }
            Some(path) => {
                let mut dir = StateDir::open(path)?;
                let first = dir.first(self.first_token)?;
                let mut last = dir.reserve(first).map_err(|error| {
                    let shown = path.display();
                    Failure::new(SYSTEM, format_args!("no tokens can be reserved in {shown}: {error}"))
                })?;
                let tokens = TokenRange { next: token(first)?, last: token(last)? };
                ServerConfig::new(self.secret.clone(), tokens).with_reserve(move || {
                    let next =
                        last.checked_add(1).ok_or_else(|| io::Error::other("all tokens are used up"))?;
                    last = dir.reserve(next)?;
                    Token::new(last).ok_or_else(|| io::ErrorKind::InvalidData.into())
                })
            }
        };
        config.limits = self.limits;
        config.tls = self.tls.clone();
        Ok(config)
    }
}

fn token(value: u64) -> Result<Token, Failure> {
    Token::new(value).ok_or_else(|| Failure::internal("a token of 0"))
}

/// Raises the limit of descriptors as far as so many connections need and the system allows.
pub fn make_room(connections: u32) {
    let needed = u64::from(connections).saturating_add(OTHER_DESCRIPTORS);
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    // None: there is no limit.
    let (soft, hard) = (current.unwrap_or(u64::MAX), maximum.unwrap_or(u64::MAX));
    let raised = Rlimit { current: Some(needed.min(hard)), maximum };
    if soft < needed && setrlimit(Resource::Nofile, raised).is_err() || hard < needed {
        warn!(connections, descriptors = hard, "the system allows fewer descriptors than connections");
    }
}
