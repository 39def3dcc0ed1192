//! A server and a client in one loop, on one thread, next to whatever else that loop would serve.
//!
//! ```console
//! $ cargo run -p ticketing-mio --example embed
//! ```

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use mio::{Events, Poll, Token, Waker};
use ticketing_mio::{
    AcquireOptions, Acquiring, Client, Releasing, Secret, Server, ServerConfig, fresh_tokens,
};

/// The waker's; mio allows one waker for a `Poll`.
const WAKER: Token = Token(0);

fn main() -> Result<(), Box<dyn Error>> {
    let mut poll = Poll::new()?;
    let waker = Arc::new(Waker::new(poll.registry(), WAKER)?);

    let config = ServerConfig::new(Secret::default(), fresh_tokens()?);
    let server = Server::bind("127.0.0.1:0", config)?;
    let address = server.local_addrs()[0].to_string();
    let shutdown = server.shutdown_handle();
    let mut server = server.embed(poll.registry(), 1000..20_000, Arc::clone(&waker))?;
    let (client, mut connections) =
        Client::builder().address(address).embed(poll.registry(), 100..200, waker)?;

    // Nothing here may block: what begins is claimed when the loop has brought it.
    let mut acquiring = Some(client.begin("an-example", AcquireOptions::new(Duration::from_secs(1))));
    let mut releasing = None;
    let mut events = Events::with_capacity(256);
    while !server.is_over() {
        let timeout = [server.next_timeout(), connections.next_timeout()].into_iter().flatten().min();
        poll.poll(&mut events, timeout)?;
        for event in &events {
            server.handle_event(event);
            connections.handle_event(event);
        }
        server.turn();
        connections.turn();

        if let Some(outcome) = acquiring.as_mut().and_then(Acquiring::claim) {
            acquiring = None;
            let ticket = outcome?;
            println!("acquired: token {}, {:?} left", ticket.token(), ticket.remaining());
            releasing = Some(ticket.begin_release());
        }
        if let Some(outcome) = releasing.as_mut().and_then(Releasing::claim) {
            releasing = None;
            println!("{:?}", outcome?);
            client.begin_close();
            shutdown.shut_down();
        }
    }
    Ok(())
}
