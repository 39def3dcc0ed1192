//! What can be configured of a server, and how its four sources are laid over each other.

use std::fs;
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use serde::Deserialize;
use ticketing_host::program::{self, Credentials, Settings, TokenVariables};
use ticketing_proto::limits::Limits;
use tracing::Level;

use crate::exit::Failure;
use crate::values::{FirstToken, Limit, List, ListenAddress};

/// The options, as one source has them. The same fields are the flags, their environment variables and the keys
/// of the file, so that none can be forgotten in one of the three.
#[derive(Args, Deserialize, Clone, Default, Debug)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct Options {
    /// An address to listen on, IPv4 or IPv6; repeated, or with commas, for several. Port 0 takes a free one
    /// [default: 127.0.0.1:5225]
    #[arg(long, env = "TICKETING_LISTEN", hide_env_values = true, value_name = "ADDR")]
    listen: Option<Vec<List<ListenAddress>>>,

    /// A file with the token that clients must have [env: TICKETING_TOKEN_FILE]
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,

    /// A file of PEM with the certificate of the server, and those between it and its authority's: with it and
    /// --tls-key, every connection is inside TLS
    #[arg(long, env = "TICKETING_TLS_CERT", hide_env_values = true, value_name = "FILE")]
    tls_cert: Option<PathBuf>,

    /// A file of PEM with the key that belongs to the certificate, without a password
    #[arg(long, env = "TICKETING_TLS_KEY", hide_env_values = true, value_name = "FILE")]
    tls_key: Option<PathBuf>,

    /// Listen beyond loopback without a token: everybody who can reach the server may use it
    #[arg(
        long, env = "TICKETING_ALLOW_NO_TOKEN", hide_env_values = true,
        num_args = 0..=1, require_equals = true, default_missing_value = "true", value_name = "BOOL"
    )]
    allow_no_token: Option<bool>,

    /// A directory that remembers which tokens were used, so that tokens rise across restarts. One server at a time
    /// uses it. Without it a server starts at a point made of the time and randomness: practically never the same
    /// token twice, and no promise of order
    #[arg(long, env = "TICKETING_STATE_DIR", hide_env_values = true, value_name = "DIR")]
    state_dir: Option<PathBuf>,

    /// The first token to grant, in place of the point made of the time; with a state directory, at least this one
    #[arg(long, env = "TICKETING_FIRST_TOKEN", hide_env_values = true, value_name = "N")]
    first_token: Option<FirstToken>,

    /// Connections; one beyond is closed right after accept [default: 10000]
    #[arg(long, env = "TICKETING_MAX_CONNECTIONS", hide_env_values = true, value_name = "N")]
    max_connections: Option<Limit>,

    /// Connections that are not authenticated yet; one beyond is closed right after accept [default: 1024]
    #[arg(long, env = "TICKETING_MAX_UNAUTHENTICATED", hide_env_values = true, value_name = "N")]
    max_unauthenticated: Option<Limit>,

    /// Keys held. At 90 % of it, as of the next two, new ones are refused as busy until it falls below 75 %
    /// [default: 1000000]
    #[arg(long, env = "TICKETING_MAX_KEYS", hide_env_values = true, value_name = "N")]
    max_keys: Option<Limit>,

    /// Acquires in flight, waiters included [default: 200000]
    #[arg(long, env = "TICKETING_MAX_ACQUIRES", hide_env_values = true, value_name = "N")]
    max_acquires: Option<Limit>,

    /// Waiters of all keys [default: 100000]
    #[arg(long, env = "TICKETING_MAX_WAITERS", hide_env_values = true, value_name = "N")]
    max_waiters: Option<Limit>,

    /// Waiters of one key [default: 10000]
    #[arg(long, env = "TICKETING_MAX_WAITERS_PER_KEY", hide_env_values = true, value_name = "N")]
    max_waiters_per_key: Option<Limit>,

    /// Acquires in flight of one connection [default: 4096]
    #[arg(long, env = "TICKETING_MAX_ACQUIRES_PER_CONNECTION", hide_env_values = true, value_name = "N")]
    max_acquires_per_connection: Option<Limit>,

    /// How log lines on stderr look [default: text]
    #[arg(long, env = "TICKETING_LOG_FORMAT", hide_env_values = true, value_name = "FORMAT")]
    log_format: Option<LogFormat>,

    /// The least weighty lines that are logged [default: info]
    #[arg(long, env = "TICKETING_LOG_LEVEL", hide_env_values = true, value_name = "LEVEL")]
    log_level: Option<LogLevel>,
}

