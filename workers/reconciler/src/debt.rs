//! How many rows are past their retention.

use crate::{
    batch::{self, Batch},
    batch_size::Pace,
    error::PassError,
    target::Target,
};
use chrono::{DateTime, SecondsFormat, Utc};
use sqlx::{AssertSqlSafe, PgPool, Row as _};
use std::time::Duration;
use tenure_jobs::STATEMENT_LIMIT;

/// Debt is counted up to this many rows: whether it is a hundred thousand or more is all the same to
/// everybody who looks, and counting on would cost as much as a sweep.
pub const DEBT_LIMIT: u64 = 100_000;

/// What counting found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Debt {
    /// So many rows, up to [`DEBT_LIMIT`].
    Rows(u64),
    /// The server took too long or refused, and why.
    Unknown(String),
}

/// Counts the rows of `target` that are older than `cutoff`. Writes nothing. With an index on the column
/// it reads one entry when there are none.
pub(crate) async fn count_debt(
    pool: &PgPool,
    target: &Target,
    cutoff: DateTime<Utc>,
) -> Result<Debt, PassError> {
    let acquired = tokio::time::timeout(STATEMENT_LIMIT, pool.acquire()).await;
    let mut conn = acquired.unwrap_or(Err(sqlx::Error::PoolTimedOut)).map_err(PassError::Connect)?;
    // Several statements in one message of the simple protocol are one transaction, so the timeouts are
    // local to it, and it is one round trip, also through a transaction pooler.
    let Target { table, column, .. } = target;
    let sql = format!(
        "{} select count(*) from (select from {table} where {column} < '{}' limit {DEBT_LIMIT}) past",
        batch::set_timeouts(target),
        cutoff.to_rfc3339_opts(SecondsFormat::Micros, true),
    );
    let limit = target.statement_timeout + Duration::from_secs(3);
    let count = sqlx::raw_sql(AssertSqlSafe(sql)).fetch_all(&mut *conn);
    match tokio::time::timeout(limit, count).await {
        Ok(Ok(rows)) => {
            let count = rows.last().and_then(|row| row.try_get::<i64, _>(0).ok());
            Ok(Debt::Rows(count.and_then(|count| u64::try_from(count).ok()).unwrap_or(0)))
        }
        Ok(Err(error)) => Ok(Debt::Unknown(match batch::hindrance(error)? {
            Batch::Hindered(Pace::TooSlow) => format!(
                "counting took longer than {:?}; is there an index on {column}?",
                target.statement_timeout
            ),
            Batch::Refused(reason) => reason,
            _ => "the table is locked".to_owned(),
        })),
        Err(_elapsed) => {
            // It still waits for the answer, and whoever got it next would wait too.
            conn.close_on_drop();
            Err(PassError::Unanswered { step: "counting debt", limit })
        }
    }
}
