//! The poller's fenced transactions.

use crate::trouble::PollerError;
use sqlx::PgPool;
use std::time::Duration;
use tenure::{FencedTransaction, Term};
use tenure_jobs::limit_transaction;

/// How long the server lets a statement of the poller's own take; shorter than the client's limit, so
/// that a slow statement ends properly and its connection stays usable.
pub(crate) const OWN_STATEMENTS: Duration = Duration::from_secs(10);

/// A fenced transaction whose statements the server ends after `limit`.
pub(crate) async fn begin(
    term: &Term,
    pool: &PgPool,
    limit: Duration,
) -> Result<FencedTransaction, PollerError> {
    let mut tx = term.begin_fenced(pool).await?;
    limit_transaction(&mut tx, limit).await?;
    Ok(tx)
}
