//! The simulation: many clients and a server in simulated time, over links that do all that networks do. What a run is
//! follows from its seed, to the byte. An oracle reads the wire and the callers' results, with eyes of its own, and
//! judges each of them.

mod app;
pub(crate) mod batch;
mod client;
mod clock;
mod facts;
mod faults;
mod invariants;
mod link;
mod marks;
mod oracle;
mod plan;
mod random;
mod run;
mod server;
mod shrink;
mod wire;
mod world;

pub(crate) use facts::CallNo;
pub(crate) use oracle::Watch;
pub(crate) use plan::{CALM, Plan, Setting, Weather};
pub(crate) use run::run;
pub(crate) use world::{Transport, World};
