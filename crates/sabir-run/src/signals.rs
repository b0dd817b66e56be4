//! Signals that ask this process to stop.

#[cfg(unix)]
use tokio::signal::unix::{Signal, SignalKind, signal};

/// Listener for SIGINT, SIGTERM and SIGHUP; on Windows, for Ctrl-C.
pub struct Signals {
    #[cfg(unix)]
    streams: [Signal; 3],
}

impl Signals {
    /// Starts listening; `None` if handlers cannot be installed.
    #[cfg(unix)]
    pub fn new() -> Option<Self> {
        let listen = |kind| signal(kind).ok();
        let streams = [listen(SignalKind::interrupt())?, listen(SignalKind::terminate())?, listen(SignalKind::hangup())?];
        Some(Self { streams })
    }

    /// Starts listening.
    #[cfg(not(unix))]
    pub fn new() -> Option<Self> {
        Some(Self {})
    }

    /// Waits for the next signal. Cancel-safe.
    #[cfg(unix)]
    pub async fn next(&mut self) {
        let [interrupt, terminate, hangup] = &mut self.streams;
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
            _ = hangup.recv() => {}
        }
    }

    /// Waits for the next signal. Cancel-safe.
    #[cfg(not(unix))]
    pub async fn next(&mut self) {
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}
