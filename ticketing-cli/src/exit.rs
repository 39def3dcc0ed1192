//! Exit codes, the same for all subcommands, and the errors that carry them.

use std::fmt;

/// The command line, the environment, or the configuration is wrong.
pub(crate) const USAGE: u8 = 64;
/// No server could be reached.
pub(crate) const NO_SERVER: u8 = 69;
/// Something went wrong that should not.
pub(crate) const INTERNAL: u8 = 70;
/// The system refused: an address in use, a state directory that is locked or cannot be written.
pub(crate) const SYSTEM: u8 = 71;
/// The lock was not acquired, and that is certain.
pub(crate) const NOT_ACQUIRED: u8 = 75;
/// It is not known whether the lock was acquired.
pub(crate) const UNKNOWN: u8 = 76;
/// The server refused the token.
pub(crate) const AUTH: u8 = 77;
/// The lease ran out and the command was stopped.
pub(crate) const LEASE_OVER: u8 = 79;
/// The command was found and could not be executed.
pub(crate) const NOT_EXECUTABLE: u8 = 126;
/// The command was not found.
pub(crate) const NOT_FOUND: u8 = 127;

/// The code for an end by a signal, as shells count it.
pub(crate) fn by_signal(signal: i32) -> u8 {
    u8::try_from(128 + signal).unwrap_or(u8::MAX)
}

/// An end before the work is done: what to say on stderr, and the exit code.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    pub(crate) code: u8,
    pub(crate) message: String,
}

impl Failure {
    pub(crate) fn new(code: u8, message: impl fmt::Display) -> Self {
        Self { code, message: message.to_string() }
    }

    pub(crate) fn usage(message: impl fmt::Display) -> Self {
        Self::new(USAGE, message)
    }

    pub(crate) fn internal(message: impl fmt::Display) -> Self {
        Self::new(INTERNAL, message)
    }
}
