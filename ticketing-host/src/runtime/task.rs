//! A task that ends with its handle.

use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use super::Runtime;

/// A task, until it is dropped: then its future is dropped too, there and then.
pub(crate) struct Task(Arc<Slot>);

#[derive(Default)]
struct Slot(Mutex<State>);

#[derive(Default)]
struct State {
    future: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
    waker: Option<Waker>,
}

/// What the runtime has of it.
struct Running(Arc<Slot>);

impl Task {
    pub(crate) fn spawn<R: Runtime>(future: impl Future<Output = ()> + Send + 'static) -> Self {
        let state = State { future: Some(Box::pin(future)), waker: None };
        let slot = Arc::new(Slot(Mutex::new(state)));
        R::spawn(Running(Arc::clone(&slot)));
        Self(slot)
    }
}

impl Drop for Task {
    fn drop(&mut self) {
        let State { future, waker } = std::mem::take(&mut *self.0.lock());
        drop(future);
        // So that the runtime forgets it.
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

impl Slot {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Future for Running {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let mut state = self.0.lock();
        let Some(future) = &mut state.future else { return Poll::Ready(()) };
        if future.as_mut().poll(cx).is_ready() {
            state.future = None;
            return Poll::Ready(());
        }
        if !state.waker.as_ref().is_some_and(|waker| waker.will_wake(cx.waker())) {
            state.waker = Some(cx.waker().clone());
        }
        Poll::Pending
    }
}

impl fmt::Debug for Task {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Task")
    }
}
