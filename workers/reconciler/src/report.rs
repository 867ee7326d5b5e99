//! What a pass did, as values that tests assert on.

use chrono::{DateTime, Utc};
use tenure_jobs::ReleasedJob;

/// What a pass did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PassReport {
    /// When it began, by the database's clock.
    pub started_at: DateTime<Utc>,
    /// Jobs whose attempt had died.
    pub returned: Vec<ReleasedJob>,
    /// Every sweep, in the order in which they had their first turn.
    pub sweeps: Vec<SweepReport>,
}

/// What one sweep did in a pass.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SweepReport {
    /// Its name.
    pub name: String,
    /// The table, quoted as in SQL.
    pub table: String,
    /// Rows older than this were past their retention.
    pub cutoff: DateTime<Utc>,
    /// Rows that were deleted.
    pub deleted: u64,
    /// Batches that were committed.
    pub batches: u32,
    /// Size of the next batch, in rows.
    pub batch_size: u32,
    /// Rows past their retention that are left, counted up to [`DEBT_LIMIT`](crate::debt::DEBT_LIMIT).
    /// `None` when they couldn't be counted.
    pub debt: Option<u64>,
    /// How it ended.
    pub outcome: Outcome,
    /// Why it isn't done.
    pub reason: Option<String>,
    /// Whether a row of `tenure.sweep_run` was written.
    pub recorded: bool,
}

/// How a sweep ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// Nothing is left that isn't locked.
    Done,
    /// It ran out of time or rows.
    Budget,
    /// Others hold locks on the table.
    Locked,
    /// Even the smallest batch met the statement timeout.
    Slow,
    /// The database refused.
    Failed,
    /// A planned stop of the term.
    Stopped,
}

impl Outcome {
    /// The word in `tenure.sweep_run`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Outcome::Done => "done",
            Outcome::Budget => "budget",
            Outcome::Locked => "locked",
            Outcome::Slow => "slow",
            Outcome::Failed => "failed",
            Outcome::Stopped => "stopped",
        }
    }
}

impl PassReport {
    /// The report of the sweep `name`.
    pub fn sweep(&self, name: &str) -> Option<&SweepReport> {
        self.sweeps.iter().find(|sweep| sweep.name == name)
    }
}

impl SweepReport {
    /// Whether there is something to do, and nothing was done. If that goes on, somebody should look.
    pub fn is_stuck(&self) -> bool {
        self.deleted == 0 && self.debt != Some(0)
    }
}
