//! Exit codes, the same for all subcommands, and the errors that carry them.

pub(crate) use ticketing_host::program::{Failure, INTERNAL, SYSTEM, USAGE, by_signal};

/// No server could be reached.
pub(crate) const NO_SERVER: u8 = 69;
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
