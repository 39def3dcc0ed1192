//! What the adapters of Ticketing need of the operating system, and no runtime knows.
//!
//! An adapter brings sockets and somebody who waits for them; one for an async runtime brings a
//! [`Runtime`](runtime::Runtime), and has a client and a server. The rest is the same under each runtime and is here:
//! what both ends ask of their sockets ([`socket`]), the addresses of [`names`], the client's [`clock`], the
//! handle of a [`client`] and its tickets, what a [`server`] starts with and what it tells of its peers. With
//! the feature `tls` there are the files of certificates and keys, with `program` what programs around a server share.
#![forbid(unsafe_code)]

pub mod client;
pub mod clock;
pub mod names;
#[cfg(all(feature = "program", unix))]
pub mod program;
pub mod runtime;
pub mod server;
pub mod socket;
mod sync;
#[cfg(feature = "tls")]
pub mod tls;
