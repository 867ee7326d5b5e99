//! Names of log events, fields and metrics. Dashboards and outside tests depend on them.

use crate::{attempt::Outcome, trouble::PollerError};
use std::time::Duration;
use tenure::Term;
use tenure_jobs::{ClaimedJob, JobState, ReleasedJob};

const COMPLETED: &str = "tenure_jobs_completed_total";
const FAILED: &str = "tenure_jobs_failed_total";
const DISCARDED: &str = "tenure_jobs_discarded_total";
const DURATION: &str = "tenure_jobs_duration_seconds";

/// An attempt has ended. `took` is from the begin of its route to its recorded end.
pub(crate) fn attempt_ended(
    term: &Term,
    job: &ClaimedJob,
    outcome: Outcome,
    reason: Option<&str>,
    took: Duration,
) {
    let (role, epoch) = (term.role().name(), term.epoch().0);
    let ClaimedJob { id, kind, attempt, .. } = job;
    let seconds = took.as_secs_f64();
    let reason = reason.unwrap_or_default();
    match outcome {
        Outcome::Completed => {
            tracing::info!(event = "job.completed", role, epoch, job = id, kind, attempt, seconds);
            metrics::counter!(COMPLETED, "kind" => kind.clone()).increment(1);
        }
        Outcome::Failed => {
            tracing::warn!(event = "job.failed", role, epoch, job = id, kind, attempt, seconds, reason);
            metrics::counter!(FAILED, "kind" => kind.clone()).increment(1);
        }
        Outcome::Discarded => {
            tracing::error!(event = "job.discarded", role, epoch, job = id, kind, attempt, seconds, reason);
            metrics::counter!(DISCARDED, "kind" => kind.clone()).increment(1);
        }
        Outcome::Gone => {
            tracing::warn!(event = "job.attempt_gone", role, epoch, job = id, kind, attempt, seconds);
        }
        Outcome::Unrecorded => {
            tracing::error!(event = "job.unrecorded", role, epoch, job = id, kind, attempt, seconds, reason);
        }
    }
    if !matches!(outcome, Outcome::Gone | Outcome::Unrecorded) {
        metrics::histogram!(DURATION, "kind" => kind.clone()).record(seconds);
    }
}

/// An attempt had died, and its job was returned to the queue or discarded.
pub(crate) fn released(term: &Term, released: &ReleasedJob) {
    let (role, epoch) = (term.role().name(), term.epoch().0);
    let ReleasedJob { id, kind, attempt, state } = released;
    let reason = "the attempt died";
    if *state == JobState::Discarded {
        tracing::error!(event = "job.discarded", role, epoch, job = id, kind, attempt, reason);
        metrics::counter!(DISCARDED, "kind" => kind.clone()).increment(1);
    } else {
        tracing::warn!(event = "job.failed", role, epoch, job = id, kind, attempt, reason);
        metrics::counter!(FAILED, "kind" => kind.clone()).increment(1);
    }
}

/// The database failed, and the poller goes on.
pub(crate) fn database_trouble(term: &Term, step: &str, error: &PollerError) {
    let mut reason = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        reason = format!("{reason}: {cause}");
        source = cause.source();
    }
    tracing::warn!(
        event = "poller.database",
        role = term.role().name(),
        epoch = term.epoch().0,
        step,
        reason
    );
}
