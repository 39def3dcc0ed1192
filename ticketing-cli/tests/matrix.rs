//! Each client against `ticketing serve`.
#![cfg(unix)]

#[path = "../../ticketing-host/suite/matrix/mod.rs"]
mod suite;

/// What this package brings to the suite.
mod adapter {
    use crate::suite::Program;

    pub(crate) const PROGRAM: Program =
        Program { path: env!("CARGO_BIN_EXE_ticketing"), name: "ticketing", arguments: &["serve"] };

    /// The libraries' servers, if they are to be tested besides the program.
    pub(crate) const WITH_LIBRARIES: bool = false;
}
