//! Locks of the hub are held for a moment only, and never over something that may fail half way: what a thread that
//! panicked left behind is sound.

use std::sync::{Mutex, MutexGuard, PoisonError};

pub(crate) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
