//! Two threads take turns with one lock.
//!
//! ```console
//! $ TICKETING_TOKEN=... cargo run -p ticketing-mio --example client -- 127.0.0.1:5225
//! ```

use std::env;
use std::error::Error;
use std::thread;
use std::time::Duration;

use ticketing_mio::{AcquireOptions, Client, Secret};

fn main() -> Result<(), Box<dyn Error>> {
    let address = env::args().nth(1).unwrap_or_else(|| "127.0.0.1:5225".to_owned());
    let token = Secret::new(env::var("TICKETING_TOKEN").unwrap_or_default().into_bytes());
    let client = Client::builder().address(address).token(token).build()?;

    // The work needs 1 s of the lease at least; the lease covers a wait that is used up.
    let options = AcquireOptions::new(Duration::from_secs(1))
        .wait(Duration::from_secs(10))
        .response_grace(Duration::from_secs(2));
    let workers = ["one", "the other"].map(|name| {
        let client = client.clone();
        thread::spawn(move || {
            for _ in 0..3 {
                match client.acquire("an-example", options) {
                    Ok(ticket) => {
                        println!("{name}: token {}, {:?} left", ticket.token(), ticket.remaining());
                        thread::sleep(Duration::from_millis(100));
                        if let Err(error) = ticket.release() {
                            println!("{name}: {error}");
                        }
                    }
                    Err(error) => println!("{name}: {error}"),
                }
            }
        })
    });
    for worker in workers {
        worker.join().map_err(|_| "a worker panicked")?;
    }
    client.close();
    Ok(())
}
