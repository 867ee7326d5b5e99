//! Names of log events, fields and metrics. Dashboards and outside tests depend on them.
//!
//! | event | fields | when |
//! |---|---|---|
//! | `tick.recorded` | role, epoch, schedule, `due_at`, outcome, ticks, job, reason | a tick was committed |
//! | `schedule.declared` | role, epoch, schedule, outcome | the configuration created or changed a schedule |
//! | `schedule.conflict` | role, epoch, schedule, advice | a declared schedule was made by hand before |
//! | `schedule.invalid` | role, epoch, schedule, reason | a stored schedule can't be fired; once a term |
//! | `schedule.failed` | role, epoch, schedule, reason | its ticks couldn't be recorded; tried again |
//! | `scheduler.retrying` | role, epoch, reason, `wait_seconds` | a pass failed; tried again |
//!
//! Metric: `tenure_schedule_ticks_total{schedule,outcome}`, counted in ticks.

use crate::ledger::RecordedTick;
use std::{error::Error, time::Duration};
use tenure::Term;
use tenure_jobs::schedule::Declared;

/// Ticks by schedule and outcome.
pub const TICKS: &str = "tenure_schedule_ticks_total";

pub(crate) fn tick_recorded(term: &Term, tick: &RecordedTick) {
    let (role, epoch) = (term.role().name(), term.epoch().0);
    let outcome = tick.outcome.as_str();
    tracing::info!(
        event = "tick.recorded",
        role,
        epoch,
        schedule = tick.schedule,
        due_at = %tick.due_at.to_rfc3339(),
        outcome,
        ticks = tick.ticks,
        job = tick.job,
        reason = tick.reason,
    );
    metrics::counter!(TICKS, "schedule" => tick.schedule.clone(), "outcome" => outcome)
        .increment(u64::from(tick.ticks));
}

pub(crate) fn declared(term: &Term, schedule: &str, declared: Declared) {
    let (role, epoch) = (term.role().name(), term.epoch().0);
    let outcome = match declared {
        Declared::Created => "created",
        Declared::Changed => "changed",
        Declared::Unchanged => return,
        Declared::MadeByHand => {
            tracing::warn!(
                event = "schedule.conflict",
                role,
                epoch,
                schedule,
                advice = "a schedule of this name was made by hand and is left as it is; rename one of them",
            );
            return;
        }
    };
    tracing::info!(event = "schedule.declared", role, epoch, schedule, outcome);
}

pub(crate) fn invalid(term: &Term, schedule: &str, reason: &str) {
    let (role, epoch) = (term.role().name(), term.epoch().0);
    tracing::error!(event = "schedule.invalid", role, epoch, schedule, reason);
}

pub(crate) fn failed(term: &Term, schedule: &str, error: &(dyn Error + 'static)) {
    let (role, epoch) = (term.role().name(), term.epoch().0);
    tracing::error!(event = "schedule.failed", role, epoch, schedule, reason = chain(error));
}

pub(crate) fn retrying(term: &Term, error: &(dyn Error + 'static), wait: Duration) {
    let (role, epoch) = (term.role().name(), term.epoch().0);
    let wait_seconds = wait.as_secs_f64();
    tracing::warn!(event = "scheduler.retrying", role, epoch, reason = chain(error), wait_seconds);
}

/// The message and its sources, outermost first.
fn chain(error: &(dyn Error + 'static)) -> String {
    std::iter::successors(Some(error), |error| (*error).source())
        .map(ToString::to_string)
        .collect::<Vec<_>>()
        .join(": ")
}
