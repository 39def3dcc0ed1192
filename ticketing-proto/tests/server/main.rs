//! A server as its peers see it: raw bytes in, raw bytes out, in virtual time.

mod delivery;
mod errors;
mod framing;
mod handshake;
mod rig;
