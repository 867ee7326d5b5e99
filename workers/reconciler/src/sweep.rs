//! One sweep within a pass: what it may still do, and what it has done.

use crate::{
    batch::{self, Batch, Deleted},
    batch_size::{Pace, SMALLEST, next_batch_size},
    debt::Debt,
    error::PassError,
    report::{Outcome, SweepReport},
    target::Target,
    telemetry,
};
use chrono::{DateTime, Utc};
use sqlx::PgPool;
use std::time::Duration;
use tenure::Term;

/// So many batches in a row that meet the lock timeout, and the table is left for the next pass.
const LOCKED_LIMIT: u32 = 2;

/// A sweep with rows to delete.
#[derive(Debug)]
pub(crate) struct Sweep<'a> {
    target: &'a Target,
    cutoff: DateTime<Utc>,
    batch_size: u32,
    position: Option<DateTime<Utc>>,
    deleted: u64,
    batches: u32,
    spent: Duration,
    locked: u32,
    end: Option<(Outcome, Option<String>)>,
    /// The database's time after the newest batch.
    pub(crate) now: Option<DateTime<Utc>>,
}

impl<'a> Sweep<'a> {
    pub(crate) fn new(target: &'a Target, cutoff: DateTime<Utc>, batch_size: u32) -> Self {
        Self {
            target,
            cutoff,
            batch_size,
            position: None,
            deleted: 0,
            batches: 0,
            spent: Duration::ZERO,
            locked: 0,
            end: None,
            now: None,
        }
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.end.is_some()
    }

    /// Ends it, unless it has ended for a reason of its own.
    pub(crate) fn end(&mut self, outcome: Outcome, reason: Option<&str>) {
        self.end.get_or_insert_with(|| (outcome, reason.map(str::to_owned)));
    }

    /// Tries one batch.
    pub(crate) async fn turn(&mut self, term: &Term, pool: &PgPool) -> Result<(), PassError> {
        let left = self.target.max_rows.saturating_sub(self.deleted);
        let limit = self.batch_size.min(u32::try_from(left).unwrap_or(u32::MAX));
        match batch::delete_batch(term, pool, self.target, self.cutoff, self.position, limit).await? {
            Batch::Committed(deleted) => self.committed(&deleted, limit),
            Batch::Hindered(pace) => self.hindered(pace),
            Batch::Refused(reason) => self.end(Outcome::Failed, Some(&reason)),
        }
        Ok(())
    }

    fn committed(&mut self, batch: &Deleted, limit: u32) {
        self.deleted += batch.rows;
        self.batches += 1;
        self.spent += batch.took;
        self.locked = 0;
        self.position = batch.position.or(self.position);
        self.now = Some(batch.now);
        telemetry::deleted(&self.target.name, batch.rows);
        let full = batch.selected >= u64::from(limit);
        if full && limit == self.batch_size {
            self.adapt(Pace::Took(batch.took));
        }
        if batch.rows == 0 && batch.selected > 0 {
            // A trigger or a rule keeps them: the next batch would select the very same rows.
            self.end(Outcome::Failed, Some("rows were selected, but a trigger or a rule keeps them"));
        } else if !full {
            self.end(Outcome::Done, None);
        } else if self.deleted >= self.target.max_rows {
            self.end(Outcome::Budget, Some("the pass's rows are used up"));
        } else if self.spent >= self.target.max_time {
            self.end(Outcome::Budget, Some("the pass's time for this table is used up"));
        }
    }

    fn hindered(&mut self, pace: Pace) {
        let smallest = self.batch_size == SMALLEST;
        self.adapt(pace);
        match pace {
            Pace::Locked => {
                self.locked += 1;
                if self.locked >= LOCKED_LIMIT {
                    self.end(Outcome::Locked, Some("others hold locks on the table"));
                }
            }
            Pace::TooSlow => {
                self.spent += self.target.statement_timeout;
                if smallest {
                    self.end(Outcome::Slow, Some("deleting one row met the statement timeout"));
                } else if self.spent >= self.target.max_time {
                    self.end(Outcome::Budget, Some("the pass's time for this table is used up"));
                }
            }
            Pace::Took(_) => {}
        }
    }

    fn adapt(&mut self, pace: Pace) {
        self.batch_size = next_batch_size(self.batch_size, pace, self.target.statement_timeout);
    }

    /// Rows older than this are past their retention.
    pub(crate) fn cutoff(&self) -> DateTime<Utc> {
        self.cutoff
    }

    /// What it did, with the debt that is left.
    pub(crate) fn report(self, debt: Debt) -> SweepReport {
        let (outcome, reason) = self.end.unwrap_or((Outcome::Done, None));
        let (debt, uncounted) = match debt {
            Debt::Rows(rows) => (Some(rows), None),
            Debt::Unknown(why) => (None, Some(why)),
        };
        let reason = reason.or(uncounted);
        SweepReport {
            name: self.target.name.clone(),
            table: self.target.table.to_string(),
            cutoff: self.cutoff,
            deleted: self.deleted,
            batches: self.batches,
            batch_size: self.batch_size,
            debt,
            outcome,
            reason,
            recorded: false,
        }
    }
}
