//! Who holds and who waits (`OP`, `EX`, `AD`). Knows no bytes, no connections but by their ids, and no clock.
//!
//! [`Holds`] says who holds, and is what a cluster replicates. [`Table`] adds who waits, until when, and
//! whether there is room: the locks of one node.

mod admission;
mod expiry;
mod holds;
mod index;
mod list;
mod queue;
mod siphash;
mod slab;
mod start;
mod table;
#[cfg(test)]
mod tests;
mod written;

pub use admission::GateUsage;
pub use holds::{Hold, Holds, NotGranted, TokenRange};
pub use table::{Answer, Outcome, Table, TableConfig, Usage, Verdict};
pub use written::MalformedHolds;
