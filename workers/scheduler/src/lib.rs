//! The scheduler: turns cron expressions into jobs, each tick once.
//!
//! Schedules are rows of `tenure.schedule`, declared by a configuration or made by hand. Whoever leads
//! fires all of them. A *tick* is an instant at which a schedule is due; it is settled by a row in the
//! ledger `tenure.tick` that says what became of it and why, committed together with its job in one
//! fenced transaction.
//!
//! * [`expression`]: the cron grammar. [`timetable`]: which instants an expression means in a time zone,
//!   by the rule in [`dst`].
//! * [`plan`]: which due ticks fire, and which are skipped. The policies are in [`misfire`].
//! * [`pass`]: doing it, once.
//!
//! The database's clock decides what is due; this process only sleeps until it is worth asking. The next
//! tick is computed from what is on record, so neither a deploy each day nor a long outage loses the
//! thread of a weekly schedule.

pub mod config;
pub mod declare;
pub mod dst;
pub mod expression;
pub mod ledger;
pub mod misfire;
pub mod pass;
pub mod plan;
pub mod policy;
pub mod telemetry;
pub mod timetable;

pub use config::{ConfigError, ScheduleConfig, SchedulerConfig};

use pass::{PassError, PassReport};
use sqlx::PgPool;
use std::collections::BTreeSet;
use tenure::{Role, Singleton, Term, WorkerError, async_trait};
use tenure_jobs::Patience;
use thiserror::Error;

/// The scheduler.
#[derive(Debug, Clone)]
pub struct Scheduler {
    /// Where the schedules and jobs are. May go through a transaction pooler.
    pub pool: PgPool,
    /// The section `[scheduler]`, validated.
    pub config: SchedulerConfig,
}

/// The configuration can't be used. `tenured check-config` says so before anything runs.
#[derive(Debug, Error)]
#[error("the configuration of the scheduler can't be used: {}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
pub struct InvalidConfig(pub Vec<ConfigError>);

#[async_trait]
impl Singleton for Scheduler {
    const ROLE: Role = Role::new("scheduler", 1_840_000_002);

    async fn run(&self, term: Term) -> Result<(), WorkerError> {
        let errors = self.config.validate();
        if !errors.is_empty() {
            return Err(InvalidConfig(errors).into());
        }
        let mut patience = Patience::default();
        let mut declared = false;
        let mut known_invalid = BTreeSet::new();
        loop {
            let wait = match self.step(&term, &mut declared).await {
                Ok(report) => {
                    patience.renew();
                    // Once a term for each, not once a pass.
                    for (schedule, reason) in &report.invalid {
                        if known_invalid.insert((schedule.clone(), reason.clone())) {
                            telemetry::invalid(&term, schedule, reason);
                        }
                    }
                    report.sleep(self.config.poll_interval)
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

impl Scheduler {
    async fn step(&self, term: &Term, declared: &mut bool) -> Result<PassReport, PassError> {
        if !*declared {
            declare::declare_schedules(term, &self.pool, &self.config).await?;
            *declared = true;
        }
        pass::run_pass(term, &self.pool).await
    }
}
