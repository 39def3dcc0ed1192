//! A lock server on 127.0.0.1:5225, or on the addresses given; ends when its standard input does.
//!
//! ```console
//! $ TICKETING_TOKEN=... cargo run -p ticketing-async-std --example server -- 127.0.0.1:5225 '[::1]:5225'
//! ```
//!
//! Without the variable anybody who reaches the addresses may use the locks.

use std::env;
use std::io::{self, Read as _};
use std::net::SocketAddr;
use std::thread;

use async_io::block_on;
use ticketing_async_std::{Secret, Server, ServerConfig, fresh_tokens};

fn main() -> io::Result<()> {
    tracing_subscriber::fmt().with_writer(io::stderr).init();
    let secret = Secret::new(env::var("TICKETING_TOKEN").unwrap_or_default().into_bytes());
    let mut addresses = env::args()
        .skip(1)
        .map(|text| text.parse().map_err(|_| io::Error::other(format!("`{text}` is not IP:PORT"))))
        .collect::<io::Result<Vec<SocketAddr>>>()?;
    if addresses.is_empty() {
        addresses.push(([127, 0, 0, 1], 5225).into());
    }

    block_on(async {
        let server = Server::bind(addresses.as_slice(), ServerConfig::new(secret, fresh_tokens()?)).await?;
        let shutdown = server.shutdown_handle();
        thread::spawn(move || {
            // However it ends, it has ended.
            let _ = io::stdin().read_to_end(&mut Vec::new());
            shutdown.shut_down();
        });
        server.serve().await
    })
}
