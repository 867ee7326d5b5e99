//! Returning the jobs of dead attempts.
//!
//! An attempt is dead when its deadline is over, and only then. The poller moves the deadline of each
//! living attempt forward, so an attempt of the poller's current term that is under way is never taken.
//! Nor is one of a former term before its deadline, although its leader is gone: what it had begun
//! elsewhere, such as a webhook, may still be going on. When an attempt that was taken for dead ends after
//! all, the store refuses its end, because the attempt number isn't the current one any more.

use crate::error::PassError;
use sqlx::PgPool;
use tenure::Term;
use tenure_jobs::{ReleasedJob, STATEMENT_LIMIT, limit_transaction, release_dead};

/// Jobs that one transaction returns.
const BATCH: u32 = 200;
/// Batches of one pass. The rest waits for the next, so that sweeps get their turn.
const BATCHES: usize = 25;

/// Returns jobs whose attempt has died to the queue, or to the dead letters when it was the last.
pub(crate) async fn return_dead(term: &Term, pool: &PgPool) -> Result<Vec<ReleasedJob>, PassError> {
    let mut returned = Vec::new();
    for _ in 0..BATCHES {
        let mut tx = term.begin_fenced(pool).await?;
        limit_transaction(&mut tx, STATEMENT_LIMIT / 3).await?;
        let batch = release_dead(&mut tx, BATCH).await?;
        tx.commit().await?;
        let full = batch.len() >= BATCH as usize;
        returned.extend(batch);
        if !full || !term.wake().is_leading() {
            break;
        }
    }
    Ok(returned)
}
