//! TLS, for both roles (`TR-2`), as one more stage that bytes pass on their way: who carries them need not know.
//!
//! A server is given a [`ServerTls`], a client a [`ClientTls`]. Both are made from PEM or certificates with what is
//! wrong with them as an error, or from a configuration of rustls that somebody made elsewhere. Without the
//! crate's feature `tls` both types exist and have no values.
//!
//! # What the stage promises
//!
//! - Plaintext enters it only when all earlier ciphertext was taken by the transport, and a client's frames only
//!   after the challenge was answered. From then on their bytes count as handed out (`CA-3`, `TR-10`).
//! - A reply counts as delivered when the last byte of its TLS record was taken (`OP-7`): less than a whole record
//!   is of no use to the peer.
//! - The end of the stream without close_notify is an end of stream like any other (`TR-12`). This side sends one
//!   before writing is to be shut down.
//! - A failure sends the peer its alert, and is a [`TlsError`] here.
//!
//! # Time and randomness
//!
//! The time by which certificates are judged comes from the `rustls::time_provider::TimeProvider` that each
//! configuration is made with; `DefaultTimeProvider` beside it is the system's. Randomness for keys is the one thing
//! that is not passed in: ring asks the system for it.
//!
//! # Versions
//!
//! TLS 1.3, and 1.2 for peers that have nothing newer, such as those of Windows before Server 2022. A connection with
//! 1.2 can't renew its keys, so it ends after 2^24 records; one with 1.3 lives on.
//!
//! Sessions are resumed with tickets that are used once. A server remembers sessions with its certificate: after a
//! change of certificate every client sees the new one.

mod error;

#[cfg(feature = "tls")]
mod client;
#[cfg(feature = "tls")]
mod pem;
#[cfg(feature = "tls")]
mod server;
#[cfg(feature = "tls")]
mod stage;

#[cfg(not(feature = "tls"))]
mod absent;

pub use error::{PemFault, PemInput, TlsConfigError, TlsError};

#[cfg(feature = "tls")]
pub use client::{ClientTls, Roots};
#[cfg(feature = "tls")]
pub use rustls;
#[cfg(feature = "tls")]
pub use server::ServerTls;
#[cfg(feature = "tls")]
pub(crate) use stage::Stage;

#[cfg(not(feature = "tls"))]
pub(crate) use absent::Stage;
#[cfg(not(feature = "tls"))]
pub use absent::{ClientTls, ServerTls};

use alloc::vec::Vec;

/// What came out of the stage.
#[derive(Debug, Default)]
pub(crate) struct Opening {
    pub(crate) plain: Vec<u8>,
    /// What follows behind the plaintext, if that is the last of it.
    pub(crate) end: Option<End>,
}

/// How a peer's plaintext ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(not(feature = "tls"), expect(dead_code, reason = "without TLS nothing ends inside of it"))]
pub(crate) enum End {
    /// With close_notify.
    Closed,
    Failed(TlsError),
}
