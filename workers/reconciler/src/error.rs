//! Why a pass fails as a whole.

use std::time::Duration;
use tenure::FenceError;
use tenure_jobs::JobsError;
use thiserror::Error;

/// Why a pass failed. What concerns one table only is in that table's report instead.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum PassError {
    /// The term is over, or a fenced transaction failed.
    #[error(transparent)]
    Fence(#[from] FenceError),
    /// The job store failed.
    #[error(transparent)]
    Store(#[from] JobsError),
    /// No connection of the pool could be had.
    #[error("no connection to the database")]
    Connect(#[source] sqlx::Error),
    /// The connection failed while a table was swept.
    #[error("{step} failed")]
    Statement {
        /// What was tried.
        step: &'static str,
        /// Why it failed.
        #[source]
        source: sqlx::Error,
    },
    /// The server didn't even say that it took too long.
    #[error("{step}: no answer within {limit:?}")]
    Unanswered {
        /// What was tried.
        step: &'static str,
        /// The limit.
        limit: Duration,
    },
}

impl PassError {
    /// Whether another term has begun, or this one has ended: stop at once.
    pub const fn is_fenced(&self) -> bool {
        matches!(self, PassError::Fence(error) if error.is_fenced())
    }
}
