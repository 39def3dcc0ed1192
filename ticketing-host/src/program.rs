//! What programs around a server share: where its token and its tokens come from, what is checked before it starts,
//! its log, and how it says that it failed.

mod credentials;
mod escape;
mod first_token;
mod log;
mod settings;
mod token;
mod values;

use std::fmt;
use std::io::{self, Write as _};

pub use credentials::Credentials;
pub use escape::Escaped;
pub use log::{Flusher, Log, LogFormat};
pub use settings::{Settings, make_room};
pub use token::{TOKEN_FILE_VARIABLE, TOKEN_VARIABLE, TokenSource, TokenVariables, find, token_source};
pub use values::{first_token, limit, listen_address, words};

/// The command line, the environment, or the configuration is wrong.
pub const USAGE: u8 = 64;
/// Something went wrong that should not.
pub const INTERNAL: u8 = 70;
/// The system refused: an address in use, a state directory that is locked or cannot be written.
pub const SYSTEM: u8 = 71;

/// The exit code for an end by a signal, as shells count it.
#[must_use]
pub fn by_signal(signal: i32) -> u8 {
    u8::try_from(128 + signal).unwrap_or(u8::MAX)
}

/// An end before the work is done: what to say on stderr, and the exit code.
#[derive(Debug, PartialEq, Eq)]
pub struct Failure {
    /// The exit code.
    pub code: u8,
    /// What to say.
    pub message: String,
}

impl Failure {
    /// An end with this code.
    pub fn new(code: u8, message: impl fmt::Display) -> Self {
        Self { code, message: message.to_string() }
    }

    /// An end because of what the program was given.
    pub fn usage(message: impl fmt::Display) -> Self {
        Self::new(USAGE, message)
    }

    /// An end that should not be.
    pub fn internal(message: impl fmt::Display) -> Self {
        Self::new(INTERNAL, message)
    }
}

/// Prints a line on stdout. Who started the server may not care to read it.
pub fn print_line(text: fmt::Arguments<'_>) {
    drop(writeln!(io::stdout(), "{text}"));
}
