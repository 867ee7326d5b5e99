//! The ledger of ticks: a row for each, written together with its job.

use crate::{config::Overlap, pass::PassError};
use chrono::{DateTime, Utc};
use sqlx::PgConnection;
use tenure::Term;
use tenure_jobs::{
    enqueue,
    schedule::{self, NewTick, StoredSchedule, TickRecord},
};

/// A row of the ledger that was committed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordedTick {
    /// The schedule.
    pub schedule: String,
    /// When it was due: of a run of skipped ticks, the last.
    pub due_at: DateTime<Utc>,
    /// What became of it.
    pub outcome: Outcome,
    /// How many ticks the row stands for.
    pub ticks: u32,
    /// Its job.
    pub job: Option<i64>,
    /// Why there is no job.
    pub reason: Option<String>,
}

/// What became of a tick.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// Its job was added.
    Enqueued,
    /// No job, on purpose.
    Skipped,
    /// The job can't be stored.
    Failed,
}

impl Outcome {
    /// The word in the ledger and in metrics.
    pub const fn as_str(self) -> &'static str {
        match self {
            Outcome::Enqueued => "enqueued",
            Outcome::Skipped => "skipped",
            Outcome::Failed => "failed",
        }
    }
}

/// Writes the ledger of one schedule within one transaction.
pub(crate) struct Ledger<'a> {
    tx: &'a mut PgConnection,
    term: &'a Term,
    stored: &'a StoredSchedule,
    ticks: Vec<RecordedTick>,
}

impl<'a> Ledger<'a> {
    pub(crate) fn new(tx: &'a mut PgConnection, term: &'a Term, stored: &'a StoredSchedule) -> Self {
        Self { tx, term, stored, ticks: Vec::new() }
    }

    /// What was written. It counts once the transaction is committed.
    pub(crate) fn into_ticks(self) -> Vec<RecordedTick> {
        self.ticks
    }

    /// Records a run of ticks without jobs.
    pub(crate) async fn skip(
        &mut self,
        due_at: DateTime<Utc>,
        first: DateTime<Utc>,
        ticks: u32,
        reason: String,
    ) -> Result<TickRecord, PassError> {
        let tick = RecordedTick { ticks, ..self.tick(due_at, Outcome::Skipped, Some(reason)) };
        self.record(tick, first).await
    }

    /// Records one tick and enqueues its job, unless the tick is on record or an earlier job forbids it.
    pub(crate) async fn fire(
        &mut self,
        due_at: DateTime<Utc>,
        overlap: Overlap,
    ) -> Result<TickRecord, PassError> {
        let definition = &self.stored.definition;
        if overlap == Overlap::Skip
            && let Some(unfinished) = schedule::find_unfinished_job(self.tx, &definition.name).await?
        {
            return self
                .skip(due_at, due_at, 1, format!("job {unfinished} of an earlier tick is unfinished"))
                .await;
        }
        let job = match definition.job() {
            Ok(job) => job,
            // Trying again wouldn't help: the tick is settled, and the ledger says why there is no job.
            Err(invalid) => {
                let tick = self.tick(due_at, Outcome::Failed, Some(invalid.to_string()));
                return self.record(tick, due_at).await;
            }
        };
        // The ledger first: its key decides whether there is a job at all.
        let recorded = self.record(self.tick(due_at, Outcome::Enqueued, None), due_at).await?;
        if recorded == TickRecord::Written {
            let id = enqueue(self.tx, &job).await?.id;
            schedule::attach_job(self.tx, &definition.name, due_at, id).await?;
            if let Some(tick) = self.ticks.last_mut() {
                tick.job = Some(id);
            }
        }
        Ok(recorded)
    }

    fn tick(&self, due_at: DateTime<Utc>, outcome: Outcome, reason: Option<String>) -> RecordedTick {
        let schedule = self.stored.definition.name.clone();
        RecordedTick { schedule, due_at, outcome, ticks: 1, job: None, reason }
    }

    async fn record(
        &mut self,
        tick: RecordedTick,
        first_due_at: DateTime<Utc>,
    ) -> Result<TickRecord, PassError> {
        let row = NewTick {
            schedule: &tick.schedule,
            due_at: tick.due_at,
            first_due_at,
            ticks: tick.ticks,
            outcome: tick.outcome.as_str(),
            reason: tick.reason.as_deref(),
            epoch: self.term.epoch(),
        };
        let recorded = schedule::record_tick(self.tx, &row).await?;
        if recorded == TickRecord::Written {
            self.ticks.push(tick);
        }
        Ok(recorded)
    }
}
