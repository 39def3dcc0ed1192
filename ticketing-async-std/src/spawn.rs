//! The one thing that the executors do not have in common.

#[cfg(feature = "smol")]
pub(crate) fn spawn(task: impl Future<Output = ()> + Send + 'static) {
    smol::spawn(task).detach();
}

#[cfg(all(feature = "async-std", not(feature = "smol")))]
pub(crate) fn spawn(task: impl Future<Output = ()> + Send + 'static) {
    async_std::task::spawn(task);
}

#[cfg(not(any(feature = "async-std", feature = "smol")))]
compile_error!("one of the features `async-std` and `smol` says where tasks run");
