//! How late this machine itself is: what a case may not blame on others.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// How long the watch sleeps at a time.
const NAP: Duration = Duration::from_millis(20);
/// How far back it remembers.
const MEMORY: usize = 10_000;

/// Measures by how much sleeps are overslept, until it is dropped.
pub(crate) struct Watch {
    naps: Arc<Mutex<VecDeque<(Instant, Duration)>>>,
    is_over: Arc<AtomicBool>,
}

impl Watch {
    pub(crate) fn start() -> Self {
        let watch = Self { naps: Arc::default(), is_over: Arc::default() };
        let (naps, is_over) = (Arc::clone(&watch.naps), Arc::clone(&watch.is_over));
        thread::spawn(move || {
            while !is_over.load(Ordering::Relaxed) {
                let start = Instant::now();
                thread::sleep(NAP);
                let lateness = start.elapsed().saturating_sub(NAP);
                let mut naps = naps.lock().unwrap_or_else(PoisonError::into_inner);
                if naps.len() == MEMORY {
                    naps.pop_front();
                }
                naps.push_back((Instant::now(), lateness));
            }
        });
        watch
    }

    /// The greatest lateness that was seen since a moment.
    pub(crate) fn lateness_since(&self, start: Instant) -> Duration {
        let naps = self.naps.lock().unwrap_or_else(PoisonError::into_inner);
        naps.iter()
            .rev()
            .take_while(|(at, _)| *at >= start)
            .map(|&(_, lateness)| lateness)
            .max()
            .unwrap_or_default()
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
    }
}
