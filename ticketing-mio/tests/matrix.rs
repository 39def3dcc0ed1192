//! Each client against each adapter's server, and against the program `ticketing-mio`.
#![cfg(unix)]

#[path = "../../ticketing-host/suite/matrix/mod.rs"]
mod suite;

use suite::servers::ServerKind;
use suite::{OPTIONS, Pair, Security, with_each};
use ticketing_mio::Released;

/// What this package brings to the suite.
mod adapter {
    use crate::suite::Program;

    pub(crate) const PROGRAM: Program =
        Program { path: env!("CARGO_BIN_EXE_ticketing-mio"), name: "ticketing-mio", arguments: &[] };

    /// The libraries' servers, if they are to be tested besides the program.
    pub(crate) const WITH_LIBRARIES: bool = true;
}

/// From plain text to TLS and back, for new connections. Programs don't: without files at their start they read none.
#[test]
fn tls_itself_can_be_turned_on_and_off() {
    let is_one = |pair: &Pair| pair.server != ServerKind::Program && pair.security == Security::Plain;
    with_each(Pair::all().into_iter().filter(is_one).collect(), |pair| {
        let server = pair.server.start(pair.security.terms());
        for security in [Security::Plain, Security::Tls, Security::Plain] {
            server.change(security.terms());
            let ticket =
                Pair { security, ..pair }.connect(&server).acquire("k", OPTIONS).expect("it is free");
            assert_eq!(ticket.release(), Ok(Released::Released));
        }
    });
}
