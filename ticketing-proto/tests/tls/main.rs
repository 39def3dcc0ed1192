//! TLS on either side: what is said of faults, what counts as handed out and delivered, what changes while a server
//! runs. The other side is rustls alone, or the other role.

#[path = "../support/certificates.rs"]
mod certificates;
mod config;
mod delivery;
mod honesty;
mod keys;
mod noise;
mod pieces;
mod reasons;
mod renewal;
mod rig;
mod unsent;
mod wrong_protocol;
