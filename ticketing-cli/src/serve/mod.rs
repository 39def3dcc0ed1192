//! `ticketing serve`.

pub(crate) mod options;

use nix::sys::signal::Signal;
use ticketing_host::program::{Credentials, Settings, TokenVariables, make_room, print_line};
use ticketing_tokio::{ReloadHandle, Server};
use tokio::signal::unix::{self, SignalKind, signal};
use tokio::task::spawn_blocking;
use tracing::{error, info};

use self::options::Options;
use crate::cli::ServeArgs;
use crate::exit::{self, Failure};

/// Serves until it is told to end, and gives the exit code.
pub(crate) fn serve(args: &ServeArgs) -> Result<u8, Failure> {
    let file = args.config.as_deref().map(Options::read).transpose()?;
    let settings = options::resolve(args.options.clone(), file, TokenVariables::from_env())?;
    if args.check_config {
        settings.check_files()?;
        print_line(format_args!("ticketing: the configuration is good"));
        return Ok(0);
    }
    let flusher = settings.start_log()?;
    make_room(settings.limits.connections);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::internal(format_args!("no runtime: {error}")))?;
    let code = runtime.block_on(until_the_end(&settings));
    // Only a second signal leaves work behind, which then ends with the process.
    runtime.shutdown_background();
    flusher.flush();
    code
}

async fn until_the_end(settings: &Settings) -> Result<u8, Failure> {
    let signals = |error| Failure::internal(format_args!("signals cannot be taken: {error}"));
    let mut term = signal(SignalKind::terminate()).map_err(signals)?;
    let mut int = signal(SignalKind::interrupt()).map_err(signals)?;
    let hangup = signal(SignalKind::hangup()).map_err(signals)?;
    let mut told = async || {
        tokio::select! {
            _ = term.recv() => Signal::SIGTERM,
            _ = int.recv() => Signal::SIGINT,
        }
    };

    let server = Server::bind(settings.listen.as_slice(), settings.server_config()?)
        .await
        .map_err(|error| Failure::new(exit::SYSTEM, error))?;
    let addresses: Vec<String> = server.local_addrs().iter().map(ToString::to_string).collect();
    print_line(format_args!("ticketing: ready on {}", addresses.join(", ")));

    let shutdown = server.shutdown_handle();
    tokio::spawn(read_again(hangup, settings.credentials.clone(), server.reload_handle()));
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

/// Reads certificate, key and token again at each signal, for ever.
async fn read_again(mut hangup: unix::Signal, credentials: Credentials, server: ReloadHandle) {
    while hangup.recv().await.is_some() {
        let (credentials, server) = (credentials.clone(), server.clone());
        let reading = spawn_blocking(move || {
            credentials.read_again(|tls, secret| server.reload(tls, secret));
        });
        if let Err(panic) = reading.await {
            error!(error = %panic, "certificate, key and token can't be read again; the old ones stay");
        }
    }
}
