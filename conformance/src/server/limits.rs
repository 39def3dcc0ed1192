//! What the suite is told of a server's limits.

use std::fmt;
use std::str::FromStr;

/// The limits that the server was started with (`AD-1`, `AD-3`, `AD-4`, `AU-8`), as far as they are known. The cases of
/// a limit that is not known are not run.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Limits {
    /// `keys`: keys held.
    pub keys: Option<u32>,
    /// `waiters`: waiters in all queues.
    pub waiters: Option<u32>,
    /// `per_key`: waiters for one key.
    pub per_key: Option<u32>,
    /// `in_flight`: acquires in flight.
    pub in_flight: Option<u32>,
    /// `per_connection`: acquires in flight on one connection.
    pub per_connection: Option<u32>,
    /// `connections`
    pub connections: Option<u32>,
    /// `unauthenticated`: connections that are not authenticated.
    pub unauthenticated: Option<u32>,
}

impl Limits {
    /// Each with the least value that leaves room for all other cases, which run one after the other with those of
    /// limits, and then at once.
    fn named(&mut self) -> [(&'static str, u32, &mut Option<u32>); 7] {
        [
            ("keys", 400, &mut self.keys),
            ("waiters", 400, &mut self.waiters),
            ("per_key", 110, &mut self.per_key),
            ("in_flight", 400, &mut self.in_flight),
            ("per_connection", 30, &mut self.per_connection),
            ("connections", 200, &mut self.connections),
            ("unauthenticated", 60, &mut self.unauthenticated),
        ]
    }

    /// Checks that the limits leave room for the other cases.
    ///
    /// # Errors
    /// [`LimitsError`] for the first one that is too small.
    pub fn check(mut self) -> Result<Self, LimitsError> {
        for (name, least, value) in self.named() {
            if value.is_some_and(|value| value < least) {
                return Err(LimitsError(format!("{name} is less than {least}, which the other cases need")));
            }
        }
        Ok(self)
    }
}

/// `keys=400,waiters=500`
impl FromStr for Limits {
    type Err = LimitsError;

    fn from_str(text: &str) -> Result<Self, LimitsError> {
        let mut limits = Self::default();
        for part in text.split(',') {
            let (name, value) =
                part.split_once('=').ok_or_else(|| LimitsError(format!("`{part}` is not NAME=NUMBER")))?;
            let value = value.parse().map_err(|_| LimitsError(format!("`{value}` is no number")))?;
            let mut named = limits.named();
            let Some((.., place)) = named.iter_mut().find(|(known, ..)| *known == name) else {
                let known: Vec<_> = named.iter().map(|(name, ..)| *name).collect();
                return Err(LimitsError(format!("`{name}` is none of {}", known.join(", "))));
            };
            **place = Some(value);
        }
        limits.check()
    }
}

/// Limits that the suite cannot work with.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LimitsError(String);

impl fmt::Display for LimitsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for LimitsError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_read_by_name_and_small_ones_refused() {
        let limits = Limits { keys: Some(400), per_key: Some(110), ..Limits::default() };
        assert_eq!("keys=400,per_key=110".parse(), Ok(limits));
        for (text, error) in [
            ("keys", "`keys` is not NAME=NUMBER"),
            ("keys=many", "`many` is no number"),
            ("keys=399", "keys is less than 400, which the other cases need"),
            (
                "locks=400",
                "`locks` is none of keys, waiters, per_key, in_flight, per_connection, connections, unauthenticated",
            ),
        ] {
            assert_eq!(text.parse::<Limits>().unwrap_err().to_string(), error);
        }
    }
}
