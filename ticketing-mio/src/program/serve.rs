//! From settings to the end of the server.

use std::process;
use std::thread;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use signal_hook::low_level::signal_name;
use ticketing_host::program::{Failure, Flusher, SYSTEM, Settings, by_signal, make_room, print_line};
use ticketing_mio::{Server, ShutdownHandle};
use tracing::info;

use crate::options::{Command, help};

/// Does what was asked for, and gives the exit code.
pub(crate) fn carry_out(command: Command) -> Result<u8, Failure> {
    match command {
        Command::Help => print_line(format_args!("{}", help().trim_end())),
        Command::Version => print_line(format_args!("ticketing-mio {}", env!("CARGO_PKG_VERSION"))),
        Command::Check(settings) => {
            settings.check_files()?;
            print_line(format_args!("ticketing-mio: the configuration is good"));
        }
        Command::Serve(settings) => serve(&settings)?,
    }
    Ok(0)
}

fn serve(settings: &Settings) -> Result<(), Failure> {
    let flusher = settings.start_log()?;
    make_room(settings.limits.connections);
    let bound = Server::bind(settings.listen.as_slice(), settings.server_config()?);
    let server = bound.map_err(|error| Failure::new(SYSTEM, error))?;
    let signals = Signals::new([SIGTERM, SIGINT, SIGHUP]);
    let signals =
        signals.map_err(|error| Failure::internal(format_args!("signals cannot be taken: {error}")))?;
    let (shutdown, reload) = (server.shutdown_handle(), server.reload_handle());
    let (credentials, last_words) = (settings.credentials.clone(), flusher.clone());
    thread::Builder::new()
        .name("signals".into())
        .spawn(move || {
            let read_again = || credentials.read_again(|tls, secret| reload.reload(tls, secret));
            heed(signals, &shutdown, read_again, &last_words);
        })
        .map_err(|error| Failure::internal(format_args!("no thread for signals: {error}")))?;
    let addresses: Vec<String> = server.local_addrs().iter().map(ToString::to_string).collect();
    print_line(format_args!("ticketing-mio: ready on {}", addresses.join(", ")));
    let ended = server.run();
    flusher.flush();
    ended.map_err(Failure::internal)
}

/// The first signal but HUP ends the server, the second one the process.
fn heed(mut signals: Signals, shutdown: &ShutdownHandle, read_again: impl Fn(), last_words: &Flusher) {
    let mut is_told = false;
    for signal in signals.forever() {
        if signal == SIGHUP {
            read_again();
            continue;
        }
        if is_told {
            last_words.flush();
            process::exit(i32::from(by_signal(signal)));
        }
        is_told = true;
        let signal = signal_name(signal);
        info!(signal, "told to end; a second signal ends it at once");
        shutdown.shut_down();
    }
}
