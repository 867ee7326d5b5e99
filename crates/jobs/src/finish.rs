//! Ending attempts.
//!
//! An end is recorded only for the attempt that is under way. An attempt that was taken for dead, and
//! finishes after all, gets [`JobsError::AttemptGone`] and changes nothing: otherwise a job could be both
//! failed and completed.

use crate::{JobState, JobsError, limit::limited, list::state_of, pool::query, storable};
use sqlx::{PgConnection, Row as _};
use std::time::Duration;

/// What becomes of a job whose attempt failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AfterFailure {
    /// It is tried again this long from now, unless the attempt was the last.
    RetryAfter(Duration),
    /// It is discarded, however many attempts are left.
    Discard,
}

const HOLD: &str = "\
select id from tenure.job where id = $1 and attempt = $2 and state = 'running' for update";

/// Locks the job of an attempt that is under way until the transaction ends, so that the attempt can't be
/// taken for dead meanwhile. Call it before effects that are to be committed with the completion.
///
/// # Errors
///
/// [`JobsError::AttemptGone`], [`JobsError::NotFound`], [`JobsError::Database`], [`JobsError::TimedOut`].
pub async fn hold_attempt(conn: &mut PgConnection, job: i64, attempt: i32) -> Result<(), JobsError> {
    let hold = query(HOLD).bind(job).bind(attempt);
    match limited("locking a job", hold.fetch_optional(&mut *conn)).await? {
        Some(_held) => Ok(()),
        None => Err(explain_gone(conn, job, attempt).await),
    }
}

const COMPLETE: &str = "\
with completed as (
    update tenure.job
    set state = 'completed', finished_at = clock_timestamp(), attempt_deadline = null
    where id = $1 and attempt = $2 and state = 'running'
    returning id, attempt
), closed as (
    update tenure.job_attempt a set ended_at = clock_timestamp(), outcome = 'completed'
    from completed c where a.job_id = c.id and a.attempt = c.attempt
)
select id from completed";

/// Records that an attempt succeeded. The job is completed.
///
/// # Errors
///
/// [`JobsError::AttemptGone`], [`JobsError::NotFound`], [`JobsError::Database`], [`JobsError::TimedOut`].
pub async fn complete(conn: &mut PgConnection, job: i64, attempt: i32) -> Result<(), JobsError> {
    let complete = query(COMPLETE).bind(job).bind(attempt);
    match limited("completing a job", complete.fetch_optional(&mut *conn)).await? {
        Some(_completed) => Ok(()),
        None => Err(explain_gone(conn, job, attempt).await),
    }
}

// The next try is counted from the database's clock, like everything that decides what is due.
const FAIL: &str = "\
with failed as (
    update tenure.job
    set state = case when $4 or attempt >= max_attempts then 'discarded' else 'available' end,
        finished_at = case when $4 or attempt >= max_attempts then clock_timestamp() end,
        run_at = case when $4 or attempt >= max_attempts then run_at
                      else clock_timestamp() + make_interval(secs => $5) end,
        attempt_deadline = null, last_error = $3
    where id = $1 and attempt = $2 and state = 'running'
    returning id, attempt, state
), closed as (
    update tenure.job_attempt a
    set ended_at = clock_timestamp(), outcome = case when $4 then 'discarded' else 'failed' end, error = $3
    from failed f where a.job_id = f.id and a.attempt = f.attempt
)
select state from failed";

/// Records that an attempt failed, and why. Returns the job's new state: [`JobState::Available`] for
/// another try, or [`JobState::Discarded`].
///
/// The reason is made storable; see [`storable`].
///
/// # Errors
///
/// [`JobsError::AttemptGone`], [`JobsError::NotFound`], [`JobsError::Database`], [`JobsError::TimedOut`].
pub async fn fail(
    conn: &mut PgConnection,
    job: i64,
    attempt: i32,
    reason: &str,
    then: AfterFailure,
) -> Result<JobState, JobsError> {
    let step = "recording a failed attempt";
    let (discard, delay) = match then {
        AfterFailure::RetryAfter(delay) => (false, delay),
        AfterFailure::Discard => (true, Duration::ZERO),
    };
    let fail =
        query(FAIL).bind(job).bind(attempt).bind(storable(reason)).bind(discard).bind(delay.as_secs_f64());
    match limited(step, fail.fetch_optional(&mut *conn)).await? {
        Some(row) => state_of(&row, "state").map_err(|source| JobsError::Database { step, source }),
        None => Err(explain_gone(conn, job, attempt).await),
    }
}

async fn explain_gone(conn: &mut PgConnection, job: i64, attempt: i32) -> JobsError {
    let step = "reading why an attempt is not under way";
    let read = query("select state, attempt from tenure.job where id = $1").bind(job);
    match limited(step, read.fetch_optional(conn)).await {
        Ok(Some(row)) => match state_of(&row, "state") {
            Ok(state) => JobsError::AttemptGone { job, attempt, state, current: row.get("attempt") },
            Err(source) => JobsError::Database { step, source },
        },
        Ok(None) => JobsError::NotFound { job },
        Err(error) => error,
    }
}
