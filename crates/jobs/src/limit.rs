//! A time limit on every call: one stalled statement must not hang its caller for ever.

use crate::JobsError;
use sqlx::{AssertSqlSafe, PgConnection};
use std::{future::Future, time::Duration};

/// How long any one statement of the store may take, as seen by the client.
///
/// A statement that takes longer is abandoned, not cancelled: its connection still waits for the answer
/// and has to be closed. Workers set a shorter limit at the server ([`limit_transaction`]), which
/// ends the statement properly; this one is for a server that doesn't answer at all.
pub const STATEMENT_LIMIT: Duration = Duration::from_secs(15);

/// Runs one statement under [`STATEMENT_LIMIT`].
pub(crate) async fn limited<T>(
    step: &'static str,
    statement: impl Future<Output = Result<T, sqlx::Error>>,
) -> Result<T, JobsError> {
    match tokio::time::timeout(STATEMENT_LIMIT, statement).await {
        Ok(result) => result.map_err(|source| JobsError::Database { step, source }),
        Err(_elapsed) => Err(JobsError::TimedOut { step, limit: STATEMENT_LIMIT }),
    }
}

/// Lets the server end every later statement of this transaction that takes longer than `limit`, waiting
/// for locks included. The connection stays usable, after a rollback.
///
/// # Errors
///
/// [`JobsError::Database`], [`JobsError::TimedOut`].
pub async fn limit_transaction(conn: &mut PgConnection, limit: Duration) -> Result<(), JobsError> {
    // 0 would mean no limit.
    let millis = limit.as_millis().clamp(1, i32::MAX as u128);
    let set = format!("set local statement_timeout = {millis}");
    limited("limiting the time of a transaction's statements", async {
        sqlx::raw_sql(AssertSqlSafe(set)).execute(conn).await
    })
    .await
    .map(drop)
}
