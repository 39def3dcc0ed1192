//! The command line and the environment.

use std::ffi::{OsStr, OsString};
use std::fmt::Write as _;
use std::net::SocketAddr;
use std::path::PathBuf;

use ticketing_host::program::{
    Credentials, Failure, Settings, TOKEN_FILE_VARIABLE, TOKEN_VARIABLE, TokenVariables, first_token, limit,
    listen_address, token_source, words,
};
use ticketing_proto::limits::Limits;

/// What is to be done.
#[derive(Debug)]
pub(crate) enum Command {
    Help,
    Version,
    /// Check what can be checked without serving.
    Check(Settings),
    Serve(Settings),
}

/// An option: the flag `--name` and the variable `TICKETING_NAME`.
struct Opt {
    name: &'static str,
    kind: Kind,
    help: &'static str,
}

/// What an option takes.
enum Kind {
    /// A value, which help calls so.
    Value(&'static str, fn(&mut Draft, &OsStr) -> Result<(), String>),
    /// A number, for one of the limits.
    Limit(fn(&mut Limits) -> &mut u32),
    /// Nothing, or `=true` or `=false`.
    Switch(fn(&mut Draft, bool)),
}

/// What has been said so far.
#[derive(Default)]
struct Draft {
    settings: Settings,
    token_file: Option<PathBuf>,
    tls_cert: Option<PathBuf>,
    tls_key: Option<PathBuf>,
    is_check: bool,
    /// Those of flags, in place of those of the environment.
    listen: Vec<SocketAddr>,
}

/// All of them; the names are those of `ticketing serve`.
const OPTIONS: &[Opt] = &[
    Opt {
        name: "listen",
        kind: Kind::Value("ADDR", |draft, text| {
            let text = utf8(text)?;
            let start = draft.listen.len();
            for word in words(text) {
                draft.listen.push(listen_address(word)?);
            }
            if draft.listen.len() == start { Err("it names nothing".to_owned()) } else { Ok(()) }
        }),
        help: "An address to listen on, IPv4 or IPv6; repeated, or with commas, for several. Port 0 takes\n\
               a free one [default: 127.0.0.1:5225]",
    },
    Opt {
        name: "token-file",
        kind: Kind::Value("FILE", |draft, path| {
            draft.token_file = Some(path.into());
            Ok(())
        }),
        help: "A file with the token that clients must have",
    },
    Opt {
        name: "tls-cert",
        kind: Kind::Value("FILE", |draft, path| {
            draft.tls_cert = Some(path.into());
            Ok(())
        }),
        help: "A file of PEM with the certificate of the server, and those between it and its authority's:\n\
               with it and --tls-key, every connection is inside TLS",
    },
    Opt {
        name: "tls-key",
        kind: Kind::Value("FILE", |draft, path| {
            draft.tls_key = Some(path.into());
            Ok(())
        }),
        help: "A file of PEM with the key that belongs to the certificate, without a password",
    },
    Opt {
        name: "allow-no-token",
        kind: Kind::Switch(|draft, is_on| draft.settings.allow_no_token = is_on),
        help: "Listen beyond loopback without a token: everybody who can reach the server may use it",
    },
    Opt {
        name: "state-dir",
        kind: Kind::Value("DIR", |draft, path| {
            draft.settings.state_dir = Some(path.into());
            Ok(())
        }),
        help: "A directory that remembers which tokens were used, so that tokens rise across restarts.\n\
               One server at a time uses it. Without it a server starts at a point made of the time and\n\
               randomness: practically never the same token twice, and no promise of order",
    },
    Opt {
        name: "first-token",
        kind: Kind::Value("N", |draft, text| {
            draft.settings.first_token = Some(first_token(utf8(text)?)?.get());
            Ok(())
        }),
        help: "The first token to grant, in place of the point made of the time; with a state directory,\n\
               at least this one",
    },
    Opt {
        name: "max-connections",
        kind: Kind::Limit(|limits| &mut limits.connections),
        help: "Connections; one beyond is closed right after accept [default: 10000]",
    },
    Opt {
        name: "max-unauthenticated",
        kind: Kind::Limit(|limits| &mut limits.unauthenticated),
        help: "Connections that are not authenticated yet; likewise [default: 1024]",
    },
    Opt {
        name: "max-keys",
        kind: Kind::Limit(|limits| &mut limits.keys),
        help: "Keys held. At 90 % of it, as of the next two, new ones are refused as busy until it falls\n\
               below 75 % [default: 1000000]",
    },
    Opt {
        name: "max-acquires",
        kind: Kind::Limit(|limits| &mut limits.acquires),
        help: "Acquires in flight, waiters included [default: 200000]",
    },
    Opt {
        name: "max-waiters",
        kind: Kind::Limit(|limits| &mut limits.waiters),
        help: "Waiters of all keys [default: 100000]",
    },
    Opt {
        name: "max-waiters-per-key",
        kind: Kind::Limit(|limits| &mut limits.waiters_per_key),
        help: "Waiters of one key [default: 10000]",
    },
    Opt {
        name: "max-acquires-per-connection",
        kind: Kind::Limit(|limits| &mut limits.acquires_per_connection),
        help: "Acquires in flight of one connection [default: 4096]",
    },
    Opt {
        name: "log-format",
        kind: Kind::Value("FORMAT", |draft, text| {
            draft.settings.log_format = utf8(text)?.parse()?;
            Ok(())
        }),
        help: "How log lines on stderr look: text or json [default: text]",
    },
    Opt {
        name: "log-level",
        kind: Kind::Value("LEVEL", |draft, text| {
            let text = utf8(text)?;
            let level = text.parse().ok().filter(|_| text.chars().all(|letter| letter.is_ascii_lowercase()));
            draft.settings.log_level =
                level.ok_or_else(|| format!("`{text}` is none of error, warn, info, debug, trace"))?;
            Ok(())
        }),
        help: "The least weighty lines that are logged: error, warn, info, debug or trace [default: info]",
    },
    Opt {
        name: "check-config",
        kind: Kind::Switch(|draft, is_on| draft.is_check = is_on),
        help: "Check what can be checked without serving or changing anything, the state directory included, and exit",
    },
];

/// Lays flags over the environment, and that over the defaults; then checks.
pub(crate) fn parse(
    arguments: impl IntoIterator<Item = OsString>,
    variable: impl Fn(&str) -> Option<OsString>,
) -> Result<Command, Failure> {
    let mut draft = Draft::default();
    for option in OPTIONS {
        let name = option.variable();
        // Where a token comes from is decided over all sources at once.
        if name != TOKEN_FILE_VARIABLE
            && let Some(value) = variable(&name)
        {
            option.set(&mut draft, Some(&value)).map_err(|error| wrong(&name, &error))?;
        }
    }
    let mut listen = std::mem::take(&mut draft.listen);

    let mut arguments = arguments.into_iter();
    while let Some(argument) = arguments.next() {
        let shown = argument.to_string_lossy().into_owned();
        match shown.as_str() {
            "--help" | "-h" => return Ok(Command::Help),
            "--version" | "-V" => return Ok(Command::Version),
            _ => {}
        }
        let (name, mut value) = split(&argument);
        let option = OPTIONS
            .iter()
            .find(|option| name.and_then(|name| name.strip_prefix("--")) == Some(option.name))
            .ok_or_else(|| Failure::usage(format_args!("`{shown}` is no option; --help shows them")))?;
        if option.value_name().is_some() && value.is_none() {
            value = arguments.next();
        }
        let flag = format!("--{}", option.name);
        option.set(&mut draft, value.as_deref()).map_err(|error| wrong(&flag, &error))?;
    }
    if !draft.listen.is_empty() {
        listen = draft.listen;
    }
    if !listen.is_empty() {
        draft.settings.listen = listen;
    }
    let variables = TokenVariables { token: variable(TOKEN_VARIABLE), file: variable(TOKEN_FILE_VARIABLE) };
    let token = token_source(draft.token_file.as_deref(), variables, None)?;
    let credentials = Credentials::new(token, draft.tls_cert, draft.tls_key)?;
    (draft.settings.tls, draft.settings.secret) = credentials.read()?;
    draft.settings.credentials = credentials;
    let settings = draft.settings.check()?;
    Ok(if draft.is_check { Command::Check(settings) } else { Command::Serve(settings) })
}

impl Opt {
    fn variable(&self) -> String {
        format!("TICKETING_{}", self.name.replace('-', "_").to_uppercase())
    }

