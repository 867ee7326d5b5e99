//! Names of log events, fields and metrics. Dashboards and outside tests depend on them.

use crate::gate::{Gate, Outcome};

/// A worker's gates, decided at start.
pub(crate) fn gate(gate: &Gate) {
    let outcome = gate.outcome.as_str();
    let role = gate.role.name();
    if gate.outcome == Outcome::Missing {
        tracing::warn!(
            event = "worker.gate",
            role,
            compiled = gate.compiled,
            enabled = gate.enabled,
            outcome,
            advice = gate.explain(),
        );
    } else {
        tracing::info!(
            event = "worker.gate",
            role,
            compiled = gate.compiled,
            enabled = gate.enabled,
            outcome,
        );
    }
    let flag = |on: bool| if on { "true" } else { "false" };
    metrics::gauge!(
        "tenure_worker_gate",
        "role" => role, "compiled" => flag(gate.compiled), "enabled" => flag(gate.enabled),
    )
    .set(1.0);
}
