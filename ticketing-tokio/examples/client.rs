//! Takes a lock, works under it, and gives it back.
//!
//! ```console
//! $ TICKETING_TOKEN=... cargo run -p ticketing-tokio --example client -- 127.0.0.1:5225 nightly-report
//! ```

use std::env;
use std::error::Error;
use std::time::Duration;

use ticketing_tokio::{AcquireOptions, Client, Released, Secret};

/// What must be left of the lease to begin a step of the work.
const STEP: Duration = Duration::from_secs(2);

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    tracing_subscriber::fmt().with_writer(std::io::stderr).init();
    let mut arguments = env::args().skip(1);
    let address = arguments.next().unwrap_or_else(|| "127.0.0.1:5225".into());
    let key = arguments.next().unwrap_or_else(|| "nightly-report".into());
    let token = Secret::new(env::var("TICKETING_TOKEN").unwrap_or_default().into_bytes());

    let client = Client::builder().address(address).token(token).build()?;
    // A waiter's lease may have begun at the start of its wait: it has to last for both.
    let (wait, work) = (Duration::from_secs(20), Duration::from_secs(10));
    let options =
        AcquireOptions::new(work).wait(wait).lease(wait + work).response_grace(Duration::from_secs(2));
    let ticket = match client.acquire(&key, options).await {
        Ok(ticket) => ticket,
        Err(error) => {
            let certainty = if error.is_certain() { "nothing is held" } else { "the lock may be held" };
            if let Some(reason) = client.connect_error() {
                eprintln!("{reason}");
            }
            return Err(format!("`{key}` was not acquired ({certainty}): {error}").into());
        }
    };
    println!("`{key}` is held with token {} for {:?}", ticket.token(), ticket.remaining());

    for step in 1..=3 {
        // Whatever is changed under the lock should be told the token too, and refuse lower ones: this process may
        // be paused right here.
        if ticket.remaining() < STEP {
            return Err("too little of the lease is left for another step".into());
        }
        println!("step {step}, {:?} left", ticket.remaining());
        tokio::time::sleep(STEP / 4).await;
    }

    match ticket.release().await? {
        Released::Released => println!("released"),
        Released::NotHeld => println!("the lease was over before the work was"),
    }
    client.close().await;
    Ok(())
}