    fn set(&self, draft: &mut Draft, value: Option<&OsStr>) -> Result<(), String> {
        let needed =
            || value.ok_or_else(|| format!("it needs a value, {}", self.value_name().unwrap_or_default()));
        match self.kind {
            Kind::Value(_, set) => set(draft, needed()?)?,
            Kind::Limit(field) => *field(&mut draft.settings.limits) = limit(utf8(needed()?)?)?.get(),
            Kind::Switch(set) => {
                let text = value.map_or(Ok("true"), utf8)?;
                set(draft, text.parse().map_err(|_| format!("`{text}` is neither true nor false"))?);
            }
        }
        Ok(())
    }

    /// What help calls its value; a switch needs none.
    const fn value_name(&self) -> Option<&'static str> {
        match self.kind {
            Kind::Value(name, _) => Some(name),
            Kind::Limit(_) => Some("N"),
            Kind::Switch(_) => None,
        }
    }
}

/// A flag and what stands behind its `=`. No name where it is not UTF-8.
fn split(argument: &OsStr) -> (Option<&str>, Option<OsString>) {
    use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
    let bytes = argument.as_bytes();
    let end = bytes.iter().position(|&byte| byte == b'=').unwrap_or(bytes.len());
    let value = bytes.get(end + 1..).map(|value| OsString::from_vec(value.to_vec()));
    (std::str::from_utf8(&bytes[..end]).ok(), value)
}

