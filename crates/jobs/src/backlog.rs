//! How much work waits.

use crate::{JobState, JobsError, limit::limited, pool::query};
use serde::Serialize;
use sqlx::{PgConnection, Row as _};

/// How many jobs of one queue are in one state.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct QueueBacklog {
    /// The queue.
    pub queue: String,
    /// The state.
    pub state: JobState,
    /// How many.
    pub jobs: i64,
}

/// How much work waits, at one moment.
#[derive(Debug, Clone, PartialEq, Serialize, Default)]
pub struct Backlog {
    /// Jobs by queue and state, both ascending. Nothing is listed for none. Finished jobs are counted
    /// for as long as they are kept.
    pub queues: Vec<QueueBacklog>,
    /// Available jobs that are due, with a route or without.
    pub due: i64,
    /// For how long the longest due job has been due, in seconds; `None` when none is.
    pub oldest_due_seconds: Option<f64>,
}

impl Backlog {
    /// How many jobs are in `state`, in all queues.
    pub fn total(&self, state: JobState) -> i64 {
        self.queues.iter().filter(|queue| queue.state == state).map(|queue| queue.jobs).sum()
    }
}

const COUNT: &str = "\
select queue, state, count(*) as jobs,
       count(*) filter (where state = 'available' and run_at <= statement_timestamp()) as due,
       extract(epoch from statement_timestamp()
           - min(run_at) filter (where state = 'available' and run_at <= statement_timestamp())
       )::float8 as oldest
from tenure.job group by queue, state order by queue, state";

/// Counts jobs by queue and state, and how long the longest due job has been due.
///
/// It reads the whole table: ask every few seconds, not in a loop. Cancel-safe.
///
/// # Errors
///
/// [`JobsError::Database`], [`JobsError::TimedOut`].
pub async fn count_backlog(conn: &mut PgConnection) -> Result<Backlog, JobsError> {
    let step = "counting jobs";
    let rows = limited(step, query(COUNT).fetch_all(conn)).await?;
    let mut backlog = Backlog::default();
    for row in rows {
        let state =
            crate::list::state_of(&row, "state").map_err(|source| JobsError::Database { step, source })?;
        backlog.queues.push(QueueBacklog { queue: row.get("queue"), state, jobs: row.get("jobs") });
        backlog.due += row.get::<i64, _>("due");
        if let Some(age) = row.get::<Option<f64>, _>("oldest") {
            backlog.oldest_due_seconds = Some(backlog.oldest_due_seconds.unwrap_or(0.0).max(age));
        }
    }
    Ok(backlog)
}
