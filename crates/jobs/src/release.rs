//! Returning the jobs of dead attempts.

use crate::{JobState, JobsError, limit::limited, list::state_of, pool::query};
use sqlx::{PgConnection, Row as _, postgres::PgRow};

/// A job whose attempt had died.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReleasedJob {
    /// Its number.
    pub id: i64,
    /// What kind of work it is.
    pub kind: String,
    /// Number of the attempt that died.
    pub attempt: i32,
    /// [`JobState::Available`] for another try, or [`JobState::Discarded`] when that was the last.
    pub state: JobState,
}

// It keeps its `run_at`, and so its place in the queue: it has waited for the deadline already.
const RELEASE: &str = "\
with dead as (
    select id from tenure.job
    where state = 'running' and attempt_deadline < statement_timestamp()
    order by attempt_deadline limit $1
    for update skip locked
), released as (
    update tenure.job j
    set state = case when attempt >= max_attempts then 'discarded' else 'available' end,
        finished_at = case when attempt >= max_attempts then clock_timestamp() end,
        attempt_deadline = null,
        last_error = 'the attempt died: nothing was heard of it before its deadline'
    from dead where j.id = dead.id
    returning j.id, j.kind, j.attempt, j.state, j.last_error
), closed as (
    update tenure.job_attempt a set ended_at = clock_timestamp(), outcome = 'died', error = r.last_error
    from released r where a.job_id = r.id and a.attempt = r.attempt
)
select id, kind, attempt, state from released order by id";

/// Ends up to `limit` attempts whose deadline is over. Their jobs go back to the queue, or to the dead
/// letters when the attempt was the last: a job that kills its process doesn't do so for ever.
///
/// An attempt that is just being ended has its row locked and is passed over. Call it in a fenced
/// transaction, of any role.
///
/// # Errors
///
/// [`JobsError::Database`], [`JobsError::TimedOut`].
pub async fn release_dead(conn: &mut PgConnection, limit: u32) -> Result<Vec<ReleasedJob>, JobsError> {
    let step = "releasing dead attempts";
    let rows = limited(step, query(RELEASE).bind(i64::from(limit)).fetch_all(conn)).await?;
    let released = |row: &PgRow| {
        Ok(ReleasedJob {
            id: row.try_get("id")?,
            kind: row.try_get("kind")?,
            attempt: row.try_get("attempt")?,
            state: state_of(row, "state")?,
        })
    };
    rows.iter().map(released).collect::<Result<_, _>>().map_err(|source| JobsError::Database { step, source })
}
