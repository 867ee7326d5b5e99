//! `tenured enqueue KIND`: adds a job.

use super::{begin, bounded, connect, print_json};
use crate::{
    cli::Enqueue,
    config::Databases,
    exit::{Failure, chain, usage},
};
use serde_json::json;
use tenure_jobs::{EnqueueError, NewJob, enqueue};

/// Adds the job, or finds the unfinished one with its unique key.
pub(crate) async fn add(databases: &Databases, wanted: Enqueue) -> Result<(), Failure> {
    let payload = serde_json::from_str(&wanted.payload)
        .map_err(|error| usage(format!("--payload is not JSON: {error}")))?;
    let job = NewJob {
        queue: wanted.queue,
        priority: wanted.priority,
        run_at: wanted.run_at,
        unique_key: wanted.unique_key,
        ordering_key: wanted.ordering_key,
        ..NewJob::new(wanted.kind, payload)
    };
    let mut connection = connect(databases.work.expose()).await?;
    let mut transaction = begin(&mut connection).await?;
    let enqueued = enqueue(&mut transaction, &job).await.map_err(|error| match error {
        EnqueueError::Invalid(_) => usage(chain(&error)),
        error => super::explained(&error),
    })?;
    bounded(transaction.commit()).await?;
    if wanted.output.json {
        return print_json(&json!({ "id": enqueued.id, "inserted": enqueued.inserted }));
    }
    if enqueued.inserted {
        say!("job {} added", enqueued.id);
    } else {
        say!("job {} has this unique key and is unfinished; nothing was added", enqueued.id);
    }
    Ok(())
}
