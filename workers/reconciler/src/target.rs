//! What is swept: a table, its age column, and the limits.

use crate::{
    config::{OwnRetention, defaults},
    identifier::{Identifier, TableName},
};
use chrono::{DateTime, Utc};
use std::time::Duration;

/// A table that is swept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// Name of the sweep.
    pub name: String,
    /// The table.
    pub table: TableName,
    /// The `timestamptz` column that says how old a row is.
    pub column: Identifier,
    /// Rows older than this are deleted.
    pub retention: Duration,
    /// Rows in the first batch of a term.
    pub batch_size: u32,
    /// How long the batches of one pass may take at the server, all together.
    pub max_time: Duration,
    /// How many rows one pass may delete.
    pub max_rows: u64,
    /// How long a statement may wait for a lock.
    pub lock_timeout: Duration,
    /// How long a statement may take.
    pub statement_timeout: Duration,
    /// The sleep after each batch.
    pub pause: Duration,
}

impl Target {
    /// Rows older than this are past their retention at `now`.
    ///
    /// A retention that goes back beyond the calendar ends in the year 1, where nothing is older.
    pub fn cutoff(&self, now: DateTime<Utc>) -> DateTime<Utc> {
        const YEAR_ONE: i64 = -62_135_596_800;
        chrono::Duration::from_std(self.retention)
            .ok()
            .and_then(|age| now.checked_sub_signed(age))
            .max(DateTime::from_timestamp(YEAR_ONE, 0))
            .unwrap_or(now)
    }

    /// Tenure's own tables. Each time is null while the row is still needed: a job that isn't finished, a
    /// term that goes on. Attempts go with their job.
    pub fn own(retention: &OwnRetention) -> Vec<Target> {
        [
            ("job", "finished_at", retention.finished_jobs),
            ("tick", "recorded_at", retention.ticks),
            ("sweep_run", "ended_at", retention.sweep_runs),
            ("term", "ended_at", retention.terms),
        ]
        .into_iter()
        .filter_map(|(table, column, retention)| {
            let name = format!("tenure.{table}");
            Some(Target {
                table: name.parse().ok()?,
                name,
                column: column.parse().ok()?,
                retention,
                batch_size: defaults::batch_size(),
                max_time: defaults::max_time(),
                max_rows: defaults::max_rows(),
                lock_timeout: defaults::lock_timeout(),
                statement_timeout: defaults::statement_timeout(),
                pause: defaults::pause(),
            })
        })
        .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_retention_beyond_the_calendar_reaches_nothing() {
        let mut target = Target::own(&OwnRetention::default()).remove(0);
        let now = DateTime::UNIX_EPOCH;
        assert_eq!(target.cutoff(now), now - chrono::Duration::days(7));
        target.retention = Duration::MAX;
        assert_eq!(target.cutoff(now).to_rfc3339(), "0001-01-01T00:00:00+00:00");
    }

    #[test]
    fn all_four_of_tenures_own_tables_are_swept() {
        let names: Vec<_> = Target::own(&OwnRetention::default()).into_iter().map(|t| t.name).collect();
        assert_eq!(names, ["tenure.job", "tenure.tick", "tenure.sweep_run", "tenure.term"]);
    }
}
