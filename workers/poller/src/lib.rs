//! The queue poller: runs due jobs.
//!
//! Its leader asks every [`poll_interval`](PollerConfig::poll_interval) whether a job is due, with one
//! cheap statement, claims what is due in batches, and hands each job to the route for its kind: an SQL
//! statement in the same fenced transaction as the job's completion (its effect is exactly-once), an HTTP
//! webhook, or a [`Handler`] in Rust. After work it asks again at once. A kind without a route waits,
//! visible, and is never in the way of others.
//!
//! * An attempt is counted when it is claimed, and lives as long as its process extends it, however long
//!   it takes. The jobs of dead attempts go back to the queue, or to the dead letters after the last one.
//!   The reconciler does that too; neither depends on the other.
//! * A failed attempt is tried again after an exponential backoff with jitter.
//! * A planned stop takes no new jobs and finishes those at hand. When the term ends, every attempt is
//!   dropped where it is: nothing of the poller's is ever detached.
//! * Every write is fenced. An effect outside the database can't be: it gets the epoch and an idempotency
//!   key to pass on.
//! * Trouble with the database is logged and waited out; only after many failures in a row does the term
//!   end, so that an instance with a better connection may try.

mod attempt;
mod backoff;
mod config;
mod fenced;
mod handler;
mod http_route;
mod pass;
mod retry_after;
mod route;
mod shift;
mod sql_route;
mod telemetry;
mod trouble;

pub use attempt::Outcome;
pub use config::{BackoffConfig, BadUrl, ConfigError, HttpUrl, PollerConfig, RouteConfig};
pub use handler::Handler;
pub use pass::PassReport;
pub use route::{Again, Failure};
pub use trouble::PollerError;

use route::Route;
use shift::Shift;
use sqlx::PgPool;
use std::{collections::BTreeMap, sync::Arc};
use tenure::{Role, Singleton, Term, WorkerError, async_trait};

/// Name and key: a deployment API, never changed.
pub const ROLE: Role = Role::new("poller", 1_840_000_001);

/// The queue poller.
pub struct Poller {
    pool: PgPool,
    config: PollerConfig,
    routes: BTreeMap<String, Route>,
}

impl Poller {
    /// A poller that works on `pool`, which may go through a transaction pooler: make it with
    /// [`tenure_jobs::work_pool`].
    ///
    /// # Errors
    ///
    /// [`ConfigError`] names the key that is wrong.
    pub fn new(pool: PgPool, config: PollerConfig) -> Result<Self, ConfigError> {
        config.validate()?;
        let routes = route::build(&config)?;
        Ok(Self { pool, config, routes })
    }

    /// Runs the jobs of `kind` with `handler`, instead of a route that the configuration may have for it.
    #[must_use]
    pub fn with_handler(mut self, kind: impl Into<String>, handler: impl Handler) -> Self {
        self.routes.insert(kind.into(), Route::Handler(Arc::new(handler)));
        self
    }

    /// The kinds that it runs, ascending.
    pub fn kinds(&self) -> impl Iterator<Item = &str> {
        self.routes.keys().map(String::as_str)
    }

    /// Polls once, runs what was claimed to its end, and reports.
    ///
    /// Dropping the future drops the attempts; they count as dead once their lease is over.
    ///
    /// # Errors
    ///
    /// [`PollerError`], with [`PollerError::is_fenced`] when the term is over.
    pub async fn pass(&self, term: &Term) -> Result<PassReport, PollerError> {
        let (poll, outcomes) = Box::pin(Shift::new(self, term.clone()).one_pass()).await?;
        Ok(PassReport::new(&poll, &outcomes))
    }
}

#[async_trait]
impl Singleton for Poller {
    const ROLE: Role = ROLE;

    async fn run(&self, term: Term) -> Result<(), WorkerError> {
        // Ends by itself when the term does, in the middle of whatever is going on.
        Ok(term.run(Box::pin(Shift::new(self, term.clone()).work_through())).await??)
    }
}