fn utf8(text: &OsStr) -> Result<&str, String> {
    text.to_str().ok_or_else(|| format!("`{}` is not UTF-8", text.display()))
}

fn wrong(source: &str, error: &str) -> Failure {
    Failure::usage(format_args!("{source}: {error}"))
}

/// What `--help` shows.
pub(crate) fn help() -> String {
    let mut help = HEAD.to_owned();
    for option in OPTIONS {
        let (space, value) = option.value_name().map_or(("", ""), |name| (" ", name));
        // Writing to a String does not fail.
        let _ = write!(help, "\n  --{}{space}{value}  [env: {}]\n", option.name, option.variable());
        for line in option.help.lines() {
            let _ = writeln!(help, "          {line}");
        }
    }
    help.push_str(FOOT);
    help
}

const HEAD: &str = "\
ticketing-mio: serves locks, on one thread.

Prints one line on stdout when it is ready, with the addresses it listens on; logs go to stderr. A flag beats its
environment variable, which beats the default. TERM or INT ends it in good order: it stops accepting, lets its
clients know, and exits with 0 within 6 s; a second one ends it at once. HUP has it read certificate, key and
token again, for connections that come. Holds live in memory: a restart forgets them.

Options:
";

const FOOT: &str = "
  -h, --help     Show this
  -V, --version  Show the version

The token is never an argument. It is in the file of --token-file or TICKETING_TOKEN_FILE, or in the variable
TICKETING_TOKEN itself. One line end (LF or CR LF) at the end of the file is not part of it; of the variable every
byte counts. It has 16 bytes or more. Without a token a server listens on loopback only, unless --allow-no-token
says otherwise: it then serves everybody who can reach it.

Exit codes:
  0      it was asked to end, and has
  64     wrong options or token
  70     an error that should not be
  71     the system refused: an address is in use, the state directory is locked or cannot be written
  128+n  it was ended by signal n a second time
