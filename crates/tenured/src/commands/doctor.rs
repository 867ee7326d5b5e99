//! `tenured doctor`: examines the front door, and says what it saw.

use super::{bounded, connect, print_json};
use crate::{cli::Output, config::Databases, exit::Failure, registry::workers, same_database};
use serde_json::json;
use tenure::{
    front_door::{Examination, StepOutcome, Verdict, examine as examine_front_door},
    lease::{LockHolder, lock_holders},
};

/// Examines, prints, and ends with the verdict's exit code.
pub(crate) async fn examine(databases: &Databases, output: Output) -> Result<(), Failure> {
    let examination = examine_front_door(&databases.lease, &databases.timing).await;
    let keys: Vec<i64> = workers().iter().map(|worker| worker.role.key()).collect();
    // Behind a refused door another server may answer each time, so what it says of locks means little.
    let held = if examination.accepted() {
        let mut connection = connect(databases.lease_url.expose()).await?;
        bounded(lock_holders(&mut connection, &keys)).await?
    } else {
        Vec::new()
    };
    if output.json {
        let mut document =
            serde_json::to_value(&examination).map_err(|error| Failure::Other(error.to_string()))?;
        document["accepted"] = json!(examination.accepted());
        document["holders"] = json!(held);
        print_json(&document)?;
    } else {
        table(&examination);
        for worker in workers() {
            let role = worker.role;
            match held.iter().find(|holder| holder.key == role.key()) {
                Some(holder) => say!("{role} (key {}): held by {holder}", role.key()),
                None if examination.accepted() => say!("{role} (key {}): held by nobody", role.key()),
                None => {}
            }
        }
        for advice in held.iter().filter_map(LockHolder::advice) {
            say!("{advice}");
        }
    }
    match examination.verdict {
        Verdict::Accepted => same_database::check(databases).await,
        Verdict::Refused { .. } => Err(Failure::FrontDoor),
        Verdict::Unreachable { because, .. } => Err(Failure::Unreachable(because)),
    }
}

fn table(examination: &Examination) {
    say!("front door: {}\n", examination.address);
    for report in &examination.steps {
        let outcome = match report.outcome {
            StepOutcome::Passed => "passed",
            StepOutcome::Advisory => "advisory",
            StepOutcome::Refused => "REFUSED",
        };
        say!("{:<10} {outcome:<8} {}", report.step, report.evidence);
        say!("{:<10} {:<8} proves: {}", "", "", report.proves);
    }
    say!("");
    match &examination.verdict {
        Verdict::Accepted => say!("ACCEPTED: a lease may be held through this door."),
        Verdict::Refused { step, because, advice } => {
            say!("REFUSED by the step {step}: {because}.\nWhat to do: {advice}.");
        }
        Verdict::Unreachable { because, advice } => {
            say!("UNREACHABLE: {because}.\nWhat to do: {advice}.");
        }
    }
}
