//! The program as its users meet it: the real binary, real processes, real sockets on free ports.

#[expect(dead_code, reason = "other tests need more of it")]
#[path = "../../../ticketing-proto/tests/support/certificates.rs"]
mod certificates;
mod lease;
#[path = "../../../ticketing-host/suite/openssl.rs"]
mod openssl;
mod ping;
mod run;
mod secrets;
mod serve;
mod support;
mod terminal;
mod tls;
mod tokens;
