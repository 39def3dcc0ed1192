//! `ticketing serve`.

mod first_token;
mod log;
pub(crate) mod options;

use std::fmt;
use std::io::{self, Write as _};

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::sys::signal::Signal;
use ticketing_proto::lock::TokenRange;
use ticketing_tokio::{Server, ServerConfig, Token};
use tokio::signal::unix::{SignalKind, signal};
use tracing::{info, warn};

use self::first_token::StateDir;
use self::log::Log;
use self::options::{Options, Settings};
use crate::cli::ServeArgs;
use crate::exit::{self, Failure};
use crate::token::TokenVariables;

/// Descriptors that are not connections.
const OTHER_DESCRIPTORS: u64 = 64;

/// Serves until it is told to end, and gives the exit code.
pub(crate) fn serve(args: &ServeArgs) -> Result<u8, Failure> {
    let file = args.config.as_deref().map(Options::read).transpose()?;
    let settings = Settings::resolve(args.options.clone(), file, TokenVariables::from_env())?;
    if args.check_config {
        if let Some(dir) = &settings.state_dir {
            first_token::read(dir)?;
        }
        print_line(format_args!("ticketing: the configuration is good"));
        return Ok(0);
    }
    let (log, flusher) = Log::to_stderr(settings.log_format, settings.log_level)
        .map_err(|error| Failure::internal(format_args!("no thread for the log: {error}")))?;
    tracing::subscriber::set_global_default(log).map_err(Failure::internal)?;
    make_room(u64::from(settings.limits.connections));
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::internal(format_args!("no runtime: {error}")))?;
    let code = runtime.block_on(until_the_end(settings));
    // Only a second signal leaves work behind, which then ends with the process.
    runtime.shutdown_background();
    flusher.flush();
    code
}

async fn until_the_end(settings: Settings) -> Result<u8, Failure> {
    let signals = |error| Failure::internal(format_args!("signals cannot be taken: {error}"));
    let mut term = signal(SignalKind::terminate()).map_err(signals)?;
    let mut int = signal(SignalKind::interrupt()).map_err(signals)?;
    let mut told = async || {
        tokio::select! {
            _ = term.recv() => Signal::SIGTERM,
            _ = int.recv() => Signal::SIGINT,
        }
    };

    if settings.secret.is_empty() {
        info!("there is no token: whoever reaches the server may use it");
    }
    let server = Server::bind(settings.listen.as_slice(), config(&settings)?)
        .await
        .map_err(|error| Failure::new(exit::SYSTEM, error))?;
    let addresses: Vec<String> = server.local_addrs().iter().map(ToString::to_string).collect();
    print_line(format_args!("ticketing: ready on {}", addresses.join(", ")));

    let shutdown = server.shutdown_handle();
    let mut serving = std::pin::pin!(server.serve());
    let ended = tokio::select! {
        ended = &mut serving => ended,
        signal = told() => {
            info!(%signal, "told to end; a second signal ends it at once");
            shutdown.shut_down();
            tokio::select! {
                ended = &mut serving => ended,
                signal = told() => return Ok(exit::by_signal(signal as i32)),
            }
        }
    };
    ended.map(|()| 0).map_err(Failure::internal)
}

/// What the server is told, with the tokens that it may grant.
fn config(settings: &Settings) -> Result<ServerConfig, Failure> {
    let mut config = match &settings.state_dir {
        None => {
            let first = settings.first_token.map_or_else(first_token::from_clock, Ok)?;
            ServerConfig::new(
                settings.secret.clone(),
                TokenRange { next: token(first)?, last: token(u64::MAX)? },
            )
        }
        Some(path) => {
            let mut dir = StateDir::open(path)?;
            let first = dir.first(settings.first_token)?;
            let mut last = dir.reserve(first).map_err(|error| {
                let shown = path.display();
                Failure::new(exit::SYSTEM, format_args!("no tokens can be reserved in {shown}: {error}"))
            })?;
            let range = TokenRange { next: token(first)?, last: token(last)? };
            ServerConfig::new(settings.secret.clone(), range).with_reserve(move || {
                let next = last.checked_add(1).ok_or_else(|| io::Error::other("all tokens are used up"))?;
                last = dir.reserve(next)?;
                Token::new(last).ok_or_else(|| io::ErrorKind::InvalidData.into())
            })
        }
    };
    config.limits = settings.limits;
    Ok(config)
}

fn token(value: u64) -> Result<Token, Failure> {
    Token::new(value).ok_or_else(|| Failure::internal("a token of 0"))
}

/// Raises the limit of descriptors as far as the connections need and the system allows.
fn make_room(connections: u64) {
    let needed = connections.saturating_add(OTHER_DESCRIPTORS);
    let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE) else { return };
    if soft < needed && setrlimit(Resource::RLIMIT_NOFILE, needed.min(hard), hard).is_err() || hard < needed {
        warn!(connections, descriptors = hard, "the system allows fewer descriptors than connections");
    }
}

/// Prints a line on stdout. Who started the server may not care to read it.
fn print_line(text: fmt::Arguments<'_>) {
    drop(writeln!(io::stdout(), "{text}"));
}