/// How log lines look.
#[derive(Clone, Copy, Debug, ValueEnum, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum LogFormat {
    /// For people.
    Text,
    /// One JSON object a line.
    Json,
}

/// How weighty a line must be to be logged.
#[derive(Clone, Copy, Debug, ValueEnum, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum LogLevel {
    Error,
    Warn,
    Info,
    Debug,
    Trace,
}

impl From<LogFormat> for program::LogFormat {
    fn from(format: LogFormat) -> Self {
        match format {
            LogFormat::Text => Self::Text,
            LogFormat::Json => Self::Json,
        }
    }
}

impl From<LogLevel> for Level {
    fn from(level: LogLevel) -> Self {
        match level {
            LogLevel::Error => Self::ERROR,
            LogLevel::Warn => Self::WARN,
            LogLevel::Info => Self::INFO,
            LogLevel::Debug => Self::DEBUG,
            LogLevel::Trace => Self::TRACE,
        }
    }
}

impl Options {
    /// Reads a configuration file.
    pub(crate) fn read(path: &Path) -> Result<Self, Failure> {
        let shown = path.display();
        let text = fs::read_to_string(path).map_err(|error| {
            Failure::usage(format_args!("the configuration file {shown} cannot be read: {error}"))
        })?;
        Self::parse(&text)
            .map_err(|error| Failure::usage(format_args!("the configuration file {shown} is wrong: {error}")))
    }

    fn parse(text: &str) -> Result<Self, toml::de::Error> {
        toml::from_str(text)
    }

    /// Fills from `weaker` what is not set here. The token's file is not filled in: where a token comes from is
    /// decided over all sources at once, by [`program::token_source`].
    fn or(self, weaker: Self) -> Self {
        Self {
            listen: self.listen.or(weaker.listen),
            token_file: self.token_file,
            tls_cert: self.tls_cert.or(weaker.tls_cert),
            tls_key: self.tls_key.or(weaker.tls_key),
            allow_no_token: self.allow_no_token.or(weaker.allow_no_token),
            state_dir: self.state_dir.or(weaker.state_dir),
            first_token: self.first_token.or(weaker.first_token),
            max_connections: self.max_connections.or(weaker.max_connections),
            max_unauthenticated: self.max_unauthenticated.or(weaker.max_unauthenticated),
            max_keys: self.max_keys.or(weaker.max_keys),
            max_acquires: self.max_acquires.or(weaker.max_acquires),
            max_waiters: self.max_waiters.or(weaker.max_waiters),
            max_waiters_per_key: self.max_waiters_per_key.or(weaker.max_waiters_per_key),
            max_acquires_per_connection: self
                .max_acquires_per_connection
                .or(weaker.max_acquires_per_connection),
            log_format: self.log_format.or(weaker.log_format),
            log_level: self.log_level.or(weaker.log_level),
        }
    }

    fn limits(&self) -> Limits {
        let default = Limits::default();
        let or = |limit: Option<Limit>, default: u32| limit.map_or(default, |limit| limit.0.get());
        Limits {
            connections: or(self.max_connections, default.connections),
            unauthenticated: or(self.max_unauthenticated, default.unauthenticated),
            keys: or(self.max_keys, default.keys),
            acquires: or(self.max_acquires, default.acquires),
            waiters: or(self.max_waiters, default.waiters),
            waiters_per_key: or(self.max_waiters_per_key, default.waiters_per_key),
            acquires_per_connection: or(self.max_acquires_per_connection, default.acquires_per_connection),
        }
    }
}

