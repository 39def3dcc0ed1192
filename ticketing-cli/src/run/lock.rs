//! The lock, as `run` uses it: one client, one acquire, one release.

use std::fmt;
use std::time::Duration;

use ticketing_tokio::{AcquireError, AcquireOptions, Instant, ReleaseError, Released, Secret, Ticket};

use super::rules::Plan;
use crate::exit::{self, Failure};

/// How long past the deadline an answer is waited for, so that an ordinary timeout is a certain one (`CA-12`).
const RESPONSE_GRACE: Duration = Duration::from_secs(5);

/// A client of the servers.
#[derive(Debug)]
pub(super) struct Client(ticketing_tokio::Client);

/// The lock, held.
#[derive(Debug)]
pub(super) struct Held(Ticket);

/// The lock was not acquired.
#[derive(Debug)]
pub(super) enum Missed {
    /// That is certain, and nothing is wrong.
    Certain(AcquireError),
    /// Something is wrong, or it is not certain.
    Otherwise(Failure),
}

/// How the release ended.
#[derive(Debug)]
pub(super) struct Outcome(Result<Released, ReleaseError>);

impl Client {
    /// Begins to connect.
    pub(super) fn new(addresses: Vec<String>, secret: Secret) -> Result<Self, Failure> {
        let builder = ticketing_tokio::Client::builder().addresses(addresses).token(secret);
        builder.build().map(Self).map_err(Failure::usage)
    }

    pub(super) async fn acquire(&self, key: &str, plan: Plan) -> Result<Held, Missed> {
        let options =
            AcquireOptions::new(plan.budget).wait(plan.wait).lease(plan.lease).response_grace(RESPONSE_GRACE);
        self.0.acquire(key, options).await.map(Held).map_err(|error| self.missed(error))
    }

    /// Takes leave of the servers: what is still to be released goes out.
    pub(super) async fn close(&self) {
        self.0.close().await;
    }

    fn missed(&self, error: AcquireError) -> Missed {
        let code = match error {
            AcquireError::Timeout if self.0.stats().sessions == 0 => {
                let why = self.0.connect_error().map(|why| format!(": {why}")).unwrap_or_default();
                let failure = format!("no server could be reached{why}");
                return Missed::Otherwise(Failure::new(exit::NO_SERVER, failure));
            }
            AcquireError::Timeout | AcquireError::Busy | AcquireError::InsufficientLease { .. } => {
                return Missed::Certain(error);
            }
            AcquireError::InvalidKey(_) | AcquireError::UnsupportedDuration(_) => exit::USAGE,
            AcquireError::Auth => exit::AUTH,
            AcquireError::Protocol(_) => exit::NO_SERVER,
            AcquireError::Indeterminate => exit::UNKNOWN,
            _ => exit::INTERNAL,
        };
        Missed::Otherwise(Failure::new(code, error))
    }
}

impl Held {
    pub(super) fn token(&self) -> u64 {
        self.0.token().value()
    }

    pub(super) fn valid_until(&self) -> Instant {
        self.0.valid_until()
    }

    pub(super) async fn release(self) -> Outcome {
        Outcome(self.0.release().await)
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Ok(Released::Released) => f.write_str("released"),
            Ok(Released::NotHeld) => f.write_str("the lease was over before the release"),
            Err(error) => error.fmt(f),
        }
    }
}
