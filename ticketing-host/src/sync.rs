//! The locks and flags by which tasks hand over to each other: the standard library's, or loom's under `--cfg loom`,
//! which comes to them in every order that threads could. The modules named `models` are run so.

#[cfg(not(loom))]
pub(crate) use std::sync::{Mutex, MutexGuard, atomic::AtomicBool};

#[cfg(loom)]
pub(crate) use self::of_loom::Mutex;
#[cfg(loom)]
pub(crate) use loom::sync::{MutexGuard, atomic::AtomicBool};

#[cfg(loom)]
mod of_loom {
    use std::sync::LockResult;

    use loom::sync::MutexGuard;

    /// Loom's, which knows no poison: a panic ends the model.
    #[derive(Default, Debug)]
    pub(crate) struct Mutex<T>(loom::sync::Mutex<T>);

    impl<T> Mutex<T> {
        pub(crate) fn new(value: T) -> Self {
            Self(loom::sync::Mutex::new(value))
        }

        pub(crate) fn lock(&self) -> LockResult<MutexGuard<'_, T>> {
            self.0.lock()
        }

        pub(crate) fn is_poisoned(&self) -> bool {
            false
        }
    }
}
