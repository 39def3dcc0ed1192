//! The lock, as `run` uses it: one client, one acquire, one release.

use std::fmt;
use std::time::Duration;

use ticketing_proto::tls::ClientTls;
use ticketing_tokio::{AcquireError, AcquireOptions, Instant, ReleaseError, Released, Secret, Ticket};

use super::rules::Plan;
use crate::exit::{self, Failure};
use crate::tls::SILENCE;

/// How long past the deadline an answer is waited for, so that an ordinary timeout is a certain one (`CA-12`).
const RESPONSE_GRACE: Duration = Duration::from_secs(5);

/// A client of the servers.
#[derive(Debug)]
pub(super) struct Client {
    inner: ticketing_tokio::Client,
    is_plain: bool,
}

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
    pub(super) fn new(
        addresses: Vec<String>,
        secret: Secret,
        tls: Option<ClientTls>,
    ) -> Result<Self, Failure> {
        let is_plain = tls.is_none();
        let builder = ticketing_tokio::Client::builder().addresses(addresses).token(secret);
        let builder = match tls {
            Some(tls) => builder.tls(tls),
            None => builder,
        };
        let inner = builder.build().map_err(Failure::usage)?;
        Ok(Self { inner, is_plain })
    }

    pub(super) async fn acquire(&self, key: &str, plan: Plan) -> Result<Held, Missed> {
        let options =
            AcquireOptions::new(plan.budget).wait(plan.wait).lease(plan.lease).response_grace(RESPONSE_GRACE);
        self.inner.acquire(key, options).await.map(Held).map_err(|error| self.missed(error))
    }

    /// Takes leave of the servers: what is still to be released goes out.
    pub(super) async fn close(&self) {
        self.inner.close().await;
    }

    fn missed(&self, error: AcquireError) -> Missed {
        let code = match error {
            AcquireError::Timeout if self.inner.stats().sessions == 0 => {
                let failure = match self.inner.connect_error() {
                    Some(why) => format!("no server could be reached: {why}"),
                    None if self.is_plain => format!("no server has answered; {SILENCE}"),
                    None => "no server has answered".to_owned(),
                };
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
