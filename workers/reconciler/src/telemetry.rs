//! Names of log events, fields and metrics. Dashboards and outside tests depend on them.
//!
//! | event | fields | when |
//! |---|---|---|
//! | `jobs.returned` | role, epoch, returned, discarded | jobs of dead attempts were returned |
//! | `sweep.finished` | role, epoch, sweep, table, outcome, deleted, batches, debt, reason | a sweep did something, or its debt changed |
//! | `sweep.stuck` | role, epoch, sweep, table, outcome, debt, reason | debt, and a whole pass without progress; at once and then every 20 passes |
//! | `reconciler.retrying` | role, epoch, reason, `wait_seconds` | a pass failed; tried again |
//!
//! Metrics: `tenure_sweep_deleted_total{sweep}`, `tenure_sweep_debt_rows{sweep}`,
//! `tenure_sweep_stuck{sweep}` 0/1, `tenure_jobs_returned_total{state}`.

use crate::report::SweepReport;
use std::{error::Error, time::Duration};
use tenure::Term;
use tenure_jobs::ReleasedJob;

/// Rows that were deleted, by sweep.
pub const DELETED: &str = "tenure_sweep_deleted_total";
/// Rows past their retention that are left, by sweep.
pub const DEBT: &str = "tenure_sweep_debt_rows";
/// Whether the last pass had debt and made no progress, by sweep.
pub const STUCK: &str = "tenure_sweep_stuck";
/// Jobs of dead attempts, by the state they got.
pub const RETURNED: &str = "tenure_jobs_returned_total";

pub(crate) fn returned(term: &Term, jobs: &[ReleasedJob]) {
    if jobs.is_empty() {
        return;
    }
    for job in jobs {
        metrics::counter!(RETURNED, "state" => job.state.as_str()).increment(1);
    }
    let discarded = jobs.iter().filter(|job| job.state.is_finished()).count();
    tracing::warn!(
        event = "jobs.returned",
        role = term.role().name(),
        epoch = term.epoch().0,
        returned = jobs.len() - discarded,
        discarded,
    );
}

/// What every pass measures.
pub(crate) fn measured(sweep: &SweepReport) {
    if let Some(debt) = sweep.debt {
        // Exact: the count ends far below 2^52.
        metrics::gauge!(DEBT, "sweep" => sweep.name.clone()).set(u32::try_from(debt).unwrap_or(u32::MAX));
    }
    metrics::gauge!(STUCK, "sweep" => sweep.name.clone()).set(if sweep.is_stuck() { 1.0 } else { 0.0 });
}

/// A batch was committed.
pub(crate) fn deleted(sweep: &str, rows: u64) {
    metrics::counter!(DELETED, "sweep" => sweep.to_owned()).increment(rows);
}

pub(crate) fn stuck(term: &Term, sweep: &SweepReport) {
    let (role, epoch) = (term.role().name(), term.epoch().0);
    let outcome = sweep.outcome.as_str();
    let SweepReport { name, table, debt, reason, .. } = sweep;
    tracing::warn!(event = "sweep.stuck", role, epoch, sweep = name, table, outcome, debt, reason);
}

pub(crate) fn finished(term: &Term, sweep: &SweepReport) {
    let (role, epoch) = (term.role().name(), term.epoch().0);
    let outcome = sweep.outcome.as_str();
    let SweepReport { name, table, deleted, batches, debt, reason, .. } = sweep;
    tracing::info!(
        event = "sweep.finished",
        role,
        epoch,
        sweep = name,
        table,
        outcome,
        deleted,
        batches,
        debt,
        reason,
    );
}

pub(crate) fn retrying(term: &Term, error: &(dyn Error + 'static), wait: Duration) {
    let reason = std::iter::successors(Some(error), |error| (*error).source())
        .map(ToString::to_string)
        .collect::<Vec<_>>()
        .join(": ");
    tracing::warn!(
        event = "reconciler.retrying",
        role = term.role().name(),
        epoch = term.epoch().0,
        reason,
        wait_seconds = wait.as_secs_f64(),
    );
}
