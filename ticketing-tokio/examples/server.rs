//! A lock server on 127.0.0.1:5225, or on the addresses given; ends on Ctrl-C.
//!
//! ```console
//! $ TICKETING_TOKEN=... cargo run -p ticketing-tokio --example server -- 127.0.0.1:5225 '[::1]:5225'
//! ```
//!
//! Without the variable anybody who reaches the addresses may use the locks.

use std::env;
use std::io;
use std::net::SocketAddr;

use ticketing_proto::limits::DEFAULT_PORT;
use ticketing_proto::wire::auth::Secret;
use ticketing_tokio::{Server, ServerConfig, fresh_tokens};

#[tokio::main]
async fn main() -> io::Result<()> {
    tracing_subscriber::fmt().with_writer(io::stderr).init();
    let secret = Secret::new(env::var("TICKETING_TOKEN").unwrap_or_default().into_bytes());
    let mut addresses = env::args()
        .skip(1)
        .map(|text| text.parse().map_err(|_| io::Error::other(format!("`{text}` is not IP:PORT"))))
        .collect::<io::Result<Vec<SocketAddr>>>()?;
    if addresses.is_empty() {
        addresses.push(([127, 0, 0, 1], DEFAULT_PORT).into());
    }

    let server = Server::bind(addresses.as_slice(), ServerConfig::new(secret, fresh_tokens()?)).await?;
    let shutdown = server.shutdown_handle();
    tokio::spawn(async move {
        // The first Ctrl-C ends it gracefully, the second one at once.
        while tokio::signal::ctrl_c().await.is_ok() {
            shutdown.shut_down();
        }
    });
    server.serve().await
}
