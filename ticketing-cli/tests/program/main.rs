//! The program as its users meet it: the real binary, real processes, real sockets on free ports.

#[path = "../../../ticketing-host/suite/certificates.rs"]
mod certificates;
mod lease;
mod ping;
mod run;
mod secrets;
mod serve;
mod support;
mod terminal;
mod tls;
mod tokens;
