//! What a person does to a job.

use crate::{JobState, JobsError, limit::limited, pool::query, read_job};
use sqlx::PgConnection;

// Attempt numbers are never used twice, so the job gets room for one more instead of starting over.
const RETRY: &str = "\
update tenure.job
set state = 'available', run_at = statement_timestamp(), finished_at = null,
    max_attempts = greatest(max_attempts, attempt + 1)
where id = $1 and state in ('available', 'discarded', 'cancelled')
returning id";

/// Makes a job due now: one that waits for a later try, a dead letter, or a cancelled one. It gets at
/// least one more attempt.
///
/// # Errors
///
/// [`JobsError::WrongState`] when it is running or completed; [`JobsError::UniqueKeyTaken`] when another
/// unfinished job has its unique key, which also aborts the transaction; [`JobsError::NotFound`],
/// [`JobsError::Database`], [`JobsError::TimedOut`].
pub async fn retry_job(conn: &mut PgConnection, job: i64) -> Result<(), JobsError> {
    let step = "retrying";
    let retried = limited(step, query(RETRY).bind(job).fetch_optional(&mut *conn)).await;
    match retried {
        Ok(Some(_)) => Ok(()),
        Ok(None) => Err(wrong_state(conn, step, job).await),
        Err(JobsError::Database { source, .. })
            if source.as_database_error().and_then(|e| e.constraint()) == Some("job_unique_key") =>
        {
            Err(JobsError::UniqueKeyTaken { job })
        }
        Err(error) => Err(error),
    }
}

const CANCEL: &str = "\
update tenure.job set state = 'cancelled', finished_at = clock_timestamp()
where id = $1 and state = 'available'
returning id";

/// Takes back a job that waits. A running attempt can't be taken back: its effects may have happened.
///
/// # Errors
///
/// [`JobsError::WrongState`] when it is running or finished; [`JobsError::NotFound`],
/// [`JobsError::Database`], [`JobsError::TimedOut`].
pub async fn cancel_job(conn: &mut PgConnection, job: i64) -> Result<(), JobsError> {
    let step = "cancelling";
    match limited(step, query(CANCEL).bind(job).fetch_optional(&mut *conn)).await? {
        Some(_) => Ok(()),
        None => Err(wrong_state(conn, step, job).await),
    }
}

async fn wrong_state(conn: &mut PgConnection, step: &'static str, job: i64) -> JobsError {
    match read_job(conn, job).await {
        Ok(found) => {
            let state: JobState = found.state;
            JobsError::WrongState { step, job, state }
        }
        Err(error) => error,
    }
}
