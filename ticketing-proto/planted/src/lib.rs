//! The core (`ticketing-proto`) with bugs planted into it. One at a time can be there.
//!
//! `build.rs` makes it of the core's own sources and of the list of [`bugs`]: nothing of them is in the core itself. The
//! simulation is built against this copy as it is against the core, and must find each of them.

include!(concat!(env!("OUT_DIR"), "/src/root.rs"));
include!(concat!(env!("OUT_DIR"), "/src/misfits.rs"));

pub mod bugs;
pub mod planted;
