//! A lock server on 127.0.0.1:5225, or on the addresses given, without an async runtime; ends when it is killed.
//!
//! ```console
//! $ TICKETING_TOKEN=... cargo run -p ticketing-mio --example server -- 127.0.0.1:5225 '[::1]:5225'
//! ```
//!
//! Without the variable anybody who reaches the addresses may use the locks. The program `ticketing-mio` is the same
//! with everything that a service needs.

use std::env;
use std::io;
use std::net::SocketAddr;

use ticketing_mio::{Secret, Server, ServerConfig, fresh_tokens};
use ticketing_proto::limits::DEFAULT_PORT;

fn main() -> io::Result<()> {
    let secret = Secret::new(env::var("TICKETING_TOKEN").unwrap_or_default().into_bytes());
    let mut addresses = env::args()
        .skip(1)
        .map(|text| text.parse().map_err(|_| io::Error::other(format!("`{text}` is not IP:PORT"))))
        .collect::<io::Result<Vec<SocketAddr>>>()?;
    if addresses.is_empty() {
        addresses.push(([127, 0, 0, 1], DEFAULT_PORT).into());
    }
    Server::bind(addresses.as_slice(), ServerConfig::new(secret, fresh_tokens()?))?.run()
}
