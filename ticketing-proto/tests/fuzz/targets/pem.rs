//! Certificates, keys and names as files and callers bring them.

use std::sync::Arc;

use ticketing_proto::tls::rustls::pki_types::UnixTime;
use ticketing_proto::tls::rustls::time_provider::TimeProvider;
use ticketing_proto::tls::{ClientTls, Roots, ServerTls};

/// Every text is taken, or refused with a reason that does not show it.
pub(crate) fn pem(data: &[u8]) {
    let (first, second) = match data.iter().position(|&byte| byte == 0) {
        Some(at) => (&data[..at], &data[at + 1..]),
        None => (data, data),
    };
    if let Err(error) = ServerTls::from_pem(first, second, Arc::new(Never)) {
        assert!(!error.to_string().is_empty());
    }
    match ClientTls::with_roots(Roots::Pem(first), Arc::new(Never)) {
        Ok(client) => {
            let name = String::from_utf8_lossy(second);
            assert_eq!(
                client.connection(&format!("{name}:1")).is_ok(),
                client.server_name(&name).is_ok(),
                "{name:?}"
            );
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

/// A clock that does not know the time.
#[derive(Debug)]
struct Never;

impl TimeProvider for Never {
    fn current_time(&self) -> Option<UnixTime> {
        None
    }
}
