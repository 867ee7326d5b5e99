//! The section `[reconciler]`.

use crate::{
    batch_size,
    identifier::{Identifier, TableName},
    target::Target,
};
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, fmt, time::Duration};
use thiserror::Error;

/// The section `[reconciler]`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ReconcilerConfig {
    /// The sleep between two passes.
    #[serde(with = "humantime_serde")]
    pub interval: Duration,
    /// How long a pass may go on. The rest is left for the next one, where another table begins.
    #[serde(with = "humantime_serde")]
    pub pass_time: Duration,
    /// How long Tenure keeps its own records.
    pub retention: OwnRetention,
    /// The tables of the application that are swept, by name of the sweep.
    pub sweeps: BTreeMap<String, SweepConfig>,
}

impl Default for ReconcilerConfig {
    fn default() -> Self {
        Self {
            interval: Duration::from_secs(30),
            pass_time: Duration::from_secs(60),
            retention: OwnRetention::default(),
            sweeps: BTreeMap::new(),
        }
    }
}

/// How long Tenure keeps its own records: `[reconciler.retention]`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct OwnRetention {
    /// Completed, discarded and cancelled jobs with their attempts, from when they finished.
    #[serde(with = "humantime_serde")]
    pub finished_jobs: Duration,
    /// The ledger of ticks.
    #[serde(with = "humantime_serde")]
    pub ticks: Duration,
    /// The record of sweeps.
    #[serde(with = "humantime_serde")]
    pub sweep_runs: Duration,
    /// The history of terms, from when they ended.
    #[serde(with = "humantime_serde")]
    pub terms: Duration,
}

/// Times before the year 1000 are nobody's audit log, and stay within every calendar.
const LONGEST_RETENTION: Duration = Duration::from_secs(1000 * 365 * 24 * 60 * 60);

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

impl Default for OwnRetention {
    fn default() -> Self {
        Self { finished_jobs: 7 * DAY, ticks: 30 * DAY, sweep_runs: 30 * DAY, terms: 90 * DAY }
    }
}

/// One declared sweep: `[reconciler.sweeps.NAME]`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SweepConfig {
    /// The table with its schema, as in SQL: `public.audit_log`, `"Odd Schema"."Table"`.
    pub table: String,
    /// A `timestamptz` column that says how old a row is. It needs an index. Rows where it is null stay.
    pub column: String,
    /// Rows older than this are deleted.
    #[serde(with = "humantime_serde")]
    pub retention: Duration,
    /// Rows in the first batch of a term; it adapts from there.
    #[serde(default = "defaults::batch_size")]
    pub batch_size: u32,
    /// How long the batches of one pass may take at the server, all together.
    #[serde(default = "defaults::max_time", with = "humantime_serde")]
    pub max_time: Duration,
    /// How many rows one pass may delete.
    #[serde(default = "defaults::max_rows")]
    pub max_rows: u64,
    /// How long a statement may wait for a lock.
    #[serde(default = "defaults::lock_timeout", with = "humantime_serde")]
    pub lock_timeout: Duration,
    /// How long a statement may take. Batches aim at a quarter of it.
    #[serde(default = "defaults::statement_timeout", with = "humantime_serde")]
    pub statement_timeout: Duration,
    /// The sleep after each batch.
    #[serde(default = "defaults::pause", with = "humantime_serde")]
    pub pause: Duration,
}

pub(crate) mod defaults {
    use super::Duration;

    pub(crate) const fn batch_size() -> u32 {
        500
    }
    pub(crate) const fn max_time() -> Duration {
        Duration::from_secs(20)
    }
    pub(crate) const fn max_rows() -> u64 {
        100_000
    }
    pub(crate) const fn lock_timeout() -> Duration {
        Duration::from_millis(100)
    }
    pub(crate) const fn statement_timeout() -> Duration {
        Duration::from_secs(2)
    }
    pub(crate) const fn pause() -> Duration {
        Duration::from_millis(50)
    }
}

/// What is wrong with a key of this section, and what to do.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{key}: {problem}")]
pub struct ConfigError {
    /// The key's full path, such as `reconciler.sweeps.audit.table`.
    pub key: String,
    /// What is wrong, and what to do.
    pub problem: String,
}

