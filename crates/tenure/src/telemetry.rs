//! Names of log events, fields and metrics, each in one place. Dashboards and outside tests depend on them.

use crate::{
    EndReason, Role, Term,
    front_door::{Examination, Verdict},
    gate::{Gate, Outcome},
    lease::{LockHolder, WorkOutcome},
};
use std::time::Duration;

/// `worker.gate`: a worker's gates, decided at start.
pub(crate) fn gate(gate: &Gate) {
    let outcome = gate.outcome.as_str();
    let role = gate.role.name();
    let (compiled, enabled) = (gate.compiled, gate.enabled);
    if gate.outcome == Outcome::Missing {
        let advice = gate.explain();
        tracing::warn!(event = "worker.gate", role, compiled, enabled, outcome, advice);
    } else {
        tracing::info!(event = "worker.gate", role, compiled, enabled, outcome);
    }
    let flag = |on: bool| if on { "true" } else { "false" };
    metrics::gauge!(
        "tenure_worker_gate", "role" => role, "compiled" => flag(compiled), "enabled" => flag(enabled),
    )
    .set(1.0);
}

/// `frontdoor.accepted` or `frontdoor.refused`, after an examination whose verdict is news.
pub(crate) fn front_door(examination: &Examination) {
    let accepted = examination.accepted();
    metrics::gauge!("tenure_frontdoor_accepted").set(f64::from(u8::from(accepted)));
    let address = &examination.address;
    match &examination.verdict {
        Verdict::Accepted => {
            let evidence =
                examination.steps.iter().map(|s| format!("{}: {}", s.step, s.evidence)).collect::<Vec<_>>();
            let evidence = evidence.join("; ");
            tracing::info!(event = "frontdoor.accepted", step = "all", evidence, advice = "none", address);
        }
        Verdict::Refused { step, because, advice } => {
            let step = step.as_str();
            tracing::error!(event = "frontdoor.refused", step, evidence = because, advice, address);
        }
        Verdict::Unreachable { because, advice } => {
            tracing::error!(
                event = "frontdoor.refused",
                step = "connect",
                evidence = because,
                advice,
                address
            );
        }
    }
}

/// `lease.standby`: begins to stand by.
pub(crate) fn standby(role: Role) {
    tracing::info!(event = "lease.standby", role = role.name(), key = role.key());
    metrics::gauge!("tenure_leader", "role" => role.name()).set(0.0);
}

/// `lease.acquired`: holds the lease; the worker hasn't started yet.
pub(crate) fn acquired(term: &Term) {
    let (role, epoch) = (term.role(), term.epoch().0);
    tracing::info!(event = "lease.acquired", role = role.name(), key = role.key(), epoch);
    metrics::gauge!("tenure_leader", "role" => role.name()).set(1.0);
    #[expect(clippy::cast_precision_loss, reason = "gauges are floats; exact up to 2^53, see Epoch")]
    metrics::gauge!("tenure_term_epoch", "role" => role.name()).set(epoch as f64);
    metrics::counter!("tenure_lease_acquired_total", "role" => role.name()).increment(1);
}

/// `lease.draining`: a planned stop begins.
pub(crate) fn draining(term: &Term, reason: EndReason) {
    let epoch = term.epoch().0;
    tracing::info!(event = "lease.draining", role = term.role().name(), epoch, reason = reason.as_str());
}

/// `lease.released`: unlocked after the worker stopped.
pub(crate) fn released(term: &Term, reason: EndReason) {
    let epoch = term.epoch().0;
    tracing::info!(event = "lease.released", role = term.role().name(), epoch, reason = reason.as_str());
    metrics::gauge!("tenure_leader", "role" => term.role().name()).set(0.0);
}

/// `lease.lost`: the session can't be trusted any more.
pub(crate) fn lost(term: &Term, reason: EndReason, detail: &str) {
    let (role, epoch) = (term.role().name(), term.epoch().0);
    tracing::error!(event = "lease.lost", role, epoch, reason = reason.as_str(), detail);
    metrics::gauge!("tenure_leader", "role" => role).set(0.0);
    metrics::counter!("tenure_lease_lost_total", "role" => role, "reason" => reason.as_str()).increment(1);
}

/// `lease.session`: a session was lost while nothing was led.
pub(crate) fn session_lost(reason: EndReason, detail: &str) {
    tracing::warn!(event = "lease.session", reason = reason.as_str(), detail);
}

/// `lease.refused`: another key for the role, another role for the key, or a shared backend.
pub(crate) fn refused(role: Role, reason: &str) {
    tracing::error!(event = "lease.refused", role = role.name(), key = role.key(), reason);
}

/// `lease.blocked`: something that isn't Tenure holds the role's key, so nobody leads.
pub(crate) fn blocked(role: Role, stranger: &LockHolder) {
    let (role, key, pid) = (role.name(), role.key(), stranger.pid);
    let (reason, advice) = (stranger.to_string(), stranger.advice());
    tracing::error!(event = "lease.blocked", role, key, pid, reason, advice);
}

/// `lease.error`: trying failed; it says nothing about who leads.
pub(crate) fn acquire_failed(because: &str, advice: &str) {
    tracing::error!(event = "lease.error", reason = because, advice);
}

/// `worker.started`: the work begins to act.
pub(crate) fn worker_started(term: &Term) {
    let epoch = term.epoch().0;
    tracing::info!(event = "worker.started", role = term.role().name(), epoch, outcome = "running");
}

/// `worker.stopped`: nothing of the work is left.
pub(crate) fn worker_stopped(term: &Term, outcome: &WorkOutcome) {
    let (role, epoch, word) = (term.role().name(), term.epoch().0, outcome.as_str());
    match outcome {
        WorkOutcome::Returned | WorkOutcome::Dropped => {
            tracing::info!(event = "worker.stopped", role, epoch, outcome = word);
        }
        WorkOutcome::Failed(error) => {
            let error = error.to_string();
            tracing::error!(event = "worker.stopped", role, epoch, outcome = word, error);
        }
        WorkOutcome::Panicked(error) => {
            tracing::error!(event = "worker.stopped", role, epoch, outcome = word, error);
        }
    }
}

/// `watchdog.exit`: the last line of a process that wouldn't stop.
pub(crate) fn watchdog_exit(role: Role, epoch: crate::Epoch) {
    tracing::error!(event = "watchdog.exit", role = role.name(), epoch = epoch.0);
}

/// A proof succeeded.
pub(crate) fn heartbeat(took: Duration, trust_remaining: Option<Duration>) {
    metrics::histogram!("tenure_heartbeat_seconds").record(took.as_secs_f64());
    metrics::gauge!("tenure_trust_remaining_seconds").set(trust_remaining.unwrap_or_default().as_secs_f64());
}
