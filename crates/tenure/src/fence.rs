//! Fenced writes: a write of an older term can't commit after a newer term has begun.
//!
//! A lease alone can't stop a process that was frozen between its check and its write. The database can:
//! a fenced transaction locks the role's lease row `FOR SHARE` where the epoch is still its own. A new
//! leader raises the epoch in that row before its worker starts, and the update has to wait for every
//! such lock. So each fenced write either commits before the next term begins, or not at all, at every
//! isolation level.
//!
//! It needs no session: the work may go through a transaction pooler, as long as it reaches the same
//! database as the lease.
//!
//! *Not covered*: two primaries (a failover that left the old one running), contenders on different
//! databases, and work outside the database that ignores the epoch.

use crate::{Epoch, Role, Term, TermEnded};
use sqlx::{AssertSqlSafe, PgConnection, PgPool, Postgres, Transaction};
use std::{
    future::Future,
    ops::{Deref, DerefMut},
    time::Duration,
};
use thiserror::Error;

/// SQLSTATE that the SQL function `tenure.fence(role, epoch)` raises for an epoch that isn't current.
pub const FENCED_SQLSTATE: &str = "TN001";

/// Why a fenced write did not happen.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum FenceError {
    /// The term has ended, or another one has begun. Nothing was committed.
    #[error("fenced: {role} is no longer led with epoch {epoch}; nothing was written")]
    Fenced {
        /// The role.
        role: Role,
        /// The epoch of the write.
        epoch: Epoch,
    },
    /// The database failed, or didn't answer in time.
    #[error("{step} failed in a fenced transaction")]
    Database {
        /// What was tried.
        step: &'static str,
        /// Why it failed.
        #[source]
        source: sqlx::Error,
    },
    /// The commit was sent, and the connection failed before its answer came. It may have happened.
    #[error("the outcome of a fenced commit of {role} with epoch {epoch} is unknown")]
    CommitUnknown {
        /// The role.
        role: Role,
        /// The epoch of the write.
        epoch: Epoch,
        /// Why no answer came.
        #[source]
        source: sqlx::Error,
    },
}

impl FenceError {
    /// Whether this is [`FenceError::Fenced`].
    pub const fn is_fenced(&self) -> bool {
        matches!(self, FenceError::Fenced { .. })
    }
}

/// A transaction that commits only if no other term of the role has begun.
///
/// Dereferences to [`PgConnection`], so `&mut *tx` executes queries. Dropping it rolls back. It is ended
/// by the server when it stays idle for longer than [`Timing::fence_idle_limit`](crate::Timing::fence_idle_limit).
#[must_use = "a transaction that isn't committed is rolled back"]
#[derive(Debug)]
pub struct FencedTransaction {
    tx: Transaction<'static, Postgres>,
    term: Term,
}

impl Term {
    /// Begins a fenced transaction on `pool`, at the database's default isolation level.
    ///
    /// Cancel-safe: dropping the future rolls back.
    ///
    /// # Errors
    ///
    /// [`FenceError::Fenced`] as soon as the term ends, also while waiting for a connection of the pool;
    /// [`FenceError::Database`] when the database fails or takes longer than the statement timeout.
    pub async fn begin_fenced(&self, pool: &PgPool) -> Result<FencedTransaction, FenceError> {
        self.begin_fenced_with(pool, "BEGIN").await
    }

    /// [`Term::begin_fenced`] with a `BEGIN` statement of one's own, such as
    /// `BEGIN ISOLATION LEVEL REPEATABLE READ`.
    pub async fn begin_fenced_with(
        &self,
        pool: &PgPool,
        begin: &'static str,
    ) -> Result<FencedTransaction, FenceError> {
        if !self.is_active() {
            return Err(self.fenced());
        }
        // Boxed: the state of a pooled connection's begin is large, and callers hold this future.
        let fence = Box::pin(async {
            let mut tx = self.timed("BEGIN", pool.begin_with(begin)).await?;
            // Text and integers that need no quoting, in the simple protocol: one round trip, and nothing
            // prepared that a transaction pooler would lose.
            let sql = format!(
                "select set_config('idle_in_transaction_session_timeout', '{}', true) \
                 from tenure.lease where role = '{}' and epoch = {} for share",
                self.timing().fence_idle_limit().as_millis(),
                self.role().name(),
                self.epoch(),
            );
            let held = self
                .timed("locking the lease row", async {
                    sqlx::raw_sql(AssertSqlSafe(sql)).fetch_optional(&mut *tx).await
                })
                .await
                .map_err(|error| if is_superseded(&error) { self.fenced() } else { error })?;
            if held.is_none() {
                return Err(self.fenced());
            }
            Ok(tx)
        });
        let tx = self.run(fence).await.map_err(|TermEnded { .. }| self.fenced())??;
        Ok(FencedTransaction { tx, term: self.clone() })
    }

