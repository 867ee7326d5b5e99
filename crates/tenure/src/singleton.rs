//! What a worker is: a role, and the work that its leader does.

use crate::{Role, Term};
use async_trait::async_trait;
use std::{error::Error, fmt};

/// Work that runs on exactly one instance at a time.
///
/// ```
/// use std::time::Duration;
/// use tenure::{Role, Singleton, Term, WorkerError, async_trait};
///
/// struct Billing { pool: sqlx::PgPool }
///
/// #[async_trait]
/// impl Singleton for Billing {
///     const ROLE: Role = Role::new("billing", 1_840_000_100);
///
///     async fn run(&self, term: Term) -> Result<(), WorkerError> {
///         while term.sleep(Duration::from_secs(5)).await.is_leading() {
///             let mut tx = term.begin_fenced(&self.pool).await?;
///             sqlx::query("insert into invoice default values").execute(&mut *tx).await?;
///             tx.commit().await?;
///         }
///         Ok(())
///     }
/// }
/// ```
#[async_trait]
pub trait Singleton: Send + Sync + 'static {
    /// Name and key. Never change the key of a deployed role.
    const ROLE: Role;

    /// Does the work of one term. Called once for each term, after its epoch is committed.
    ///
    /// Returning `Ok` resigns the term; an error or a panic ends it and the role is tried again after a
    /// backoff. When the term ends from outside, this future is dropped at its next await; a planned
    /// stop first lets [`Term::sleep`] return [`Wake::Draining`](crate::Wake::Draining) and waits up to
    /// the drain timeout. Code that blocks its thread can't be dropped: the watchdog ends the process.
    async fn run(&self, term: Term) -> Result<(), WorkerError>;
}

/// [`Singleton`] as a trait object, for lists of workers. Every `Singleton` is one.
///
/// Implement it directly only for workers whose roles are known at run time.
#[async_trait]
pub trait Worker: Send + Sync + 'static {
    /// Name and key.
    fn role(&self) -> Role;

    /// Does the work of one term. See [`Singleton::run`].
    async fn work(&self, term: Term) -> Result<(), WorkerError>;
}

#[async_trait]
impl<S: Singleton> Worker for S {
    fn role(&self) -> Role {
        S::ROLE
    }

    async fn work(&self, term: Term) -> Result<(), WorkerError> {
        self.run(term).await
    }
}

/// Why a worker failed. Any error converts into it with `?`.
///
/// It is logged once, when the term ends, and shown nowhere else. It holds what the worker put in, so a
/// worker keeps secrets out of its errors.
pub struct WorkerError(Box<dyn Error + Send + Sync>);

impl WorkerError {
    /// The error that the worker returned.
    pub fn inner(&self) -> &(dyn Error + Send + Sync + 'static) {
        &*self.0
    }
}

impl<E: Into<Box<dyn Error + Send + Sync>>> From<E> for WorkerError {
    fn from(error: E) -> Self {
        Self(error.into())
    }
}

impl fmt::Display for WorkerError {
    /// The message and its sources, outermost first.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)?;
        let mut source = self.0.source();
        while let Some(cause) = source {
            write!(f, ": {cause}")?;
            source = cause.source();
        }
        Ok(())
    }
}

impl fmt::Debug for WorkerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "WorkerError({self})")
    }
}