/// Lays flags and environment (`options`, in which clap has laid the one over the other) over the file, and that
/// over the defaults; then checks.
pub(crate) fn resolve(
    options: Options,
    file: Option<Options>,
    variables: TokenVariables,
) -> Result<Settings, Failure> {
    let file = file.unwrap_or_default();
    let token = program::token_source(options.token_file.as_deref(), variables, file.token_file.as_deref())?;
    let merged = options.or(file);
    let limits = merged.limits();
    let default = Settings::default();
    let listen = match merged.listen {
        Some(lists) => lists.into_iter().flat_map(|list| list.0).map(|address| address.0).collect(),
        None => default.listen,
    };
    if listen.is_empty() {
        return Err(Failure::usage("`listen` names no address; leave it out for 127.0.0.1:5225"));
    }
    let credentials = Credentials::new(token, merged.tls_cert, merged.tls_key)?;
    let (tls, secret) = credentials.read()?;
    let settings = Settings {
        listen,
        secret,
        tls,
        credentials,
        allow_no_token: merged.allow_no_token.unwrap_or_default(),
        state_dir: merged.state_dir,
        first_token: merged.first_token.map(|first| first.0.get()),
        limits,
        log_format: merged.log_format.map_or(default.log_format, Into::into),
        log_level: merged.log_level.map_or(default.log_level, Into::into),
    };
    settings.check()
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;
    use proptest::collection::vec;
    use proptest::prelude::*;
    use proptest::sample::select;

    #[derive(Parser)]
    struct Flags {
        #[command(flatten)]
        options: Options,
    }

    fn flags(arguments: &[&str]) -> Options {
        Flags::parse_from([&["serve"], arguments].concat()).options
    }

    fn resolved(options: Options, file: &str) -> Result<Settings, Failure> {
        let file = Options::parse(file).expect("a good file");
        resolve(options, Some(file), TokenVariables::default())
    }

    #[test]
    fn without_anything_the_defaults_hold() {
        let settings = resolve(flags(&[]), None, TokenVariables::default()).expect("defaults are good");
        assert_eq!(settings.listen, ["127.0.0.1:5225".parse().expect("an address")]);
        assert_eq!(settings.limits, Limits::default());
        assert!(settings.secret.is_empty());
        assert_eq!((settings.log_format, settings.log_level), (program::LogFormat::Text, Level::INFO));
    }

    #[test]
    fn a_flag_beats_the_file_and_the_file_beats_the_default() {
        let file =
            "max-keys = 7\nmax-waiters = 8\nlisten = [\"127.0.0.1:1\", \"[::1]:2\"]\nlog-format = \"json\"\n";
        let settings = resolved(flags(&["--max-keys", "9", "--listen", "127.0.0.1:3"]), file).expect("good");
        assert_eq!(settings.limits, Limits { keys: 9, waiters: 8, ..Limits::default() });
        assert_eq!(settings.listen, ["127.0.0.1:3".parse().expect("an address")]);
        assert_eq!(settings.log_format, program::LogFormat::Json);
    }

    #[test]
    fn every_flag_has_a_place_in_the_file() {
        let file = r#"
            listen = ["[::1]:7, 127.0.0.1:7"]
            token-file = "t"
            tls-cert = "c"
            tls-key = "k"
            allow-no-token = true
            state-dir = "s"
            first-token = 5
            max-connections = 1
            max-unauthenticated = 2
            max-keys = 3
            max-acquires = 4
            max-waiters = 5
            max-waiters-per-key = 6
            max-acquires-per-connection = 7
            log-format = "text"
            log-level = "debug"
        "#;
        let mut options = Options::parse(file).expect("a good file");
        (options.token_file, options.tls_cert, options.tls_key) = (None, None, None);
        let settings = resolved(options, "").expect("good");
        assert_eq!(settings.limits.named().map(|(_, limit)| limit), [1, 2, 3, 4, 5, 6, 7]);
        assert_eq!((settings.first_token, settings.log_level), (Some(5), Level::DEBUG));

        let command = <Flags as clap::CommandFactory>::command();
        for argument in command.get_arguments() {
            let name = argument.get_long().expect("every option is a long flag");
            assert!(file.contains(&format!(" {name} = ")), "{name} has no place in the file");
            let variable = format!("TICKETING_{}", name.replace('-', "_").to_uppercase());
            let has_variable = argument.get_env().is_some_and(|env| env == variable.as_str());
            assert!(
                has_variable || variable == program::TOKEN_FILE_VARIABLE,
                "{name} has no variable {variable}"
            );
        }
        for (name, _) in Limits::default().named() {
            assert!(
                file.contains(&format!(" max-{} = ", name.replace('_', "-"))),
                "{name} cannot be configured"
            );
        }
    }

    #[test]
    fn an_unknown_key_or_a_bad_value_in_the_file_is_an_error_that_names_it() {
        let error = |text: &str| Options::parse(text).expect_err("a wrong file").to_string();
        assert!(error("max-kyes = 5").contains("max-kyes"));
        assert!(error("[limits]\nkeys = 5").contains("limits"));
        let zero = error("max-keys = 0");
        assert!(zero.contains("max-keys") && zero.contains("0 is not a whole number from 1"), "{zero}");
        assert!(error("max-keys = \"many\"").contains("max-keys"));
        assert!(error("listen = [\"localhost:1\"]").contains("localhost:1"));
        assert!(error("log-format = \"xml\"").contains("xml"));
    }

    #[test]
    fn beyond_loopback_a_token_is_needed_or_an_explicit_word() {
        for address in ["0.0.0.0:1", "[::]:1", "192.0.2.1:1", "[2001:db8::1]:1"] {
            let refused = resolved(flags(&["--listen", "127.0.0.1:1", "--listen", address]), "");
            assert!(refused.expect_err("AU-9").message.contains(address), "{address}");
            assert!(resolved(flags(&["--listen", address, "--allow-no-token"]), "").is_ok());
            assert!(resolved(flags(&["--listen", address]), "allow-no-token = true").is_ok());
            assert!(
                resolved(flags(&["--listen", address, "--allow-no-token=false"]), "allow-no-token = true")
                    .is_err()
            );
        }
        for loopback in ["127.0.0.1:1", "127.8.8.8:1", "[::1]:1", "[::ffff:127.0.0.1]:1"] {
            assert!(resolved(flags(&["--listen", loopback]), "").is_ok(), "{loopback}");
        }
    }

    #[test]
    fn a_certificate_needs_its_key_and_a_key_its_certificate() {
        let message = |options, file| resolved(options, file).expect_err("one of two").message;
        assert!(message(flags(&["--tls-cert", "c"]), "").contains("--tls-key"));
        assert!(message(flags(&[]), "tls-key = \"k\"").contains("--tls-cert"));
        // One of them may be in another source than the other; then both are read.
        let unreadable = message(flags(&["--tls-cert", "/nonexistent/c"]), "tls-key = \"/nonexistent/k\"");
        assert!(unreadable.contains("/nonexistent/c cannot be read"), "{unreadable}");
    }

    #[test]
    fn an_empty_list_of_addresses_is_refused() {
        assert!(resolved(flags(&[]), "listen = []").is_err());
    }

    /// A line of a file: right, nearly right, or noise.
    fn line() -> impl Strategy<Value = String> {
        let name = select(vec![
            "listen",
            "allow-no-token",
            "first-token",
            "max-keys",
            "max-waiters",
            "log-format",
            "log-level",
            "max",
        ]);
        let value = prop_oneof![
            any::<i64>().prop_map(|number| number.to_string()),
            (0..9_u8).prop_map(|number| number.to_string()),
            any::<bool>().prop_map(|is_so| is_so.to_string()),
            select(vec![
                "\"json\"",
                "\"debug\"",
                "\"127.0.0.1:7\"",
                "[\"[::1]:7, 127.0.0.1:7\"]",
                "[]",
                "{}",
                "1.5"
            ])
            .prop_map(str::to_owned),
            any::<String>().prop_map(|text| format!("{text:?}")),
        ];
        prop_oneof![
            8 => (name, value).prop_map(|(name, value)| format!("{name} = {value}")),
            1 => any::<String>(),
        ]
    }

    proptest! {
        #[test]
        fn any_file_is_taken_as_it_stands_or_refused_with_a_reason(lines in vec(line(), 0..5)) {
            match Options::parse(&lines.join("\n")) {
                Ok(options) => {
                    let asked = options.max_keys.map_or(Limits::default().keys, |limit| limit.0.get());
                    let is_written = lines.contains(&format!("max-keys = {asked}"));
                    prop_assert!(is_written || asked == Limits::default().keys);
                    match resolve(options, None, TokenVariables::default()) {
                        Ok(settings) => prop_assert_eq!(settings.limits.keys, asked),
                        Err(failure) => prop_assert!(!failure.message.is_empty()),
                    }
                }
                Err(error) => prop_assert!(!error.to_string().is_empty()),
            }
        }
    }
}
