//! The command line: what `--help` shows.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};

use crate::serve::options::Options;
use crate::values::{List, ServerAddress, seconds, step_timeout};

/// Ticketing, a lock service: named locks with leases and fencing tokens.
#[derive(Parser, Debug)]
#[command(name = "ticketing", version, max_term_width = 100, after_help = EXIT_CODES)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Subcommand, Debug)]
pub(crate) enum Command {
    Serve(Box<ServeArgs>),
    Run(RunArgs),
    Ping(PingArgs),
}

const EXIT_CODES: &str = "\
Exit codes of all subcommands: 64 for a wrong command line, environment or
configuration, 70 for an error that should not be. The help of each subcommand
has the others.";

/// Serve locks.
///
/// Prints one line on stdout when it is ready, with the addresses it listens on; logs go to stderr. Every option
/// can be set by a flag, by its environment variable, or in the TOML file of --config, where its name is that of
/// the flag without the dashes: `max-keys = 5000`, `listen = ["127.0.0.1:5225"]`. A flag beats the environment,
/// which beats the file, which beats the default. An unknown key in the file is an error.
///
/// TERM or INT ends it in good order: it stops accepting, lets its clients know, and exits with 0 within 6 s;
/// a second one ends it at once. Holds live in memory: a restart forgets them.
///
/// HUP has it read the files of certificate, key and token again, from the paths it was started with: connections
/// that come from then on get what is in them, those that exist live on. If any of it can't be used, the log says why
/// and all of the old stays.
#[derive(Args, Debug)]
#[command(after_help = SERVE_EXIT_CODES)]
pub(crate) struct ServeArgs {
    /// A TOML file with options.
    #[arg(long, env = "TICKETING_CONFIG", hide_env_values = true, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,

    /// Check what can be checked without serving or changing anything (options, files, token, certificate and key,
    /// the host's clock, the state directory), and exit. Only serving shows whether an address is free and the state
    /// directory is not in use.
    #[arg(long, env = "TICKETING_CHECK_CONFIG", hide_env_values = true)]
    pub(crate) check_config: bool,

    #[command(flatten)]
    pub(crate) options: Options,
}

const SERVE_EXIT_CODES: &str = "\
The token is never an argument. It is in the file of --token-file or
TICKETING_TOKEN_FILE, or in the variable TICKETING_TOKEN itself. One line end
(LF or CR LF) at the end of the file is not part of it; of the variable every
byte counts. It has 16 bytes or more. Without a token a server listens on
loopback only, unless --allow-no-token says otherwise: it then serves everybody
who can reach it.

Exit codes:
  0      it was told to end, and has
  64     wrong options, configuration, token, certificate or key
  70     an error that should not be
  71     the system refused: an address is in use, the state directory is
         locked or cannot be written
  128+n  it was ended at once, by a second signal n";

/// Run a command while holding a lock.
///
/// Acquires the lock KEY, runs COMMAND, releases the lock, and exits with the command's code. No shell is put in
/// between. The command runs in a process group of its own, in the foreground of the terminal if there is one
/// (where stdout goes into a pipe, as to a pager, once it asks for the terminal); TERM, INT, HUP, QUIT, USR1 and USR2
/// are passed on to that group.
///
/// The lock is held for one lease, of 250 s at most, and THERE IS NO RENEWAL: work that may need longer than a lease
/// does not fit. Before the lease ends (--grace before) the command's process group gets TERM, at the end KILL. A
/// small guard process sees to that even when `ticketing run` itself is killed or stopped; when `ticketing run` is
/// killed, the group gets TERM at once and KILL after the grace. (Only if both are killed in one moment, nobody is
/// left to see to it.)
///
/// When the command ends, what is left of its process group is ended too (TERM, then KILL after the grace), and only
/// then the lock is released. The command itself cannot get away, but descendants that leave the process group (by
/// setsid, as daemons, as jobs of an interactive shell) escape all this: don't start such under a lock.
#[derive(Args, Debug)]
#[command(after_help = RUN_EXIT_CODES)]
pub(crate) struct RunArgs {
    /// The name of the lock: 1 to 128 bytes of UTF-8, without spaces and line ends
    #[arg(value_name = "KEY")]
    pub(crate) key: String,

    /// How long to wait for the lock, 0 to 255; fractions are rounded up to whole seconds. When the server falls
    /// silent, 5 s more for an answer that is certain
    #[arg(short, long, value_name = "SECS", default_value = "10", value_parser = seconds)]
    pub(crate) wait: Duration,

    /// Try once, without waiting; to reach a server it has 5 s
    #[arg(short, long, conflicts_with = "wait")]
    pub(crate) no_wait: bool,

    /// How long the lock is taken for, 1 to 250 [default: wait + budget + 30, at most 250]. Counts from the request,
    /// so waiting uses it up: at least wait + budget lets the wait be used fully
    #[arg(long, value_name = "SECS", value_parser = seconds)]
    pub(crate) lease: Option<Duration>,

    /// What the command needs of the lease at least, the grace included; with less left, it is not started (75)
    /// [default: 10, or half of --lease if that is less; in any case the grace]
    #[arg(long, value_name = "SECS", value_parser = seconds)]
    pub(crate) budget: Option<Duration>,

    /// How long before the lease's end the command gets TERM [default: 5, or a tenth of the lease if that is less]
    #[arg(long, value_name = "SECS", value_parser = seconds)]
    pub(crate) grace: Option<Duration>,

    /// The exit code in place of 75
    #[arg(short = 'E', long, value_name = "CODE", default_value_t = crate::exit::NOT_ACQUIRED)]
    pub(crate) conflict_exit_code: u8,