";

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(arguments: &[&str], environment: &[(&str, &str)]) -> Result<Command, Failure> {
        let value =
            |name: &str| environment.iter().find(|(known, _)| *known == name).map(|(_, value)| value.into());
        parse(arguments.iter().map(OsString::from), value)
    }

    fn settings(arguments: &[&str], environment: &[(&str, &str)]) -> Settings {
        match parsed(arguments, environment) {
            Ok(Command::Serve(settings)) => settings,
            other => panic!("{other:?}"),
        }
    }

    fn error(arguments: &[&str], environment: &[(&str, &str)]) -> String {
        let failure = parsed(arguments, environment).expect_err("it is wrong");
        assert_eq!(failure.code, ticketing_host::program::USAGE);
        failure.message
    }

    #[test]
    fn without_anything_the_defaults_hold() {
        let settings = settings(&[], &[]);
        assert_eq!(settings.listen, ["127.0.0.1:5225".parse().expect("an address")]);
        assert_eq!(settings.limits, Limits::default());
        assert!(settings.secret.is_empty() && !settings.allow_no_token);
    }

    #[test]
    fn a_flag_beats_its_variable() {
        let environment = [("TICKETING_MAX_KEYS", "7"), ("TICKETING_LISTEN", "127.0.0.1:1 [::1]:2")];
        let both = settings(&[], &environment);
        assert_eq!((both.limits.keys, both.listen.len()), (7, 2));
        let flags = ["--max-keys=9", "--listen", "127.0.0.1:3", "--listen=127.0.0.1:4,127.0.0.1:5"];
        let both = settings(&flags, &environment);
        assert_eq!(both.limits, Limits { keys: 9, ..Limits::default() });
        assert_eq!(both.listen.iter().map(SocketAddr::port).collect::<Vec<_>>(), [3, 4, 5]);
    }

    #[test]
    fn every_limit_has_an_option() {
        for (at, (name, _)) in Limits::default().named().into_iter().enumerate() {
            let flag = format!("--max-{}", name.replace('_', "-"));
            let limits = settings(&[&flag, "5"], &[]).limits.named();
            assert_eq!(limits[at], (name, 5));
            let others = Limits::default().named().into_iter().filter(|(other, _)| *other != name);
            assert!(others.eq(limits.into_iter().filter(|(other, _)| *other != name)), "{flag}");
        }
    }

    #[test]
    fn what_is_wrong_is_named_with_its_source() {
        assert_eq!(error(&["--max-kyes", "5"], &[]), "`--max-kyes` is no option; --help shows them");
        assert_eq!(error(&["serve"], &[]), "`serve` is no option; --help shows them");
        assert_eq!(error(&["--max-keys"], &[]), "--max-keys: it needs a value, N");
        let rule = "0 is not a whole number from 1 to 4294967295";
        assert_eq!(error(&["--max-keys=0"], &[]), format!("--max-keys: {rule}"));
        assert_eq!(error(&[], &[("TICKETING_MAX_KEYS", "0")]), format!("TICKETING_MAX_KEYS: {rule}"));
        assert!(error(&["--listen", "localhost:1"], &[]).starts_with("--listen: `localhost:1` is not an IP"));
        assert_eq!(error(&["--listen", " , "], &[]), "--listen: it names nothing");
        assert_eq!(
            error(&["--allow-no-token=yes"], &[]),
            "--allow-no-token: `yes` is neither true nor false"
        );
        assert!(error(&["--log-level", "INFO"], &[]).contains("none of error"));
        assert!(error(&["--log-format", "xml"], &[]).contains("neither text nor json"));
        assert!(error(&[], &[("TICKETING_TOKEN", "")]).contains("empty token"));
        assert!(error(&[], &[("TICKETING_TOKEN", "short")]).contains("16 bytes"));
    }

    #[test]
    fn beyond_loopback_a_token_is_needed_or_an_explicit_word() {
        let open = ["--listen", "0.0.0.0:1"];
        assert!(error(&open, &[]).contains("0.0.0.0:1 is not a loopback address"));
        settings(&open, &[("TICKETING_TOKEN", "sixteen bytes or more")]);
        settings(&open, &[("TICKETING_ALLOW_NO_TOKEN", "true")]);
        settings(&[&open[..], &["--allow-no-token"]].concat(), &[]);
        error(&[&open[..], &["--allow-no-token=false"]].concat(), &[("TICKETING_ALLOW_NO_TOKEN", "true")]);
    }

    #[test]
    fn help_has_every_option_and_beats_everything() {
        assert!(matches!(parsed(&["--help", "--nonsense"], &[]), Ok(Command::Help)));
        assert!(matches!(parsed(&["-V"], &[]), Ok(Command::Version)));
        assert!(matches!(parsed(&["--check-config"], &[]), Ok(Command::Check(_))));
        let help = help();
        for option in OPTIONS {
            assert!(help.contains(&format!("--{}", option.name)) && help.contains(&option.variable()));
        }
        assert!(help.lines().all(|line| line.len() <= 120), "it fits a terminal");
        assert!(!help.contains("--token "), "a token is never an argument");
    }
}
