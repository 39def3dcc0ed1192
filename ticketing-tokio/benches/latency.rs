//! Answers while other connections are loud, deaf, or many, against those of an idle server, in one run.
//!
//! ```console
//! $ cargo bench -p ticketing-tokio --bench latency
//! ```

#[path = "../../ticketing-host/suite/latency.rs"]
mod latency;

use std::io;
use std::net::SocketAddr;
use std::sync::mpsc::Sender;

use ticketing_tokio::{Secret, Server, ServerConfig, fresh_tokens};

fn main() -> io::Result<()> {
    latency::compare(|tell| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(serve(tell))
    })
}

async fn serve(tell: &Sender<SocketAddr>) -> io::Result<()> {
    let mut config = ServerConfig::new(Secret::default(), fresh_tokens()?);
    config.limits.unauthenticated = 4000;
    let server = Server::bind("127.0.0.1:0", config).await?;
    let _ = tell.send(server.local_addrs()[0]);
    server.serve().await
}
