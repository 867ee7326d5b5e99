//! One incarnation of a process that competes for roles.

use crate::{LeaseAddress, Timing, Worker, lease::Snapshot};
use thiserror::Error;
use uuid::Uuid;

/// Sets up an [`Instance`].
#[derive(Debug)]
pub struct InstanceBuilder(());

/// A running instance. Dropping it stops its work at once.
#[derive(Debug)]
pub struct Instance(());

/// Reads what an instance is doing; cheap to clone.
#[derive(Debug, Clone)]
pub struct InstanceWatch(());

/// The instance can't start.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum StartError {
    /// One process may compete for a role only once: its second lock would be granted by re-entrance.
    #[error("the workers {first} and {second} share a name or a key: give each its own")]
    Duplicate {
        /// One of them.
        first: crate::Role,
        /// The other.
        second: crate::Role,
    },
    /// A thread can't be made.
    #[error("starting the {thread} thread")]
    Thread {
        /// Which.
        thread: &'static str,
        /// Why.
        #[source]
        source: std::io::Error,
    },
}

/// How to stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StopMode {
    /// Workers finish what they are at, for at most the drain timeout; then the leases are handed over.
    Drain,
    /// Workers are dropped now; then the leases are handed over.
    AtOnce,
}

impl Instance {
    /// An instance that competes on `address`.
    pub fn builder(_address: LeaseAddress, _timing: Timing) -> InstanceBuilder {
        unimplemented!()
    }

    /// This incarnation: a fresh random UUID.
    pub fn id(&self) -> Uuid {
        unimplemented!()
    }

    /// A handle to read the instance's state with.
    pub fn watch(&self) -> InstanceWatch {
        unimplemented!()
    }

    /// Asks the instance to hand over one role, if it leads it.
    pub fn resign(&self, _role: crate::Role) {
        unimplemented!()
    }

    /// Stops, and waits until every worker has stopped and every lease is handed over. May be called again
    /// with [`StopMode::AtOnce`] from another task while draining.
    pub async fn stop(&self, _mode: StopMode) {
        unimplemented!()
    }

    /// Runs until SIGTERM or SIGINT, then drains; a second signal stops at once. Two-stage shutdown.
    pub async fn run_until_signal(self) {
        unimplemented!()
    }
}

impl InstanceBuilder {
    /// Adds a worker.
    #[must_use]
    pub fn worker(self, _worker: impl Worker) -> Self {
        unimplemented!()
    }

    /// Adds workers, such as those whose gates are open.
    #[must_use]
    pub fn workers(self, _workers: impl IntoIterator<Item = Box<dyn Worker>>) -> Self {
        unimplemented!()
    }

    /// Starts to compete. Called within a tokio runtime, on which the workers run.
    ///
    /// # Errors
    ///
    /// [`StartError`].
    pub fn start(self) -> Result<Instance, StartError> {
        unimplemented!()
    }
}

impl InstanceWatch {
    /// What the instance is doing now.
    pub fn snapshot(&self) -> Snapshot {
        unimplemented!()
    }
}
