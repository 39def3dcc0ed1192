use alloc::boxed::Box;
use alloc::vec::Vec;
use core::time::Duration;

use crate::id::Owner;
use crate::limits::{DurationField, Lease, UnsupportedDuration};
use crate::tls::ClientTls;
use crate::wire::auth::Secret;
use crate::wire::is_address;

/// Connections to a service of one address (`CC-1`).
const CONNECTIONS_TO_ONE_ADDRESS: usize = 2;
/// The longest [`AcquireOptions::response_grace`] (`CA-12`).
pub const MAX_RESPONSE_GRACE: Duration = Duration::from_secs(10);
/// Acquires in flight by default (`CC-5`).
pub const DEFAULT_MAX_IN_FLIGHT: usize = 1024;

/// What a [`Broker`](super::Broker) is told once.
#[derive(Clone, Debug)]
pub struct BrokerConfig {
    /// `host:port` of every node, future ones included (`CC-1`).
    pub addresses: Vec<Box<str>>,
    /// What authenticates this client; empty for none (`AU-2`).
    pub secret: Secret,
    /// With it every connection is inside TLS (`TR-2`).
    pub tls: Option<ClientTls>,
    /// Acquires in flight at once, over all connections (`CC-5`). At least 1.
    pub max_in_flight: usize,
    /// Random, different for each client: it spreads reconnects (`CC-3`). Two with one seed behave alike.
    pub jitter_seed: u64,
    /// The first owner to give; the others follow it (`CO-1`).
    pub first_owner: Owner,
}

impl BrokerConfig {
    /// A client of the service at `addresses`, without a token and without TLS.
    #[must_use]
    pub fn new(addresses: impl IntoIterator<Item = impl Into<Box<str>>>, jitter_seed: u64) -> Self {
        Self {
            addresses: addresses.into_iter().map(Into::into).collect(),
            secret: Secret::default(),
            tls: None,
            max_in_flight: DEFAULT_MAX_IN_FLIGHT,
            jitter_seed,
            first_owner: Owner::FIRST,
        }
    }

    /// Checks what [`Broker::new`](super::Broker::new) relies on.
    ///
    /// # Errors
    /// [`ConfigError`]
    pub fn check(&self) -> Result<(), ConfigError> {
        if self.addresses.is_empty() {
            return Err(ConfigError::NoAddress);
        }
        if self.max_in_flight == 0 {
            return Err(ConfigError::NothingInFlight);
        }
        for (index, address) in self.addresses.iter().enumerate() {
            if !is_address(address) {
                return Err(ConfigError::BadAddress { address: address.clone() });
            }
            if self.tls.as_ref().is_some_and(|tls| !tls.can_name(address)) {
                return Err(ConfigError::NoServerName { address: address.clone() });
            }
            if self.addresses.iter().skip(index + 1).any(|other| other.eq_ignore_ascii_case(address)) {
                return Err(ConfigError::SameAddress { address: address.clone() });
            }
        }
        Ok(())
    }

    /// The address of each connection: two for a single address, else one each (`CC-1`).
    pub(super) fn connections(&self) -> impl Iterator<Item = usize> + use<> {
        let each = if self.addresses.len() == 1 { CONNECTIONS_TO_ONE_ADDRESS } else { 1 };
        (0..self.addresses.len()).flat_map(move |address| core::iter::repeat_n(address, each))
    }
}

/// A configuration that can't work.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// There is nowhere to connect to.
    #[error("no address is configured; at least one `host:port` is needed")]
    NoAddress,
    /// An address is not `host:port`.
    #[error(
        "the address `{address}` is not `host:port` (an IPv6 literal stands in brackets, the port is 1 to 65535)"
    )]
    BadAddress {
        /// The address.
        address: Box<str>,
    },
    /// With TLS the host in an address must be something that a certificate can hold for, or a name must be given.
    #[error(
        "the host in `{address}` is neither a DNS name nor an IP address, so no certificate can hold for it; \
         a server name can be configured instead"
    )]
    NoServerName {
        /// The address.
        address: Box<str>,
    },
    /// Addresses are told apart as text, ASCII case folded (`CC-2`).
    #[error("the address `{address}` is configured twice")]
    SameAddress {
        /// The address.
        address: Box<str>,
    },
    /// Nothing could ever be sent.
    #[error("`max_in_flight` is 0; at least 1 acquire must be allowed in flight")]
    NothingInFlight,
}

