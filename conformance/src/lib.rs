//! Judges any implementation of the Ticketing protocol, clause by clause, from outside.
#![forbid(unsafe_code)]

pub mod case;
pub mod clauses;
pub mod gaps;
pub mod report;
mod run;
pub mod select;
pub mod server;
pub mod transcript;
pub mod vectors;
mod watch;
pub mod wire;
