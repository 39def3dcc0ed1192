//! What a server does by itself: it ends leases and waits, and reserves tokens.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use ticketing_host::server::Reserve;
use tokio::task::{spawn_blocking, yield_now};
use tokio::time::{sleep, timeout_at};
use tracing::error;

use super::shared::Shared;

/// Before tokens are asked for again where there were none.
const RESERVE_PAUSE: Duration = Duration::from_secs(1);

/// Ends leases and waits at their deadlines, for ever.
pub(super) async fn keep_time(shared: Arc<Shared>) {
    loop {
        match shared.handle_timeout() {
            // A million may be due at once: others have their turn in between.
            Some(deadline) if deadline <= shared.clock.now() => yield_now().await,
            Some(deadline) => {
                let at = shared.clock.at(deadline);
                // Which of the two it was does not matter: the clock decides.
                let _ = timeout_at(at, shared.deadline_moved.notified()).await;
            }
            None => shared.deadline_moved.notified().await,
        }
    }
}

/// Reserves tokens whenever few are left, for ever. Without success the hub grants what it has, and then fails
/// closed (`FI-6`).
pub(super) async fn reserve_tokens(shared: Arc<Shared>, mut reserve: Reserve) {
    loop {
        let Some(left) = shared.low_tokens() else {
            shared.tokens_low.notified().await;
            continue;
        };
        let asked = spawn_blocking(move || {
            let result = reserve();
            (reserve, result)
        });
        let result = match asked.await {
            Ok((again, result)) => {
                reserve = again;
                result
            }
            Err(panic) => {
                error!(error = %panic, left, "tokens can't be reserved any more; grants end with those that are left");
                return;
            }
        };
        let error = match result {
            Ok(last) if shared.extend_tokens(last) => continue,
            Ok(_) => io::Error::other("the reserved tokens are not above the earlier ones"),
            Err(error) => error,
        };
        shared.log.not_reserved(&error, left);
        sleep(RESERVE_PAUSE).await;
    }
}
