//! A client's addresses, and how it went to connect to each.

use std::fmt;

use super::shared::Shared;

/// The addresses of a client, for its driver.
#[derive(Debug)]
pub struct Addresses(Vec<Address>);

#[derive(Debug)]
struct Address {
    text: Box<str>,
    /// Connections in a row that could not be made.
    failures: usize,
}

impl Addresses {
    /// With nothing known of any.
    #[must_use]
    pub fn new(texts: Vec<Box<str>>) -> Self {
        Self(texts.into_iter().map(|text| Address { text, failures: 0 }).collect())
    }

    /// One of them, by its place.
    ///
    /// # Panics
    /// If there are not as many.
    #[must_use]
    pub fn text(&self, address: usize) -> &str {
        &self.0[address].text
    }

    /// How many connections to it in a row could not be made.
    ///
    /// # Panics
    /// If there are not as many.
    #[must_use]
    pub fn failures(&self, address: usize) -> usize {
        self.0[address].failures
    }

    /// A connection to it was made.
    ///
    /// # Panics
    /// If there are not as many.
    pub fn connected(&mut self, address: usize, shared: &Shared) {
        self.0[address].failures = 0;
        shared.note_connect_error(None);
    }

    /// A connection to it could not be made.
    ///
    /// # Panics
    /// If there are not as many.
    pub fn failed(&mut self, address: usize, error: &dyn fmt::Display, shared: &Shared) {
        let Address { text, failures } = &mut self.0[address];
        *failures += 1;
        shared.note_connect_error(Some(format!("{text}: {error}").into()));
    }
}
