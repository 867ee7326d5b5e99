//! `tenured jobs`: lists, shows, retries, cancels.

use super::{begin, bounded, connect, print_json};
use crate::{
    cli::{JobsAction, Output},
    config::Databases,
    exit::{Failure, usage},
};
use serde_json::json;
use tenure_jobs::{JobFilter, JobSummary, cancel_job, list_jobs, read_job, retry_job};

/// Does what was asked; lists without an action.
pub(crate) async fn act(
    databases: &Databases,
    action: Option<JobsAction>,
    output: Output,
) -> Result<(), Failure> {
    let mut connection = connect(databases.work.expose()).await?;
    let mut transaction = begin(&mut connection).await?;
    let failed = |error: tenure_jobs::JobsError| super::explained(&error);
    let action = action.unwrap_or(JobsAction::List { state: None, kind: None, limit: 50 });
    match action {
        JobsAction::List { state, kind, limit } => {
            let state = state
                .map(|state| state.parse().map_err(|error| usage(format!("--state: {error}"))))
                .transpose()?;
            let filter = JobFilter { state, kind, limit, ..JobFilter::default() };
            let jobs = list_jobs(&mut transaction, &filter).await.map_err(failed)?;
            if output.json {
                return print_json(&json!({ "jobs": jobs }));
            }
            jobs.iter().for_each(line);
        }
        JobsAction::Show { id } => {
            let job = read_job(&mut transaction, id).await.map_err(failed)?;
            return print_json(&json!(job));
        }
        JobsAction::Retry { id } => {
            retry_job(&mut transaction, id).await.map_err(failed)?;
            bounded(transaction.commit()).await?;
            say!("job {id} is due again");
        }
        JobsAction::Cancel { id } => {
            cancel_job(&mut transaction, id).await.map_err(failed)?;
            bounded(transaction.commit()).await?;
            say!("job {id} is cancelled");
        }
    }
    Ok(())
}

fn line(job: &JobSummary) {
    say!(
        "{:>8}  {:<10} {:<24} attempt {}  {}",
        job.id,
        job.state.as_str(),
        job.kind,
        job.attempt,
        job.last_error.as_deref().unwrap_or_default()
    );
}
