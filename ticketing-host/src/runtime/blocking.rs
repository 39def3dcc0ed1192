//! What blocks, and can't be stopped, on threads that nobody has to wait for.

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::mem;
use std::panic::{self, AssertUnwindSafe};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

use super::Signal;

/// Up to so many threads of one name. They are there only while there is work.
#[derive(Clone)]
pub(crate) struct Threads(Arc<Inner>);

struct Inner {
    name: &'static str,
    most: usize,
    queue: Mutex<Queue>,
}

type Work = Box<dyn FnOnce() + Send>;

#[derive(Default)]
struct Queue {
    running: usize,
    waiting: VecDeque<Work>,
}

/// Between a thread and the one who waits for it.
struct Answer<T> {
    value: Mutex<Option<T>>,
    is_over: Signal,
}

/// Tells that there is an answer, or will never be one.
struct Asked<T>(Arc<Answer<T>>);

impl Threads {
    pub(crate) fn new(name: &'static str, most: usize) -> Self {
        Self(Arc::new(Inner { name, most, queue: Mutex::default() }))
    }

    /// Runs `work` when a thread is free. What nobody waits for any more is not begun.
    ///
    /// # Errors
    /// The system's, if there is no thread; and if `work` panics.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> io::Result<T> {
        let answer = Arc::new(Answer { value: Mutex::new(None), is_over: Signal::default() });
        let asked = Asked(Arc::clone(&answer));
        self.begin(Box::new(move || {
            // The other one is with whoever waits for it.
            if Arc::strong_count(&asked.0) > 1 {
                let value = work();
                *asked.0.value.lock().unwrap_or_else(PoisonError::into_inner) = Some(value);
            }
        }))?;
        answer.is_over.told().await;
        answer.take().ok_or_else(|| io::Error::other("a thread panicked"))
    }

    fn begin(&self, work: Work) -> io::Result<()> {
        let mut queue = self.0.lock();
        if queue.running == self.0.most {
            queue.waiting.push_back(work);
            return Ok(());
        }
        queue.running += 1;
        drop(queue);
        let inner = Arc::clone(&self.0);
        let thread = thread::Builder::new().name(self.0.name.into()).spawn(move || inner.work(work));
        thread.map(drop).inspect_err(|_| {
            let mut queue = self.0.lock();
            queue.running -= 1;
            // Nobody else would take them.
            let left = if queue.running == 0 { mem::take(&mut queue.waiting) } else { VecDeque::new() };
            drop(queue);
            drop(left);
        })
    }
}

impl Inner {
    fn work(&self, first: Work) {
        let mut work = first;
        loop {
            // Whoever waits for it hears of a panic.
            let _ = panic::catch_unwind(AssertUnwindSafe(work));
            let mut queue = self.lock();
            let Some(next) = queue.waiting.pop_front() else {
                queue.running -= 1;
                return;
            };
            work = next;
        }
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> Answer<T> {
    fn take(&self) -> Option<T> {
        self.value.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl<T> Drop for Asked<T> {
    fn drop(&mut self) {
        self.0.is_over.tell();
    }
}

impl fmt::Debug for Threads {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Threads").field("name", &self.0.name).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;
    use std::task::{Context, Poll, Waker};

    use super::*;

    /// Polls until it is ready.
    fn wait<T>(future: impl Future<Output = T>) -> T {
        let mut future = std::pin::pin!(future);
        loop {
            if let Poll::Ready(value) = future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
                return value;
            }
            thread::yield_now();
        }
    }

    #[test]
    fn a_panic_is_told_and_its_thread_works_on() {
        let threads = Threads::new("test", 1);
        let error = wait(threads.run(|| panic!("on purpose"))).unwrap_err();
        assert_eq!(error.to_string(), "a thread panicked");
        assert_eq!(wait(threads.run(|| 7)).unwrap(), 7);
    }

    #[test]
    fn work_waits_for_a_place_and_is_not_begun_when_nobody_waits_for_it() {
        let threads = Threads::new("test", 1);
        let (go, gone) = channel::<()>();
        let mut first = Box::pin(threads.run(move || gone.recv().is_err()));
        let mut abandoned = Box::pin(threads.run(|| panic!("nobody waits for it")));
        let mut last = Box::pin(threads.run(|| 7));
        let cx = &mut Context::from_waker(Waker::noop());
        assert!(first.as_mut().poll(cx).is_pending());
        assert!(abandoned.as_mut().poll(cx).map(|_: io::Result<()>| ()).is_pending());
        assert!(last.as_mut().poll(cx).is_pending());
        assert_eq!(threads.0.lock().waiting.len(), 2);
        drop(abandoned);
        drop(go);
        assert!(wait(first).unwrap());
        assert_eq!(wait(last).unwrap(), 7);
    }
}