    /// Say on stderr how long it waited, the token, what is left of the lease, and what went wrong
    #[arg(short, long)]
    pub(crate) verbose: bool,

    #[command(flatten)]
    pub(crate) client: ClientArgs,

    /// The command and its arguments
    #[arg(last = true, required = true, value_name = "COMMAND")]
    pub(crate) command: Vec<OsString>,
}

const RUN_EXIT_CODES: &str = "\
The command sees three variables; TICKETING_TOKEN and TICKETING_TOKEN_FILE are
taken out of its environment:
  TICKETING_KEY          the key
  TICKETING_FENCE        the fencing token, which rises with every grant. Hand
                         it to what the lock protects, and let that refuse a
                         token lower than one it has seen: only this makes
                         writes harmless that come too late
  TICKETING_VALID_UNTIL  when the lease ends, in seconds since 1970, rounded
                         down. It is reckoned once, with the host's wall clock:
                         good for planning the work, worth nothing once that
                         clock is set or the host has slept, proof of nothing

Exit codes:
  the command's own; 128+n when signal n ended it, or ended the wait for the lock
  64   wrong command line or environment
  69   no server could be reached until the deadline, or by TLS none that may be
       trusted
  70   an error that should not be
  75   not acquired, and that is certain: timeout, busy, or too little of the
       lease left (-E changes the code; -v says which)
  76   it is not known whether the lock was acquired; the lease bounds it, and
       the command did not run
  77   the server refused the token
  79   the lease ran out and the command was stopped, whatever its own code. One
       that had ended by itself has its own code, also when that was seen late
       (-v says so)
  126  the command cannot be executed
  127  the command was not found";

/// See whether a server answers, and how fast.
///
/// For each server: connects, with TLS shakes hands, authenticates, acquires a lock on a key of its own and releases it, and prints how
/// long each step took.
#[derive(Args, Debug)]
#[command(after_help = PING_EXIT_CODES)]
pub(crate) struct PingArgs {
    /// How long each step may take, above 0 and at most 3600
    #[arg(short, long, value_name = "SECS", default_value = "5", value_parser = step_timeout)]
    pub(crate) timeout: Duration,

    #[command(flatten)]
    pub(crate) client: ClientArgs,
}

const PING_EXIT_CODES: &str = "\
The exit code says which step failed (of the first server where one did):
  0   none
  64  wrong command line or environment
  69  connect: the name is unknown, or nobody listens there; or tls: the server
      does not speak it, or its certificate is refused
  77  authenticate: no proper challenge came, or the server refused the token
  75  acquire: the lock was not granted, or no answer came
  76  release: it was not confirmed";

/// How to reach servers.
#[derive(Args, Debug)]
pub(crate) struct ClientArgs {
    /// The server's address, HOST:PORT; repeated or with commas for the nodes of a cluster [default: 127.0.0.1:5225]
    #[arg(short, long = "server", value_name = "ADDR", env = "TICKETING_SERVERS", hide_env_values = true)]
    pub(crate) servers: Vec<List<ServerAddress>>,

    /// A file with the token. The token is never an argument: it is in this file, or in that of the variable
    /// TICKETING_TOKEN_FILE, or in the variable TICKETING_TOKEN itself. One line end (LF or CR LF) at the end of the
    /// file is not part of it; of the variable every byte counts
    #[arg(long, value_name = "FILE")]
    pub(crate) token_file: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) tls: TlsArgs,
}

/// Whether servers are inside TLS, and which are trusted.
#[derive(Args, Debug)]
pub(crate) struct TlsArgs {
    /// Reach servers by TLS, and trust the authorities that the system trusts. The other options for TLS imply it;
    /// with --tls=false there is none, whatever they say
    #[arg(
        long, env = "TICKETING_TLS", hide_env_values = true,
        num_args = 0..=1, require_equals = true, default_missing_value = "true", value_name = "BOOL"
    )]
    pub(crate) tls: Option<bool>,

    /// A file of PEM with the authorities to trust, in place of the system's
    #[arg(long, env = "TICKETING_TLS_CA", hide_env_values = true, value_name = "FILE")]
    pub(crate) tls_ca: Option<PathBuf>,

    /// The name or IP address that the server's certificate must hold for, in place of the HOST in its address
    #[arg(long, env = "TICKETING_TLS_NAME", hide_env_values = true, value_name = "NAME")]
    pub(crate) tls_name: Option<String>,

    /// Accept every certificate: whoever can get in between reads all and answers in the server's place. For trying
    /// things out; there is no variable for it
    #[arg(long, conflicts_with = "tls_ca")]
    pub(crate) tls_dangerously_without_verification: bool,
}

impl ClientArgs {
    /// The addresses, as the client takes them.
    pub(crate) fn addresses(&self) -> Vec<String> {
        let named: Vec<String> =
            self.servers.iter().flat_map(|list| &list.0).map(|address| address.0.clone()).collect();
        if named.is_empty() {
            vec![format!("127.0.0.1:{}", ticketing_proto::limits::DEFAULT_PORT)]
        } else {
            named
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory as _;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn the_token_is_never_an_argument() {
        let command = Cli::command();
        for subcommand in command.get_subcommands() {
            for argument in subcommand.get_arguments() {
                assert_ne!(argument.get_long(), Some("token"), "{}", subcommand.get_name());
                assert_ne!(
                    argument.get_env().and_then(|name| name.to_str()),
                    Some(ticketing_host::program::TOKEN_VARIABLE),
                    "clap would print its value"
                );
            }
        }
    }
}
