//! What must hold, one promise in each file.

mod answers;
mod certainty;
mod compensation;
mod counters;
mod deadlines;
mod departures;
mod drained;
mod expiry;
mod fifo;
mod gates;
mod memory;
mod one_ticket;
mod releases;
mod retransmission;
mod stamps;
mod tickets;
mod tokens;
mod turns;

use super::facts::{Event, Facts};

pub(crate) type Verdict = Result<(), String>;

/// Something that must hold in every run.
pub(crate) trait Invariant {
    fn name(&self) -> &'static str;

    /// Judges an event by what was known before it.
    fn check(&mut self, facts: &Facts, event: &Event) -> Verdict;
}

pub(crate) fn all() -> Vec<Box<dyn Invariant>> {
    vec![
        Box::new(answers::Answers::default()),
        Box::new(certainty::Certainty::default()),
        Box::new(compensation::Compensation::default()),
        Box::new(counters::Counters),
        Box::new(deadlines::Deadlines),
        Box::new(departures::Departures),
        Box::new(drained::Drained),
        Box::new(expiry::Expiry),
        Box::new(fifo::Fifo),
        Box::new(gates::Gates::default()),
        Box::new(memory::Memory),
        Box::new(one_ticket::OneTicket),
        Box::new(releases::Releases::default()),
        Box::new(retransmission::Retransmission::default()),
        Box::new(stamps::Stamps),
        Box::new(tickets::Tickets::default()),
        Box::new(tokens::Tokens::default()),
        Box::new(turns::Turns),
    ]
}

/// Fails with this text unless the condition holds.
macro_rules! must {
    ($holds:expr, $($text:tt)+) => {
        if !$holds {
            return Err(format!($($text)+));
        }
    };
}
pub(crate) use must;
