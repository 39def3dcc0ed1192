//! What a server does by itself: it ends leases and waits, and reserves tokens.

use std::future::poll_fn;
use std::io;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use tracing::error;

use super::Reserve;
use super::shared::Shared;
use crate::runtime::{Alarm, Runtime, Threads, sleep, yield_now};

/// Before tokens are asked for again where there were none.
const RESERVE_PAUSE: Duration = Duration::from_secs(1);

/// Ends leases and waits at their deadlines, for ever.
pub(super) async fn keep_time<R: Runtime>(shared: Arc<Shared>) {
    let mut alarm = Alarm::<R::Timer>::new();
    loop {
        let deadline = shared.handle_timeout();
        if deadline.is_some_and(|deadline| deadline <= shared.clock.now()) {
            // A million may be due at once: others have their turn in between.
            yield_now::<R>().await;
            continue;
        }
        // Which of the two it was does not matter: the clock decides.
        poll_fn(|cx| {
            let is_moved = shared.deadline_moved.poll(cx).is_ready();
            let is_due = deadline.is_some_and(|at| alarm.poll(cx, || shared.clock.now(), at).is_ready());
            if is_moved || is_due { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }
}

/// Reserves tokens whenever few are left, for ever. Without success the hub grants what it has, and then fails
/// closed (`FI-6`).
pub(super) async fn reserve_tokens<R: Runtime>(shared: Arc<Shared>, mut reserve: Reserve) {
    let threads = Threads::new("ticketing-reserve", 1);
    loop {
        let Some(left) = shared.low_tokens() else {
            shared.tokens_low.told().await;
            continue;
        };
        let asked = threads.run(move || {
            let result = reserve();
            (reserve, result)
        });
        let result = match asked.await {
            Ok((again, result)) => {
                reserve = again;
                result
            }
            Err(error) => {
                error!(%error, left, "tokens can't be reserved any more; grants end with those that are left");
                return;
            }
        };
        let error = match result {
            Ok(last) if shared.extend_tokens(last) => continue,
            Ok(_) => io::Error::other("the reserved tokens are not above the earlier ones"),
            Err(error) => error,
        };
        shared.log.not_reserved(&error, left);
        sleep::<R>(RESERVE_PAUSE).await;
    }
}
