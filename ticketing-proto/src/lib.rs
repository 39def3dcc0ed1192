//! Ticketing is a lock service with leases and fencing tokens. This is its core, in both roles, without I/O: bytes
//! and time go in, bytes and events come out.
//!
//! It opens no socket, reads no clock, asks for no randomness and starts no thread. Whoever uses it brings those:
//! the crate `ticketing-tokio` does for tokio. It needs `alloc` and no std.
//!
//! # Where to begin
//!
//! | to | use |
//! | --- | --- |
//! | serve from a single loop | [`server::Server`] |
//! | serve from many threads | [`server::Hub`], behind one lock, and a [`server::Connection`] per peer |
//! | ask for locks | [`client::Broker`] |
//! | read and write the bytes alone | [`wire`] |
//! | keep locks without a protocol | [`lock::Table`], [`lock`] |
//! | encrypt, in either role | [`tls`], the feature `tls` |
//!
//! # The contract
//!
//! All state machines here have one shape.
//!
//! - `handle_*` takes what the network and the clock bring, plain verbs what the application wants, `poll_*` gives
//!   what comes out. The time comes first, as an [`Instant`](time::Instant) of a clock of the caller's; one that
//!   goes back is taken for the latest one seen.
//! - After each input: take all events and all bytes, look at `poll_timeout`, wait. In another order work may be
//!   wasted, and nothing is wrong, but for one rule: how many of the polled bytes the transport took is reported
//!   before anything else is asked, 0 included. Whether a request may have been sent, and whether a grant was
//!   delivered, is decided by that number.
//! - Bytes may be split and merged anyhow. The end of a stream is a call of its own and completes no frame.
//! - Each call does a bounded amount of work. What a peer sends never panics.
//!
//! Clauses such as `FR-5` are those of the protocol, `conformance/SPEC.md` in the project's repository.
//!
//! # A server and a client in memory
//!
//! Two acquires of one lock: the second one waits until the first is released, two seconds later. No time passes.
//!
//! ```
//! use core::time::Duration;
//! use ticketing_proto::client::{AcquireOptions, Broker, BrokerConfig, Event};
//! use ticketing_proto::id::{ConnectionId, Token};
//! use ticketing_proto::limits::Limits;
//! use ticketing_proto::lock::TokenRange;
//! use ticketing_proto::server::{Server, ServerConfig};
//! use ticketing_proto::time::Instant;
//! use ticketing_proto::wire::auth::Secret;
//!
//! /// Carries bytes both ways until neither side has any. A connection is a pair of ids here.
//! fn carry(now: Instant, client: &mut Broker, server: &mut Server, wires: &mut Vec<[ConnectionId; 2]>) {
//!     loop {
//!         while let Some(event) = client.poll_event() {
//!             if let Event::Connect { connection, .. } = event {
//!                 let nonce = [connection.value() as u8; 32]; // in earnest: fresh random bytes
//!                 let peer = server.accept(now, nonce).expect("there is room");
//!                 client.handle_connected(now, connection);
//!                 wires.push([connection, peer]);
//!             }
//!         }
//!         while server.poll_event().is_some() {} // in earnest: whom to write to, read from, close
//!         let mut is_idle = true;
//!         for &[here, there] in wires.iter() {
//!             let mut bytes = Vec::new();
//!             if client.poll_transmit(now, here, &mut bytes) {
//!                 client.handle_transmitted(now, here, bytes.len()); // this transport takes everything
//!                 server.handle_data(now, there, &bytes);
//!                 is_idle = false;
//!             }
//!             bytes.clear();
//!             if server.poll_transmit(there, &mut bytes) {
//!                 server.handle_transmitted(now, there, bytes.len());
//!                 client.handle_data(now, here, &bytes);
//!                 is_idle = false;
//!             }
//!         }
//!         if is_idle {
//!             return;
//!         }
//!     }
//! }
//!
//! let start = Instant::ORIGIN;
//! let secret = Secret::new(*b"correct horse battery staple");
//! let token = |value| Token::new(value).expect("not 0");
//! let mut server = Server::new(
//!     start,
//!     ServerConfig {
//!         secret: secret.clone(),
//!         limits: Limits::default(),
//!         tokens: TokenRange { next: token(7), last: token(u64::MAX) },
//!         hash_seed: [1, 2], // in earnest: random, and secret
//!         tls: None,
//!     },
//! )?;
//! let mut client = Broker::new(start, BrokerConfig { secret, ..BrokerConfig::new(["db-locks:5225"], 3) })?;
//! let mut wires = Vec::new();
//!
//! let options = AcquireOptions::new(Duration::from_secs(10)).wait(Duration::from_secs(5));
//! let first = client.acquire(start, "nightly-report", options)?;
//! let second = client.acquire(start, "nightly-report", options)?;
//! carry(start, &mut client, &mut server, &mut wires);
//!
//! let grant = client.claim(start, first).expect("it was answered")?;
//! assert_eq!(grant.token, token(7));
//! assert!(client.claim(start, second).is_none(), "it waits");
//!
//! let later = start + Duration::from_secs(2);
//! client.release(later, &grant.key, grant.token);
//! carry(later, &mut client, &mut server, &mut wires);
//!
//! let grant = client.claim(later, second).expect("its turn has come")?;
//! assert_eq!(grant.token, token(8), "tokens rise");
//! // 30 s of lease, less 0.1 % for clocks of different rates, from when the request was sent.
//! assert_eq!(grant.valid_until, start + Duration::from_millis(29_970));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(feature = "std")]
extern crate std;

#[cfg(feature = "arbitrary")]
mod arbitrary;
pub mod client;
pub mod id;
pub mod key;
pub mod limits;
pub mod lock;
mod scan;
pub mod server;
pub mod time;
pub mod tls;
pub mod wire;
