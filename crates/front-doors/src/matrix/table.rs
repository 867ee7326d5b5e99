//! The table of verdicts, as the documentation shows it.

use super::row::{Outcome, Row};
use std::fmt::Write as _;
use tenure::{FrontDoor, front_door::Step};

const HEAD: &str = "\
# Verdicts on front doors

Written by `just frontdoors`, which starts each front door on loopback, examines it, and looks into every
backend behind it afterwards. CI runs it again and compares the verdicts. *Declared* is
`lease.front_door = \"session-pooler\"`. Times are of one run on a small machine, debug build; the last step
in a refused row is the one that decided, `heartbeat` means that a leader noticed a change.

## The steps
";

/// Writes the page.
pub fn table(results: &[(Row, Outcome)]) -> String {
    let mut page = HEAD.to_owned();
    let _infallible = write_table(&mut page, results);
    page
}

fn write_table(page: &mut String, results: &[(Row, Outcome)]) -> std::fmt::Result {
    writeln!(page, "\n| step | proves that | misses | refuses wrongly | costs |\n|---|---|---|---|---|")?;
    for step in Step::ALL {
        let (proves, misses) = (step.proves(), step.misses());
        writeln!(page, "| {step} | {proves} | {misses} | {} | {} |", step.refuses_wrongly(), step.costs())?;
    }
    let agree = results.iter().filter(|(row, outcome)| row.expected == outcome.verdict).count();
    writeln!(page, "\n## The doors\n\n{agree} of {} rows agree.\n", results.len())?;
    writeln!(page, "| front door | variant | state | declared | expected | verdict | decided by | ms |")?;
    writeln!(page, "|---|---|---|---|---|---|---|---|")?;
    for (row, outcome) in results {
        writeln!(page, "{} {} | {} |", key(row, outcome), outcome.decided, outcome.took.as_millis())?;
    }
    Ok(())
}

/// The columns that are the same in each run.
fn key(row: &Row, outcome: &Outcome) -> String {
    let declared = if row.declared == FrontDoor::SessionPooler { "yes" } else { "" };
    format!(
        "| {} | {} | {} | {declared} | {} | {} |",
        row.name, row.variant, row.state, row.expected, outcome.verdict
    )
}

/// Rows of this run that the page doesn't have.
pub fn agrees(page: &str, results: &[(Row, Outcome)]) -> Result<(), Vec<String>> {
    let missing: Vec<String> = results
        .iter()
        .map(|(row, outcome)| key(row, outcome))
        .filter(|key| !page.lines().any(|line| line.starts_with(key)))
        .collect();
    let shown = page.lines().filter(|line| line.starts_with("| ")).count();
    if missing.is_empty() && shown == results.len() + Step::ALL.len() + 2 { Ok(()) } else { Err(missing) }
}
