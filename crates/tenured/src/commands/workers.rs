//! `tenured workers`: what is compiled in, what is switched on, and what follows.

use super::print_json;
use crate::{
    cli::Output,
    exit::Failure,
    http::gate_json,
    run::{gates, unknown_toggles},
};
use serde_json::json;

/// Shows every worker. Needs no database and no configuration.
pub(crate) fn show(output: Output) -> Result<(), Failure> {
    let gates = gates()?;
    if output.json {
        let workers: Vec<_> = gates.iter().map(gate_json).collect();
        return print_json(&json!({ "workers": workers, "unknown_toggles": unknown_toggles() }));
    }
    for gate in &gates {
        say!(
            "{:<11} key {}  compiled {:<3}  {} {:<3}  {}",
            gate.role.name(),
            gate.role.key(),
            if gate.compiled { "yes" } else { "no" },
            gate.toggle,
            if gate.enabled { "on" } else { "off" },
            gate.explain()
        );
    }
    for variable in unknown_toggles() {
        say!("warning: {variable} is set, but this binary knows no such worker: misspelled?");
    }
    Ok(())
}
