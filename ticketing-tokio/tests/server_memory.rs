//! What connections cost: this process counts what it allocates.
#![cfg(target_os = "linux")]

#[path = "server/adapter.rs"]
mod adapter;
#[path = "../../ticketing-host/suite/server_memory.rs"]
mod suite;

use std::io::Read as _;
use std::thread;

/// What the runtime itself needs for a task with a connection.
fn runtimes_own() -> usize {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let listener = runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0")).unwrap();
    let address = listener.local_addr().unwrap();
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let serving = thread::spawn(move || {
        runtime.block_on(async {
            let accepting = tokio::spawn(async move {
                loop {
                    let (mut stream, _) = listener.accept().await.unwrap();
                    tokio::spawn(async move {
                        tokio::io::AsyncWriteExt::write_all(&mut stream, b"x").await.unwrap();
                        // It may say so although there is nothing.
                        while stream.readable().await.is_ok() && stream.try_read(&mut [0]).is_err() {}
                    });
                }
            });
            let _ = stopped.await;
            accepting.abort();
        });
    });
    let own = suite::cost(address, |client| client.read_exact(&mut [0]).unwrap());
    drop(stop);
    serving.join().unwrap();
    own
}
