//! Judges any implementation of the Ticketing protocol, clause by clause, from outside.
//!
//! It shares nothing with the project's own implementations, not even their codec: it must be able to send what they
//! refuse to send, and must not share their faults. The program `ticketing-conformance` judges a server at an address.
//! Who embeds a server in a runtime of their own lets [`server::Suite`] judge it inside `cargo test`, over anything
//! that can be read and written:
//!
//! ```no_run
//! use std::net::TcpStream;
//! use ticketing_conformance::server::Suite;
//!
//! # fn my_server() -> std::net::SocketAddr { unreachable!() }
//! let address = my_server();
//! let report = Suite::new(move || TcpStream::connect(address)).run();
//! assert!(report.is_success(), "{report}");
//! ```
#![forbid(unsafe_code)]

pub mod case;
pub mod clauses;
pub mod client;
pub mod gaps;
pub mod report;
mod run;
pub mod select;
pub mod server;
pub mod transcript;
pub mod vectors;
mod watch;
pub mod wire;
