//! Runs a worker for one term, and tells the engine when nothing of it is left.

use super::board::Board;
use crate::{Term, Worker, WorkerError, telemetry};
use futures_util::FutureExt as _;
use std::{any::Any, panic::AssertUnwindSafe, sync::Arc};
use tokio::sync::mpsc::UnboundedSender;

/// How a worker's run ended.
#[derive(Debug)]
pub(crate) enum WorkOutcome {
    /// It returned `Ok`.
    Returned,
    /// It returned an error.
    Failed(WorkerError),
    /// It panicked.
    Panicked(String),
    /// Its future was dropped because the term ended.
    Dropped,
}

impl WorkOutcome {
    /// The word in logs.
    pub(crate) fn as_str(&self) -> &'static str {
        match self {
            WorkOutcome::Returned => "returned",
            WorkOutcome::Failed(_) => "failed",
            WorkOutcome::Panicked(_) => "panicked",
            WorkOutcome::Dropped => "dropped",
        }
    }
}

/// A worker's future is gone: nothing of this term acts any more.
#[derive(Debug)]
pub(crate) struct Stopped {
    pub(crate) term: Term,
    pub(crate) outcome: WorkOutcome,
}

/// Runs `worker` until it returns or the term ends. Reports to `stopped` in every path, also when the
/// runtime that this was given to has shut down and never polls it.
pub(crate) fn run(
    worker: Arc<dyn Worker>,
    term: Term,
    board: Arc<Board>,
    stopped: UnboundedSender<Stopped>,
) -> impl Future<Output = ()> + Send {
    let report = Report { term: term.clone(), board, stopped, outcome: Some(WorkOutcome::Dropped) };
    async move {
        // Moved as a whole, so that it is dropped with this future, polled or not.
        let mut report = report;
        telemetry::worker_started(&term);
        let outcome = {
            let work = AssertUnwindSafe(async { worker.work(term.clone()).await }).catch_unwind();
            tokio::select! {
                biased;
                _ended = term.ended() => WorkOutcome::Dropped,
                result = work => match result {
                    Ok(Ok(())) => WorkOutcome::Returned,
                    Ok(Err(error)) => WorkOutcome::Failed(error),
                    Err(panic) => WorkOutcome::Panicked(message(panic.as_ref())),
                },
            }
        };
        report.outcome = Some(outcome);
    }
}

/// Reports when it is dropped, after the worker's future was.
struct Report {
    term: Term,
    board: Arc<Board>,
    stopped: UnboundedSender<Stopped>,
    outcome: Option<WorkOutcome>,
}

impl Drop for Report {
    fn drop(&mut self) {
        let outcome = match self.outcome.take() {
            Some(WorkOutcome::Dropped) if std::thread::panicking() => {
                WorkOutcome::Panicked("while it was dropped".to_owned())
            }
            outcome => outcome.unwrap_or(WorkOutcome::Dropped),
        };
        telemetry::worker_stopped(&self.term, &outcome);
        self.board.remove(&self.term);
        // The engine may be gone; then its board has ended the terms.
        let _engine_listens = self.stopped.send(Stopped { term: self.term.clone(), outcome });
    }
}

fn message(panic: &(dyn Any + Send)) -> String {
    panic
        .downcast_ref::<&str>()
        .map(|text| (*text).to_owned())
        .or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "a value that isn't text".to_owned())
}
