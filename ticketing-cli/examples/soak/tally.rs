//! Counts by name.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

#[derive(Default)]
pub(crate) struct Tally(Mutex<BTreeMap<&'static str, u64>>);

impl Tally {
    pub(crate) fn count(&self, name: &'static str) {
        *self.lock().entry(name).or_default() += 1;
    }

    pub(crate) fn total(&self) -> u64 {
        self.lock().values().sum()
    }

    /// Those of the names that were never counted.
    pub(crate) fn missing<'a>(&self, names: &[&'a str]) -> Vec<&'a str> {
        let counts = self.lock();
        names.iter().copied().filter(|name| !counts.contains_key(name)).collect()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<&'static str, u64>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, (name, count)) in self.lock().iter().enumerate() {
            let space = if number == 0 { "" } else { ", " };
            write!(f, "{space}{name} {count}")?;
        }
        Ok(())
    }
}
