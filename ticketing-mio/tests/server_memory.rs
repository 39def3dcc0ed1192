//! What connections cost: this process counts what it allocates.
#![cfg(target_os = "linux")]

#[path = "server/adapter.rs"]
mod adapter;
#[path = "../../ticketing-host/suite/server_memory.rs"]
mod suite;

/// There is no runtime.
fn runtimes_own() -> usize {
    0
}
