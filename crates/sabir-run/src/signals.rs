//! Signals to this process that mean: stop what you run.

#[cfg(unix)]
use tokio::signal::unix::{Signal, SignalKind, signal};

/// Ctrl-C, and the polite signals of a system that shuts down.
pub struct Signals {
    #[cfg(unix)]
    streams: [Signal; 3],
}

impl Signals {
    /// Listens from now on; `None` where that can't be had.
    #[cfg(unix)]
    pub fn new() -> Option<Self> {
        let listen = |kind| signal(kind).ok();
        let streams = [listen(SignalKind::interrupt())?, listen(SignalKind::terminate())?, listen(SignalKind::hangup())?];
        Some(Self { streams })
    }

    /// Listens from now on.
    #[cfg(not(unix))]
    pub fn new() -> Option<Self> {
        Some(Self {})
    }

    /// Waits for the next one.
    #[cfg(unix)]
    pub async fn next(&mut self) {
        let [interrupt, terminate, hangup] = &mut self.streams;
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
            _ = hangup.recv() => {}
        }
    }

    /// Waits for the next one.
    #[cfg(not(unix))]
    pub async fn next(&mut self) {
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}
