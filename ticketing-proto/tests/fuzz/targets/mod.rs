//! The bodies of the fuzz targets. Each takes any bytes, makes a case of them, and panics when something is wrong.
//!
//! `fuzz/` beside this crate runs them under libFuzzer; the test beside them replays its corpus.

mod broker;
mod config;
#[path = "../../support/frames.rs"]
mod frames;
mod pem;
mod server;
mod table;
mod wire;

pub(crate) use broker::broker;
pub(crate) use config::config;
pub(crate) use pem::pem;
pub(crate) use server::server;
pub(crate) use table::table;
pub(crate) use wire::{decode, round_trip, split};
