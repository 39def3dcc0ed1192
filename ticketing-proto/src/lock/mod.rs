//! Who holds and who waits (`OP`, `EX`, `AD`). Knows no bytes, no connections but by their ids, and no clock.

mod table;

pub use table::{Answer, GateUsage, Outcome, Table, TableConfig, TokenRange, Usage, Verdict};
