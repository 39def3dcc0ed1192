//! A server as its peers see it: raw bytes in, raw bytes out, in virtual time.

mod acts;
mod back_pressure;
mod connection;
mod delivery;
mod errors;
mod framing;
mod handshake;
mod hub;
mod properties;
mod rig;
mod shutdown;
