//! The reconciler: returns dead attempts to the queue and sweeps tables past their retention.
//!
//! It works in passes. A pass
//!
//! 1. returns jobs whose attempt died to the queue, or to the dead letters (the reasons are in
//!    `returns.rs`);
//! 2. sweeps tables past their retention, Tenure's own and those that are declared, in small batches that
//!    are committed one by one. Each is fenced, so that a former leader deletes nothing; each has a lock
//!    and a statement timeout, so that it doesn't get in the application's way; and the size of the next
//!    follows how the last one went, so that it gets ahead even where a batch meets its timeout;
//! 3. measures the debt that is left, and says so when there is debt and no progress.
//!
//! An idle pass reads a few index entries and writes nothing.
//!
//! Converging declared schedules, and throttling by replica lag and old snapshots, are future work.

mod batch;
pub mod batch_size;
pub mod config;
pub mod debt;
pub mod error;
pub mod identifier;
pub mod pass;
pub mod report;
mod returns;
mod sweep;
pub mod target;
pub mod telemetry;

pub use config::{ConfigError, OwnRetention, ReconcilerConfig, SweepConfig};
pub use error::PassError;
pub use report::{Outcome, PassReport, SweepReport};

use pass::Memory;
use sqlx::PgPool;
use tenure::{Role, Singleton, Term, WorkerError, async_trait};
use tenure_jobs::Patience;
use thiserror::Error;

/// The reconciler.
#[derive(Debug, Clone)]
pub struct Reconciler {
    /// Where the jobs and the swept tables are. May go through a transaction pooler.
    pub pool: PgPool,
    /// The section `[reconciler]`.
    pub config: ReconcilerConfig,
}

/// The configuration can't be used. `tenured check-config` says so before anything runs.
#[derive(Debug, Error)]
#[error("the configuration of the reconciler can't be used: {}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
pub struct InvalidConfig(pub Vec<ConfigError>);

#[async_trait]
impl Singleton for Reconciler {
    const ROLE: Role = Role::new("reconciler", 1_840_000_003);

    async fn run(&self, term: Term) -> Result<(), WorkerError> {
        let targets = self.config.targets().map_err(InvalidConfig)?;
        let mut patience = Patience::default();
        let mut memory = Memory::default();
        loop {
            let wait =
                match pass::run_pass(&term, &self.pool, &targets, self.config.pass_time, &mut memory).await {
                    Ok(_report) => {
                        patience.renew();
                        self.config.interval
                    }
                    Err(error) if error.is_fenced() => return Err(error.into()),
                    Err(error) => {
                        let Some(wait) = patience.wait() else { return Err(error.into()) };
                        telemetry::retrying(&term, &error, wait);
                        wait
                    }
                };
            if !term.sleep(wait).await.is_leading() {
                return Ok(());
            }
        }
    }
}
