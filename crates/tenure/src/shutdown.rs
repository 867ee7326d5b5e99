//! Two-stage shutdown: the first signal drains, the second stops at once.

use crate::{Instance, StopMode, instance::EngineFailed};
use tokio::signal::unix::{Signal, SignalKind, signal};

/// SIGTERM and SIGINT, listened to from the moment that this is made.
///
/// Make it before anything that should be stopped in order: until then a signal ends the process.
#[derive(Debug)]
pub struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    /// Begins to listen.
    ///
    /// # Errors
    ///
    /// What the operating system says, when a handler can't be installed.
    pub fn listen() -> std::io::Result<Self> {
        Ok(Self { terminate: signal(SignalKind::terminate())?, interrupt: signal(SignalKind::interrupt())? })
    }

    /// Waits for the next of the two. Cancel-safe. Returns its name.
    pub async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.interrupt.recv() => "SIGINT",
        }
    }
}

impl Instance {
    /// Runs until SIGTERM or SIGINT, then drains; a second signal stops at once. Returns when every lease
    /// is handed over.
    ///
    /// # Errors
    ///
    /// [`EngineFailed`]: the process should end with an error, and be started again.
    pub async fn run_until_signal(mut self, signals: &mut Signals) -> Result<(), EngineFailed> {
        for mode in [StopMode::Drain, StopMode::AtOnce] {
            tokio::select! {
                ended = self.ended() => return ended,
                signal = signals.next() => {
                    tracing::info!(event = "process.stopping", signal, at_once = mode == StopMode::AtOnce);
                    self.stop(mode);
                }
            }
        }
        self.ended().await
    }
}
