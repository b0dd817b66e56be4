//! Waiting for optional points in time.

use std::time::Instant;

use tokio::sync::watch;

/// Sleeps until `at`; forever if there is none.
pub(crate) async fn sleep_until(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at.into()).await,
        None => std::future::pending().await,
    }
}

/// Waits until the deadline that was last sent over `deadline` has passed.
pub(crate) async fn deadline_elapsed(mut deadline: watch::Receiver<Option<Instant>>) {
    loop {
        let until = *deadline.borrow_and_update();
        tokio::select! {
            () = sleep_until(until) => return,
            changed = deadline.changed() => if changed.is_err() {
                return sleep_until(until).await;
            },
        }
    }
}
