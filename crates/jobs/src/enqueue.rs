//! Adding jobs.

use crate::{InvalidJob, JobsError, NewJob, limit::limited, pool::query, wakeup};
use sqlx::{PgConnection, Row as _};
use thiserror::Error;

/// What became of an enqueued job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Enqueued {
    /// The job, or the unfinished job that has the same unique key.
    pub id: i64,
    /// Whether a job was added. False when the unique key was taken.
    pub inserted: bool,
}

/// Why a job was not enqueued.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum EnqueueError {
    /// The job can't be stored as it is.
    #[error(transparent)]
    Invalid(#[from] InvalidJob),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] JobsError),
    /// The jobs that hold the unique key kept finishing just before they could be read. Try again.
    #[error("the unique key changed hands {0} times while the job was enqueued")]
    Contended(usize),
}

/// How often a unique key may change hands during one call.
const TRIES: usize = 5;

// The text of the payload is cast here, so that sqlx needs to know nothing about the type.
const INSERT: &str = "\
insert into tenure.job (kind, queue, payload, priority, run_at, max_attempts, unique_key, ordering_key)
values ($1, $2, $3::text::jsonb, $4, coalesce($5, statement_timestamp()), $6, $7, $8)
on conflict (unique_key) where unique_key is not null and state in ('available', 'running') do nothing
returning id, case when $9 then pg_notify('tenure_jobs', '')::text end";

const FIND: &str = "\
select id from tenure.job where unique_key = $1 and state in ('available', 'running')";

/// Adds a job in the transaction of `conn`, fenced or not: it exists when that transaction commits.
///
/// When an unfinished job has the same unique key, nothing is added and that job's id is returned. If
/// another transaction has just added one and hasn't committed, this waits for it.
///
/// Cancel-safe in the sense of a transaction: roll back after dropping the future.
///
/// # Errors
///
/// [`EnqueueError::Invalid`] before the database is asked, so the transaction stays usable.
/// [`EnqueueError::Store`] when the database fails or doesn't answer in time.
pub async fn enqueue(conn: &mut PgConnection, job: &NewJob) -> Result<Enqueued, EnqueueError> {
    let payload = job.validate()?;
    let max_attempts =
        i32::try_from(job.max_attempts).map_err(|_| InvalidJob::MaxAttempts(job.max_attempts))?;
    for _ in 0..TRIES {
        let insert = query(INSERT)
            .bind(&job.kind)
            .bind(&job.queue)
            .bind(&payload)
            .bind(job.priority)
            .bind(job.run_at)
            .bind(max_attempts)
            .bind(&job.unique_key)
            .bind(&job.ordering_key)
            .bind(job.run_at.is_none() && wakeup::hint_is_due());
        let inserted = limited("adding a job", insert.fetch_optional(&mut *conn)).await?;
        if let Some(row) = inserted {
            return Ok(Enqueued { id: row.get(0), inserted: true });
        }
        let find = query(FIND).bind(&job.unique_key);
        let found = limited("reading the job with the same unique key", find.fetch_optional(&mut *conn));
        if let Some(row) = found.await? {
            return Ok(Enqueued { id: row.get(0), inserted: false });
        }
    }
    Err(EnqueueError::Contended(TRIES))
}