impl ReconcilerConfig {
    /// Everything that is wrong with this section. Empty when it can be used.
    pub fn validate(&self) -> Vec<ConfigError> {
        match self.targets() {
            Ok(_) => Vec::new(),
            Err(errors) => errors,
        }
    }

    /// The tables to sweep, Tenure's own first.
    ///
    /// # Errors
    ///
    /// Everything that is wrong with this section.
    pub fn targets(&self) -> Result<Vec<Target>, Vec<ConfigError>> {
        let mut errors = Vec::new();
        let mut refuse = |key: String, problem: &dyn fmt::Display| {
            errors.push(ConfigError { key, problem: problem.to_string() });
        };
        let at_least = Duration::from_millis(100);
        for (key, value) in [("interval", self.interval), ("pass_time", self.pass_time)] {
            if value < at_least {
                refuse(
                    format!("reconciler.{key}"),
                    &format!("{value:?} is too short; use at least {at_least:?}"),
                );
            }
        }
        let own = Target::own(&self.retention);
        for target in &own {
            if !(Duration::from_secs(60)..=LONGEST_RETENTION).contains(&target.retention) {
                refuse(
                    format!("reconciler.retention ({})", target.name),
                    &format!("{:?} is not from 60s to 1000 years", target.retention),
                );
            }
        }
        let mut targets = own;
        for (name, sweep) in &self.sweeps {
            targets.extend(sweep.target(name, &mut refuse));
        }
        if errors.is_empty() { Ok(targets) } else { Err(errors) }
    }
}

impl SweepConfig {
    fn target(&self, name: &str, refuse: &mut dyn FnMut(String, &dyn fmt::Display)) -> Option<Target> {
        let mut refuse = |field: &str, problem: &dyn fmt::Display| {
            let key = format!("reconciler.sweeps.{name}.{field}");
            refuse(key.trim_end_matches('.').to_owned(), problem);
        };
        if name.is_empty() || name.len() > 200 || name.contains('\0') || name.starts_with("tenure.") {
            refuse("", &"a sweep's name has 1 to 200 bytes and doesn't begin with \"tenure.\"; rename it");
        }
        let table = self.table.parse::<TableName>().map_err(|error| refuse("table", &error)).ok();
        if table.as_ref().is_some_and(|table| table.schema.as_str() == "tenure") {
            refuse("table", &"Tenure's own tables are swept by [reconciler.retention]; set the time there");
        }
        let column = self.column.parse::<Identifier>().map_err(|error| refuse("column", &error)).ok();
        for (field, value, least) in [
            ("retention", self.retention, Duration::from_secs(60)),
            ("lock_timeout", self.lock_timeout, Duration::from_millis(1)),
            ("statement_timeout", self.statement_timeout, Duration::from_millis(10)),
            ("max_time", self.max_time, Duration::from_millis(10)),
        ] {
            if value < least {
                refuse(field, &format!("{value:?} is too short; use at least {least:?}"));
            }
        }
        if self.retention > LONGEST_RETENTION {
            refuse("retention", &"a retention of more than 1000 years is none; remove the sweep");
        }
        if self.statement_timeout > Duration::from_secs(10) {
            refuse(
                "statement_timeout",
                &"the next leader has to wait for a batch that is under way; use at most 10s",
            );
        }
        if self.lock_timeout >= self.statement_timeout {
            refuse(
                "lock_timeout",
                &"it never ends a statement before statement_timeout does; make it shorter",
            );
        }
        if !(batch_size::SMALLEST..=batch_size::LARGEST).contains(&self.batch_size) {
            refuse("batch_size", &format!("{} is not from 1 to {}", self.batch_size, batch_size::LARGEST));
        }
        if self.max_rows == 0 {
            refuse(
                "max_rows",
                &"with 0 rows it would never delete anything; use at least 1, or remove the sweep",
            );
        }
        Some(Target {
            name: name.to_owned(),
            table: table?,
            column: column?,
            retention: self.retention,
            batch_size: self.batch_size,
            max_time: self.max_time,
            max_rows: self.max_rows,
            lock_timeout: self.lock_timeout,
            statement_timeout: self.statement_timeout,
            pause: self.pause,
        })
    }
}
