//! One batch: a fenced transaction that deletes some of the oldest rows, and commits.
//!
//! Rows are taken in the order of their age, from where the last batch of the pass ended, so that a batch
//! doesn't wade through the entries that earlier ones left dead in the index. Rows that somebody has
//! locked are passed over and found by the next pass.

use crate::{batch_size::Pace, error::PassError, target::Target};
use chrono::{DateTime, Utc};
use sqlx::{AssertSqlSafe, PgPool, Row as _};
use std::time::Duration;
use tenure::{FencedTransaction, Term};
use tenure_jobs::query;

/// What a batch did.
#[derive(Debug)]
pub(crate) enum Batch {
    /// It was committed.
    Committed(Deleted),
    /// The server ended it. Nothing was deleted.
    Hindered(Pace),
    /// The server refused it. Nothing was deleted.
    Refused(String),
}

/// A committed batch.
#[derive(Debug)]
pub(crate) struct Deleted {
    /// Rows that were selected. Fewer than asked for means that nothing else is left.
    pub(crate) selected: u64,
    /// Rows that were deleted.
    pub(crate) rows: u64,
    /// Age column of the youngest of them: where the next batch begins.
    pub(crate) position: Option<DateTime<Utc>>,
    /// How long it took at the server.
    pub(crate) took: Duration,
    /// The database's time afterwards.
    pub(crate) now: DateTime<Utc>,
}

/// Beyond the statement timeout, how long a server may take to say so.
const ANSWER_SLACK: Duration = Duration::from_secs(3);

/// Deletes up to `limit` rows older than `cutoff` and not older than `position`, and commits.
pub(crate) async fn delete_batch(
    term: &Term,
    pool: &PgPool,
    target: &Target,
    cutoff: DateTime<Utc>,
    position: Option<DateTime<Utc>>,
    limit: u32,
) -> Result<Batch, PassError> {
    let mut tx = term.begin_fenced(pool).await?;
    let limit_time = target.statement_timeout + ANSWER_SLACK;
    let work = delete(&mut tx, target, cutoff, position, limit);
    let deleted = match tokio::time::timeout(limit_time, work).await {
        Ok(Ok(deleted)) => deleted,
        Ok(Err(error)) => {
            let batch = hindrance(error)?;
            // So that the connection is clean now, not when somebody needs it.
            tx.rollback().await?;
            return Ok(batch);
        }
        Err(_elapsed) => return Err(PassError::Unanswered { step: "deleting a batch", limit: limit_time }),
    };
    tx.commit().await?;
    Ok(Batch::Committed(deleted))
}

async fn delete(
    tx: &mut FencedTransaction,
    target: &Target,
    cutoff: DateTime<Utc>,
    position: Option<DateTime<Utc>>,
    limit: u32,
) -> Result<Deleted, sqlx::Error> {
    sqlx::raw_sql(AssertSqlSafe(set_timeouts(target))).execute(&mut **tx).await?;
    let row = query(AssertSqlSafe(delete_sql(target)))
        .bind(cutoff)
        .bind(position)
        .bind(i64::from(limit))
        .fetch_one(&mut **tx)
        .await?;
    let count = |name: &str| row.try_get::<i64, _>(name).map(|n| u64::try_from(n).unwrap_or(0));
    Ok(Deleted {
        selected: count("selected")?,
        rows: count("deleted")?,
        position: row.try_get("position")?,
        took: Duration::try_from_secs_f64(row.try_get("took")?).unwrap_or_default(),
        now: row.try_get("now")?,
    })
}

/// Local to the transaction: a transaction pooler gives its connection to somebody else afterwards.
pub(crate) fn set_timeouts(target: &Target) -> String {
    format!(
        "set local lock_timeout = {}; set local statement_timeout = {};",
        target.lock_timeout.as_millis().max(1),
        target.statement_timeout.as_millis().max(1)
    )
}

/// `ctid` alone names a row within one table; a partitioned table has many, hence `tableoid`.
fn delete_sql(target: &Target) -> String {
    let Target { table, column, .. } = target;
    format!(
        "with doomed as materialized (
            select t.tableoid as part, t.ctid as place from {table} t
            where t.{column} < $1 and t.{column} >= coalesce($2, '-infinity'::timestamptz)
            order by t.{column} limit $3
            for update skip locked
        ), gone as (
            delete from {table} t using doomed d where t.ctid = d.place and t.tableoid = d.part
            returning t.{column} as age
        )
        select (select count(*) from doomed) as selected, count(*) as deleted, max(age) as position,
               extract(epoch from clock_timestamp() - statement_timestamp())::float8 as took,
               clock_timestamp() as now
        from gone"
    )
}

/// What an error of the server means for the sweep. Any other error is the pass's.
pub(crate) fn hindrance(error: sqlx::Error) -> Result<Batch, PassError> {
    let Some(refusal) = error.as_database_error() else {
        return Err(PassError::Statement { step: "sweeping", source: error });
    };
    match refusal.code().as_deref() {
        // The statement timeout, or somebody who cancelled it: it was in the way either way.
        Some("57014") => Ok(Batch::Hindered(Pace::TooSlow)),
        // The lock timeout, or a deadlock that was resolved at our cost.
        Some("55P03" | "40P01") => Ok(Batch::Hindered(Pace::Locked)),
        // The server is ending the session or shutting down: that's not about this table.
        Some(code) if code.starts_with("57P") || code.starts_with("08") || code == "25P03" => {
            Err(PassError::Statement { step: "sweeping", source: error })
        }
        _ => Ok(Batch::Refused(refusal.to_string())),
    }
}
