//! What a client and its shim did, in the order in which it was seen.

use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Instant;

use super::line::Answer;

/// One connection of a client: the node that it came to, and its number in the order of accept.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) struct Peer {
    pub(super) node: usize,
    pub(super) number: usize,
}

/// An acquire as it stood on the wire.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Asked {
    pub(super) peer: Peer,
    pub(super) at: Instant,
    pub(super) wait: u8,
    pub(super) lease: u8,
    pub(super) owner: u64,
    pub(super) key: Vec<u8>,
}

/// A release as it stood on the wire.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct GivenBack {
    pub(super) peer: Peer,
    pub(super) at: Instant,
    pub(super) token: u64,
    pub(super) key: Vec<u8>,
}

/// Something that was seen.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Event {
    Connected(Peer),
    /// The first line of a client, as it came.
    Responded {
        peer: Peer,
        line: Vec<u8>,
        is_right: bool,
    },
    Asked(Asked),
    GivenBack(GivenBack),
    /// Bytes that are no frame, and what is wrong with them.
    Noise {
        peer: Peer,
        what: String,
    },
    /// The client's end of stream.
    Ended(Peer),
    Answered(Answer),
    /// The shim ended; its exit code, if it is known.
    Exited(Option<i32>),
}

#[derive(Debug)]
struct Entry {
    at: Instant,
    event: Event,
    is_taken: bool,
}

/// Why what was waited for did not come.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Missing {
    /// It did not come in time.
    TimedOut,
    /// The client sent bytes that are no frame.
    Noise(String),
    /// The shim ended.
    Exited(Option<i32>),
}

/// All that was seen. Each event is taken once.
#[derive(Debug, Default)]
pub(super) struct Timeline {
    entries: Mutex<Vec<Entry>>,
    grown: Condvar,
}

impl Timeline {
    pub(super) fn add(&self, at: Instant, event: Event) {
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        entries.push(Entry { at, event, is_taken: false });
        self.grown.notify_all();
    }

    /// Takes the first event that was not taken yet and that `pick` wants, and waits for it until then.
    pub(super) fn take<T>(
        &self,
        until: Instant,
        mut pick: impl FnMut(&Event) -> Option<T>,
    ) -> Result<(Instant, T), Missing> {
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        let mut looked_at = 0;
        loop {
            for entry in entries.iter_mut().skip(looked_at).filter(|entry| !entry.is_taken) {
                if let Some(picked) = pick(&entry.event) {
                    entry.is_taken = true;
                    return Ok((entry.at, picked));
                }
            }
            looked_at = entries.len();
            if let Some(missing) = entries.iter().find_map(Entry::ends_all) {
                return Err(missing);
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(Missing::TimedOut);
            }
            entries = self.grown.wait_timeout(entries, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// What was seen so far, taken or not, with its time.
    pub(super) fn seen<T>(&self, mut pick: impl FnMut(&Event) -> Option<T>) -> Vec<(Instant, T)> {
        let entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        entries.iter().filter_map(|entry| Some((entry.at, pick(&entry.event)?))).collect()
    }

    /// The first event that nobody has taken and that `pick` wants.
    pub(super) fn untaken<T>(&self, mut pick: impl FnMut(&Event) -> Option<T>) -> Option<T> {
        let entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        entries.iter().filter(|entry| !entry.is_taken).find_map(|entry| pick(&entry.event))
    }
}

impl Entry {
    /// Whether nothing more is to be expected behind it.
    fn ends_all(&self) -> Option<Missing> {
        match &self.event {
            Event::Noise { peer, what } => {
                Some(Missing::Noise(format!("over connection {} of node {}: {what}", peer.number, peer.node)))
            }
            Event::Exited(code) => Some(Missing::Exited(*code)),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn ended(number: usize) -> Event {
        Event::Ended(Peer { node: 0, number })
    }

    fn any_end(event: &Event) -> Option<usize> {
        match event {
            Event::Ended(peer) => Some(peer.number),
            _ => None,
        }
    }

    #[test]
    fn each_event_is_taken_once_and_in_order() {
        let timeline = Timeline::default();
        let now = Instant::now();
        [1, 2].into_iter().for_each(|number| timeline.add(now, ended(number)));
        let second = |event: &Event| any_end(event).filter(|&number| number == 2);
        assert_eq!(timeline.take(now, second), Ok((now, 2)));
        assert_eq!(timeline.take(now, any_end), Ok((now, 1)));
        assert_eq!(timeline.take(now, any_end), Err(Missing::TimedOut));
        assert_eq!(timeline.seen(any_end), [(now, 1), (now, 2)]);
    }

    #[test]
    fn what_comes_later_is_waited_for() {
        let timeline = Timeline::default();
        std::thread::scope(|scope| {
            let taker = scope.spawn(|| {
                let until = Instant::now() + Duration::from_secs(60);
                timeline.take(until, any_end).map(|(_, number)| number)
            });
            timeline.add(Instant::now(), ended(3));
            assert_eq!(taker.join().expect("no panic"), Ok(3));
        });
    }

    #[test]
    fn nobody_waits_for_a_shim_that_is_gone() {
        let timeline = Timeline::default();
        timeline.add(Instant::now(), Event::Exited(Some(89)));
        timeline.add(Instant::now(), ended(1));
        let until = Instant::now() + Duration::from_secs(60);
        assert!(timeline.take(until, any_end).is_ok(), "what came is there all the same");
        assert_eq!(timeline.take(until, any_end), Err(Missing::Exited(Some(89))));
    }
}
