//! Two tasks take turns with one lock.
//!
//! ```console
//! $ TICKETING_TOKEN=... cargo run -p ticketing-async-std --example client -- 127.0.0.1:5225
//! ```

use std::env;
use std::error::Error;
use std::time::Duration;

use async_io::{Timer, block_on};
use ticketing_async_std::{AcquireError, AcquireOptions, Client, Secret};

fn main() -> Result<(), Box<dyn Error>> {
    let address = env::args().nth(1).unwrap_or_else(|| "127.0.0.1:5225".to_owned());
    let token = Secret::new(env::var("TICKETING_TOKEN").unwrap_or_default().into_bytes());
    let client = Client::builder().address(address).token(token).build()?;

    block_on(async {
        // Both are under way from here on, whoever is awaited first.
        let one = client.acquire("an-example", options());
        let other = client.acquire("an-example", options());
        for (name, acquiring) in [("one", one), ("the other", other)] {
            if let Err(error) = work(name, acquiring.await).await {
                println!("{name}: {error}");
            }
        }
        client.close().await;
    });
    Ok(())
}

/// The work needs 1 s of the lease at least; the lease covers a wait that is used up.
const fn options() -> AcquireOptions {
    AcquireOptions::new(Duration::from_secs(1))
        .wait(Duration::from_secs(10))
        .response_grace(Duration::from_secs(2))
}

async fn work(
    name: &str,
    acquired: Result<ticketing_async_std::Ticket, AcquireError>,
) -> Result<(), Box<dyn Error>> {
    let ticket = acquired?;
    println!("{name}: token {}, {:?} left", ticket.token(), ticket.remaining());
    Timer::after(Duration::from_millis(100)).await;
    ticket.release().await?;
    Ok(())
}
