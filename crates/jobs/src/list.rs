//! Reading jobs.

use crate::{JobState, JobsError, limit::limited, pool::query};
use chrono::{DateTime, Utc};
use serde::Serialize;
use serde_json::Value;
use sqlx::{PgConnection, Row as _, postgres::PgRow};
use uuid::Uuid;

/// Which jobs to list. The default is the newest 100 of all.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobFilter {
    /// Only this state.
    pub state: Option<JobState>,
    /// Only this kind.
    pub kind: Option<String>,
    /// Only this queue.
    pub queue: Option<String>,
    /// Only jobs with a smaller id: the last one of the page before.
    pub before: Option<i64>,
    /// At most this many.
    pub limit: u32,
}

impl Default for JobFilter {
    fn default() -> Self {
        Self { state: None, kind: None, queue: None, before: None, limit: 100 }
    }
}

/// A job as it is stored.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct JobSummary {
    /// Its number.
    pub id: i64,
    /// What kind of work it is.
    pub kind: String,
    /// Its queue.
    pub queue: String,
    /// What it is about.
    pub payload: Value,
    /// The higher, the sooner.
    pub priority: i16,
    /// Not before this time.
    pub run_at: DateTime<Utc>,
    /// Where it is in its life.
    pub state: JobState,
    /// Number of the newest attempt; 0 before the first.
    pub attempt: i32,
    /// Discarded when the attempt with this number fails.
    pub max_attempts: i32,
    /// At most one unfinished job has it.
    pub unique_key: Option<String>,
    /// Jobs that share it run one at a time.
    pub ordering_key: Option<String>,
    /// Idempotency key for receivers.
    pub delivery_key: Uuid,
    /// Why the newest failed attempt failed.
    pub last_error: Option<String>,
    /// Epoch of the term that claimed it last.
    pub claimed_by: Option<i64>,
    /// While running: when the attempt counts as dead.
    pub attempt_deadline: Option<DateTime<Utc>>,
    /// When it was enqueued.
    pub created_at: DateTime<Utc>,
    /// When it ended.
    pub finished_at: Option<DateTime<Utc>>,
}

const LIST: &str = "\
select id, kind, queue, payload, priority, run_at, state, attempt, max_attempts, unique_key, ordering_key,
       delivery_key, last_error, claimed_by, attempt_deadline, created_at, finished_at
from tenure.job
where ($1::text is null or state = $1) and ($2::text is null or kind = $2)
  and ($3::text is null or queue = $3) and ($4::bigint is null or id < $4)
order by id desc limit $5";

/// Lists jobs, newest first. Cancel-safe.
///
/// # Errors
///
/// [`JobsError::Database`], [`JobsError::TimedOut`].
pub async fn list_jobs(conn: &mut PgConnection, filter: &JobFilter) -> Result<Vec<JobSummary>, JobsError> {
    let step = "listing jobs";
    let list = query(LIST)
        .bind(filter.state.map(JobState::as_str))
        .bind(&filter.kind)
        .bind(&filter.queue)
        .bind(filter.before)
        .bind(i64::from(filter.limit));
    let rows = limited(step, list.fetch_all(conn)).await?;
    rows.iter().map(summary).collect::<Result<_, _>>().map_err(|source| JobsError::Database { step, source })
}

/// Reads one job. Cancel-safe.
///
/// # Errors
///
/// [`JobsError::NotFound`], [`JobsError::Database`], [`JobsError::TimedOut`].
pub async fn read_job(conn: &mut PgConnection, job: i64) -> Result<JobSummary, JobsError> {
    let next = job.checked_add(1).ok_or(JobsError::NotFound { job })?;
    let one = JobFilter { before: Some(next), limit: 1, ..JobFilter::default() };
    let found = list_jobs(conn, &one).await?.into_iter().next();
    found.filter(|found| found.id == job).ok_or(JobsError::NotFound { job })
}

fn summary(row: &PgRow) -> Result<JobSummary, sqlx::Error> {
    Ok(JobSummary {
        id: row.try_get("id")?,
        kind: row.try_get("kind")?,
        queue: row.try_get("queue")?,
        payload: row.try_get("payload")?,
        priority: row.try_get("priority")?,
        run_at: row.try_get("run_at")?,
        state: state_of(row, "state")?,
        attempt: row.try_get("attempt")?,
        max_attempts: row.try_get("max_attempts")?,
        unique_key: row.try_get("unique_key")?,
        ordering_key: row.try_get("ordering_key")?,
        delivery_key: row.try_get("delivery_key")?,
        last_error: row.try_get("last_error")?,
        claimed_by: row.try_get("claimed_by")?,
        attempt_deadline: row.try_get("attempt_deadline")?,
        created_at: row.try_get("created_at")?,
        finished_at: row.try_get("finished_at")?,
    })
}

/// The state in a column. A word of a newer version's is an error of decoding.
pub(crate) fn state_of(row: &PgRow, column: &'static str) -> Result<JobState, sqlx::Error> {
    row.try_get::<&str, _>(column)?
        .parse()
        .map_err(|error| sqlx::Error::ColumnDecode { index: column.to_owned(), source: Box::new(error) })
}
