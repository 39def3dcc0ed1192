//! What becomes of a server whose future is dropped.

use ticketing_tokio::Server;
use tokio::io::AsyncReadExt as _;

use crate::suite::support::config;

#[test]
fn a_server_that_is_dropped_leaves_nobody_behind() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let server = Server::bind("127.0.0.1:0", config()).await.unwrap();
        let address = server.local_addrs()[0];
        let serving = tokio::spawn(server.serve());
        let mut stream = tokio::net::TcpStream::connect(address).await.unwrap();
        stream.read_exact(&mut [0; 51]).await.unwrap();
        serving.abort();
        assert!(serving.await.unwrap_err().is_cancelled());
        let mut rest = Vec::new();
        // The end of the stream, or a reset: the connection's task is no more.
        let _ = stream.read_to_end(&mut rest).await;
        assert!(tokio::net::TcpStream::connect(address).await.is_err());
    });
}
