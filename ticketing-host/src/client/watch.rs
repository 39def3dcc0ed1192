//! Waiting for the client itself.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll};

use super::shared::{Handle, Shared, Wait};

/// The client was closed, or what it ran in is gone.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("the client is closed")]
pub struct ClientClosed;

/// Waits until some connection can carry requests.
///
/// # Errors
/// When the client was closed, or its driver is gone.
pub(super) async fn ready(handle: Arc<Handle>) -> Result<(), ClientClosed> {
    let is_ready = watch(handle, Wait::Ready, Shared::poll_ready).await;
    if is_ready { Ok(()) } else { Err(ClientClosed) }
}

/// Waits until the driver is gone, and its sockets with it.
pub(super) async fn ended(handle: Arc<Handle>) {
    watch(handle, Wait::End, Shared::poll_end).await;
}

/// Polls until it is ready; forgets the waker when it is dropped.
async fn watch<R>(
    handle: Arc<Handle>,
    wait: fn(u64) -> Wait,
    poll: fn(&Shared, &Context<'_>, u64) -> Poll<R>,
) -> R {
    struct Watch(Arc<Handle>, Wait);
    impl Drop for Watch {
        fn drop(&mut self) {
            self.0.leave(self.1);
        }
    }
    let number = handle.number();
    let watch = Watch(handle, wait(number));
    poll_fn(|cx| poll(&watch.0, cx, number)).await
}