/// What one acquire asks for.
///
/// ```
/// use core::time::Duration;
/// use ticketing_proto::client::AcquireOptions;
///
/// let options = AcquireOptions::new(Duration::from_secs(5))
///     .wait(Duration::from_secs(20))
///     .lease(Duration::from_secs(30));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "arbitrary", derive(arbitrary::Arbitrary))]
pub struct AcquireOptions {
    /// See [`AcquireOptions::new`].
    pub min_work_budget: Duration,
    /// See [`AcquireOptions::wait`].
    pub wait: Duration,
    /// See [`AcquireOptions::lease`].
    pub lease: Duration,
    /// See [`AcquireOptions::response_grace`].
    pub response_grace: Duration,
}

impl AcquireOptions {
    /// `min_work_budget` (`CD-2`) is what must be left of the lease when the ticket is handed to the caller: it
    /// covers the critical work, the pauses to expect, and the commit or rollback of the database. 0 to 250 s,
    /// exact, at most the lease. The wait is 0, the lease 30 s (`CD-4`), the grace 0.
    #[must_use]
    pub const fn new(min_work_budget: Duration) -> Self {
        Self {
            min_work_budget,
            wait: Duration::ZERO,
            lease: Lease::DEFAULT.duration(),
            response_grace: Duration::ZERO,
        }
    }

    /// How long the whole acquire may take, from the call to the answer (`CA-1`): 0 to 255 s, rounded up to whole
    /// seconds. 0 is one immediate attempt, which has 5 s for its transport (`CA-6`).
    #[must_use]
    pub const fn wait(self, wait: Duration) -> Self {
        Self { wait, ..self }
    }

    /// How long the lock is held unless it is released: 1 to 250 s, rounded up to whole seconds (`CD-1`).
    ///
    /// Nothing on the wire tells when a waiter was granted, so the lease that a client can vouch for counts from
    /// the moment the request was sent, less 0.1 % for clocks of different rates (1000 ppm): a long wait eats into
    /// it. **To use a wait fully, take `lease >= wait + min_work_budget`** (`CD-3`).
    #[must_use]
    pub const fn lease(self, lease: Duration) -> Self {
        Self { lease, ..self }
    }

    /// How long past its deadline a sent acquire waits for a definite answer (`CA-12`): 0 to 10 s, default 0.
    ///
    /// The wait is rounded up on the wire, so the server's "timed out" usually comes just after a strict deadline.
    /// Without grace the ordinary end of a timed-out wait is therefore `Indeterminate`, and it closes a connection,
    /// which hits everyone on it (`CA-5`). Whoever does not need the strict bound should allow 2 s or so. Grace
    /// never makes a grant deliverable after the deadline.
    #[must_use]
    pub const fn response_grace(self, response_grace: Duration) -> Self {
        Self { response_grace, ..self }
    }

    pub(super) fn check_grace(&self) -> Result<Duration, UnsupportedDuration> {
        if self.response_grace > MAX_RESPONSE_GRACE {
            return Err(UnsupportedDuration {
                field: DurationField::ResponseGrace,
                given: self.response_grace,
            });
        }
        Ok(self.response_grace)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_address_has_two_connections_and_several_have_one_each() {
        let one = BrokerConfig::new(["a:1"], 0);
        assert!(one.connections().eq([0, 0]));
        let three = BrokerConfig::new(["a:1", "b:1", "c:1"], 0);
        assert!(three.connections().eq([0, 1, 2]));
    }

    #[test]
    fn bad_configurations_are_named() {
        let none: [&str; 0] = [];
        assert_eq!(BrokerConfig::new(none, 0).check(), Err(ConfigError::NoAddress));
        let bad = BrokerConfig::new(["localhost"], 0).check();
        assert_eq!(bad, Err(ConfigError::BadAddress { address: "localhost".into() }));
        let twice = BrokerConfig::new(["a:1", "A:1"], 0).check();
        assert_eq!(twice, Err(ConfigError::SameAddress { address: "a:1".into() }));
        let idle = BrokerConfig { max_in_flight: 0, ..BrokerConfig::new(["a:1"], 0) };
        assert_eq!(idle.check(), Err(ConfigError::NothingInFlight));
    }
}
