//! SQL statements, run in the transaction that completes their job.

use crate::{fenced, route::Failure, trouble::PollerError};
use sqlx::{AssertSqlSafe, PgPool};
use std::time::Duration;
use tenure::Term;
use tenure_jobs::{ClaimedJob, complete, hold_attempt, query};

/// How much longer than the server the client waits for the statement to end.
const GRACE: Duration = Duration::from_secs(5);

pub(crate) struct SqlRoute {
    pub(crate) statement: String,
    pub(crate) timeout: Duration,
}

impl SqlRoute {
    /// Runs the statement and completes the job, both or neither.
    ///
    /// `Ok(Err(_))` when the statement failed: nothing was written. Running it again after any error is
    /// safe, also when the outcome of the commit is unknown: a job that was completed isn't held again.
    pub(crate) async fn run(
        &self,
        term: &Term,
        pool: &PgPool,
        job: &ClaimedJob,
    ) -> Result<Result<(), Failure>, PollerError> {
        let mut tx = fenced::begin(term, pool, self.timeout).await?;
        // First of all: from here on the attempt can't be taken for dead, so the effect can't be written
        // for an attempt that another one has followed.
        hold_attempt(&mut tx, job.id, job.attempt).await?;
        // sqlx declares the types of both parameters, so the statement may leave out either.
        let statement =
            query(AssertSqlSafe(self.statement.clone())).bind(&job.payload).bind(job.id).execute(&mut *tx);
        match tokio::time::timeout(self.timeout + GRACE, statement).await {
            Ok(Ok(_done)) => {}
            Ok(Err(error)) => {
                let error = term.fence_error(error);
                if error.is_fenced() {
                    return Err(error.into());
                }
                return Ok(Err(Failure::retry(format!("the statement failed: {}", innermost(&error)))));
            }
            Err(_elapsed) => {
                return Ok(Err(Failure::retry(format!("the statement took longer than {:?}", self.timeout))));
            }
        }
        complete(&mut tx, job.id, job.attempt).await?;
        tx.commit().await?;
        Ok(Ok(()))
    }
}

/// What the server said, without our words around it.
fn innermost(error: &dyn std::error::Error) -> String {
    let mut error = error;
    while let Some(source) = error.source() {
        error = source;
    }
    error.to_string()
}
