//! A time limit on every call: one stalled statement must not hang its caller for ever.

use crate::JobsError;
use std::{future::Future, time::Duration};

/// How long any one statement of the store may take, as seen by the client.
///
/// A statement that takes longer is abandoned, not cancelled: its connection still waits for the answer
/// and has to be closed. Workers set a shorter limit at the server, which
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
