//! The record of sweeps.

use crate::{JobsError, limit::limited, pool::query};
use chrono::{DateTime, Utc};
use serde::Serialize;
use sqlx::{PgConnection, Row as _};
use tenure::Epoch;

/// One sweep of one table in one pass, to be recorded.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SweepRun {
    /// Name of the sweep.
    pub sweep: String,
    /// The table.
    pub table_name: String,
    /// When the pass began, by the database's clock.
    pub started_at: DateTime<Utc>,
    /// Rows older than this were past their retention.
    pub cutoff: DateTime<Utc>,
    /// Rows that were deleted.
    pub deleted: u64,
    /// Batches that were committed.
    pub batches: u32,
    /// Size that the next batch would have had, in rows.
    pub batch_size: u32,
    /// Rows past their retention that are left, counted up to a limit. `None` when counting failed.
    pub debt: Option<u64>,
    /// `done`, `budget`, `locked`, `slow`, `failed` or `stopped`.
    pub outcome: String,
    /// Why it isn't done.
    pub reason: Option<String>,
}

const RECORD: &str = "\
insert into tenure.sweep_run (sweep, table_name, epoch, started_at, ended_at, cutoff, deleted, batches,
    batch_size, debt, outcome, reason)
values ($1, $2, $3, $4, clock_timestamp(), $5, $6, $7, $8, $9, $10, $11)";

/// Records a sweep.
///
/// # Errors
///
/// [`JobsError::Database`], [`JobsError::TimedOut`].
pub async fn record_sweep(conn: &mut PgConnection, epoch: Epoch, run: &SweepRun) -> Result<(), JobsError> {
    let record = query(RECORD)
        .bind(&run.sweep)
        .bind(&run.table_name)
        .bind(epoch.0)
        .bind(run.started_at)
        .bind(run.cutoff)
        .bind(i64::try_from(run.deleted).unwrap_or(i64::MAX))
        .bind(i32::try_from(run.batches).unwrap_or(i32::MAX))
        .bind(i32::try_from(run.batch_size).unwrap_or(i32::MAX))
        .bind(run.debt.map(|debt| i64::try_from(debt).unwrap_or(i64::MAX)))
        .bind(&run.outcome)
        .bind(&run.reason);
    limited("recording a sweep", record.execute(conn)).await.map(drop)
}

/// The database's time, and whether some attempt's deadline is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PassStart {
    /// When the pass begins.
    pub now: DateTime<Utc>,
    /// Whether there is an attempt to return to the queue.
    pub dead_attempts: bool,
}

const START: &str = "\
select clock_timestamp() as now, exists (
    select from tenure.job where state = 'running' and attempt_deadline < clock_timestamp()
) as dead_attempts";

/// What a pass of the reconciler begins with. One statement without parameters: it needs no transaction
/// around it, and reads one entry of an index.
///
/// # Errors
///
/// [`JobsError::Database`], [`JobsError::TimedOut`].
pub async fn begin_pass(conn: &mut PgConnection) -> Result<PassStart, JobsError> {
    let step = "beginning a pass";
    let row = limited(step, sqlx::raw_sql(START).fetch_one(conn)).await?;
    let decode = || Ok(PassStart { now: row.try_get("now")?, dead_attempts: row.try_get("dead_attempts")? });
    decode().map_err(|source| JobsError::Database { step, source })
}