    /// Tells a fenced statement's failure apart: an error of `tenure.fence(role, epoch)` becomes
    /// [`FenceError::Fenced`].
    ///
    /// For a single statement, the fence folds into it and costs nearly nothing. The CTE has to feed the
    /// write, else `PostgreSQL` never evaluates it:
    ///
    /// ```sql
    /// with fence as materialized (select tenure.fence($1, $2))
    /// insert into invoice (customer) select $3 from fence
    /// ```
    ///
    /// Bind [`Role::name`] and [`Epoch`]'s number to `$1` and `$2`.
    pub fn fence_error(&self, error: sqlx::Error) -> FenceError {
        match error.as_database_error().and_then(sqlx::error::DatabaseError::code) {
            Some(code) if code == FENCED_SQLSTATE => self.fenced(),
            _ => FenceError::Database { step: "a fenced statement", source: error },
        }
    }

    fn fenced(&self) -> FenceError {
        FenceError::Fenced { role: self.role(), epoch: self.epoch() }
    }

    async fn timed<T>(
        &self,
        step: &'static str,
        work: impl Future<Output = Result<T, sqlx::Error>>,
    ) -> Result<T, FenceError> {
        match tokio::time::timeout(self.timing().statement_timeout(), work).await {
            Ok(result) => result.map_err(database(step)),
            Err(_elapsed) => Err(database(step)(timed_out(step, self.timing().statement_timeout()))),
        }
    }
}

impl FencedTransaction {
    /// Commits, if the term is still active.
    ///
    /// Not cancel-safe: when the future is dropped, the commit may or may not have happened.
    ///
    /// # Errors
    ///
    /// [`FenceError::Fenced`] when the term has ended: nothing was committed.
    /// [`FenceError::CommitUnknown`] when the answer to a sent commit was lost.
    pub async fn commit(self) -> Result<(), FenceError> {
        let Self { tx, term } = self;
        if !term.is_active() {
            return Err(term.fenced());
        }
        match term.timed("COMMIT", tx.commit()).await {
            Err(FenceError::Database { source, .. }) if source.as_database_error().is_none() => {
                Err(FenceError::CommitUnknown { role: term.role(), epoch: term.epoch(), source })
            }
            // The server ended the transaction (57P01, 25P03): it did not commit.
            Err(FenceError::Database { .. }) if !term.is_active() => Err(term.fenced()),
            result => result,
        }
    }

    /// Rolls back now instead of when the connection is used next.
    pub async fn rollback(self) -> Result<(), FenceError> {
        let Self { tx, term } = self;
        term.timed("ROLLBACK", tx.rollback()).await
    }

    /// The term that this transaction belongs to.
    pub fn term(&self) -> &Term {
        &self.term
    }
}

impl Deref for FencedTransaction {
    type Target = PgConnection;
    fn deref(&self) -> &PgConnection {
        &self.tx
    }
}

impl DerefMut for FencedTransaction {
    fn deref_mut(&mut self) -> &mut PgConnection {
        &mut self.tx
    }
}

fn database(step: &'static str) -> impl Fn(sqlx::Error) -> FenceError {
    move |source| FenceError::Database { step, source }
}

fn timed_out(step: &str, limit: Duration) -> sqlx::Error {
    sqlx::Error::Io(std::io::Error::new(
        std::io::ErrorKind::TimedOut,
        format!("{step} took longer than {limit:?}"),
    ))
}

/// At REPEATABLE READ and above, a lease row that was updated meanwhile is a serialization failure.
fn is_superseded(error: &FenceError) -> bool {
    let FenceError::Database { source, .. } = error else { return false };
    source.as_database_error().and_then(sqlx::error::DatabaseError::code).is_some_and(|code| code == "40001")
}
