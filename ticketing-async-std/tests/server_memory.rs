//! What connections cost: this process counts what it allocates.
#![cfg(target_os = "linux")]

#[path = "server/adapter.rs"]
mod adapter;
#[path = "../../ticketing-host/suite/server_memory.rs"]
mod suite;

use std::io::Read as _;
use std::net::TcpListener;
use std::pin::pin;
use std::thread;

use async_io::{Async, block_on};
use futures_io::AsyncWrite as _;
use ticketing_async_std::runtime::AsyncIo;
use ticketing_host::runtime::Runtime as _;

/// What the runtime itself needs for a task with a connection.
fn runtimes_own() -> usize {
    let listener = Async::<TcpListener>::bind(([127, 0, 0, 1], 0)).unwrap();
    let address = listener.get_ref().local_addr().unwrap();
    let (stop, stopped) = std::sync::mpsc::channel::<()>();

    thread::scope(|scope| {
        scope.spawn(move || {
            block_on(async {
                while stopped.try_recv() != Err(std::sync::mpsc::TryRecvError::Disconnected) {
                    let (mut stream, _) = listener.accept().await.unwrap();
                    AsyncIo::spawn(async move {
                        std::future::poll_fn(|cx| pin!(&mut stream).poll_write(cx, b"x")).await.unwrap();
                        stream.readable().await.unwrap();
                    });
                }
            });
        });
        let own = suite::cost(address, |client| client.read_exact(&mut [0]).unwrap());
        drop(stop);
        // It looks whether it is over after each.
        std::net::TcpStream::connect(address).unwrap();
        own
    })
}
