//! Keeping attempts alive.

use crate::{JobsError, limit::limited, pool::query};
use sqlx::{PgConnection, Row as _};
use std::time::Duration;

/// An attempt at a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct AttemptId {
    /// The job.
    pub job: i64,
    /// The attempt's number.
    pub attempt: i32,
}

// A row that is locked belongs to an attempt that is just being ended: it needs no more time, and waiting
// for it would let the others die.
const EXTEND: &str = "\
with living as (
    select unnest($1::bigint[]) as id, unnest($2::integer[]) as attempt
), held as (
    select j.id from tenure.job j join living l on l.id = j.id and l.attempt = j.attempt
    where j.state = 'running'
    for update of j skip locked
), extended as (
    update tenure.job j set attempt_deadline = statement_timestamp() + make_interval(secs => $3)
    from held where j.id = held.id
)
select l.id, l.attempt from living l left join tenure.job j on j.id = l.id
where j.id is null or j.state <> 'running' or j.attempt <> l.attempt";

/// Moves the deadlines of living attempts to `lease` from now, and returns the attempts that aren't under
/// way any more. Those should stop.
///
/// # Errors
///
/// [`JobsError::Database`], [`JobsError::TimedOut`].
pub async fn extend(
    conn: &mut PgConnection,
    living: &[AttemptId],
    lease: Duration,
) -> Result<Vec<AttemptId>, JobsError> {
    let (jobs, attempts): (Vec<i64>, Vec<i32>) = living.iter().map(|id| (id.job, id.attempt)).unzip();
    let extend = query(EXTEND).bind(jobs).bind(attempts).bind(lease.as_secs_f64());
    let gone = limited("extending attempts", extend.fetch_all(conn)).await?;
    Ok(gone.iter().map(|row| AttemptId { job: row.get("id"), attempt: row.get("attempt") }).collect())
}
