//! Operations a second against the ceiling of tokio, in one run.
//!
//! ```console
//! $ cargo bench -p ticketing-tokio --bench throughput -- [ROUNDS [SECONDS]] [CxW...]
//! ```

#[path = "../../ticketing-host/suite/throughput.rs"]
mod throughput;

use std::io;
use std::net::SocketAddr;
use std::sync::mpsc::Sender;

use ticketing_proto::wire::auth::{self, Secret};
use ticketing_tokio::{Server, ServerConfig, fresh_tokens};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::{Builder, Runtime};

fn main() {
    throughput::compare(|tell| runtime()?.block_on(serve(tell)), |tell| runtime()?.block_on(answer(tell)));
}

fn runtime() -> io::Result<Runtime> {
    Builder::new_current_thread().enable_all().build()
}

async fn serve(tell: &Sender<SocketAddr>) -> io::Result<()> {
    let config = ServerConfig::new(Secret::default(), fresh_tokens()?);
    let server = Server::bind("127.0.0.1:0", config).await?;
    let _ = tell.send(server.local_addrs()[0]);
    server.serve().await
}

/// The ceiling.
async fn answer(tell: &Sender<SocketAddr>) -> io::Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let _ = tell.send(listener.local_addr()?);
    loop {
        let (stream, _) = listener.accept().await?;
        tokio::spawn(answer_one(stream));
    }
}

async fn answer_one(mut stream: TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    stream.write_all(&throughput::challenge()).await?;
    let mut response = [0; auth::TEXT_LEN + 1];
    stream.read_exact(&mut response).await?;

    let (mut input, mut start) = ([0; 4096], 0);
    let mut output = Vec::new();
    loop {
        let end = start + stream.read(&mut input[start..]).await?;
        if end == start {
            return Ok(());
        }
        let used = throughput::answer_frames(&input[..end], &mut output);
        stream.write_all(&output).await?;
        output.clear();
        input.copy_within(used..end, 0);
        start = end - used;
    }
}
