//! One pass: look at every schedule, and record what is due.
//!
//! A tick and its job are committed together, in a fenced transaction that has locked the schedule's row
//! and read the database's clock after that. Four things make a tick fire once, each enough for one kind
//! of trouble:
//!
//! * the row lock: two transactions of one term can't decide about the same ticks;
//! * `last_tick`, which only rises: the next leader goes on after what is on record;
//! * the primary key of the ledger: no tick has two rows, whatever anybody believed;
//! * the fence: a former leader commits nothing.

use crate::{
    ledger::{Ledger, RecordedTick},
    policy::Policy,
    telemetry,
};
use chrono::{DateTime, Utc};
use sqlx::PgPool;
use std::{collections::BTreeMap, time::Duration};
use tenure::{FenceError, Term};
use tenure_jobs::{
    EnqueueError, JobsError, STATEMENT_LIMIT, limit_transaction,
    schedule::{self, Snapshot, StoredSchedule, TickRecord},
};
use thiserror::Error;

/// What the server allows each statement of a tick's transaction.
const TICK_STATEMENT_LIMIT: Duration = Duration::from_secs(5);

/// What a pass did.
#[derive(Debug, Default)]
pub struct PassReport {
    /// The database's time when it was last read.
    pub now: Option<DateTime<Utc>>,
    /// What was committed, in order.
    pub ticks: Vec<RecordedTick>,
    /// Enabled schedules that can't be fired, and why.
    pub invalid: BTreeMap<String, String>,
    /// Schedules whose ticks the database refused. They are tried again.
    pub failed: Vec<(String, PassError)>,
    /// The next tick of any schedule. `None` when there is none to come.
    pub next: Option<DateTime<Utc>>,
}

/// Why a pass, or a part of it, failed.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum PassError {
    /// The term is over, or a fenced transaction failed.
    #[error(transparent)]
    Fence(#[from] FenceError),
    /// The job store failed.
    #[error(transparent)]
    Store(#[from] JobsError),
    /// A job could not be enqueued.
    #[error(transparent)]
    Enqueue(#[from] EnqueueError),
    /// No connection of the pool could be had.
    #[error("no connection to the database")]
    Connect(#[source] sqlx::Error),
}

impl PassError {
    /// Whether another term has begun, or this one has ended: stop at once.
    pub const fn is_fenced(&self) -> bool {
        matches!(self, PassError::Fence(error) if error.is_fenced())
    }

    /// Whether the database itself refused, so that it can be reached.
    fn is_refusal(&self) -> bool {
        match self {
            PassError::Fence(FenceError::Database { source, .. })
            | PassError::Store(JobsError::Database { source, .. })
            | PassError::Enqueue(EnqueueError::Store(JobsError::Database { source, .. })) => {
                source.as_database_error().is_some()
            }
            PassError::Enqueue(EnqueueError::Contended(_)) => true,
            _ => false,
        }
    }
}

/// Fires what is due and settles what was missed, schedule by schedule, each in a transaction of its own.
///
/// When nothing is due it is one statement that writes nothing. Cancel-safe: a transaction that isn't
/// committed is rolled back.
///
/// # Errors
///
/// [`PassError`] when the term is over or the database is out of reach. A schedule that the database
/// refuses is in [`PassReport::failed`] instead, and doesn't keep the others from firing.
pub async fn run_pass(term: &Term, pool: &PgPool) -> Result<PassReport, PassError> {
    let Snapshot { now, found } = read(pool).await?;
    let mut report = PassReport { now: Some(now), ..PassReport::default() };
    for stored in found.iter().filter(|stored| stored.definition.enabled) {
        // A planned stop: what is left is due for the next leader too.
        if !term.wake().is_leading() {
            break;
        }
        let name = &stored.definition.name;
        let policy = match Policy::try_from(&stored.definition) {
            Ok(policy) => policy,
            Err(invalid) => {
                report.invalid.insert(name.clone(), invalid.to_string());
                continue;
            }
        };
        let next = policy.timetable.next_after(stored.settled());
        if next.is_none_or(|next| next > now) {
            report.expect(next);
            continue;
        }
        match fire(term, pool, name).await {
            Ok(fired) => {
                for tick in &fired.ticks {
                    telemetry::tick_recorded(term, tick);
                }
                report.now = report.now.max(fired.now);
                report.expect(fired.next);
                report.ticks.extend(fired.ticks);
            }
            Err(error) if error.is_refusal() => {
                telemetry::failed(term, name, &error);
                report.failed.push((name.clone(), error));
            }
            Err(error) => return Err(error),
        }
    }
    Ok(report)
}

impl PassReport {
    fn expect(&mut self, tick: Option<DateTime<Utc>>) {
        self.next = match (self.next, tick) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
    }

    /// How long to sleep: until the next tick, but not longer than `longest`. A timer that runs fast wakes
    /// early; then the database says that nothing is due, and the rest is slept.
    pub fn sleep(&self, longest: Duration) -> Duration {
        const SHORTEST: Duration = Duration::from_millis(10);
        if !self.failed.is_empty() {
            return longest.min(Duration::from_secs(5));
        }
        match (self.next, self.now) {
            (Some(next), Some(now)) => {
                (next - now).to_std().unwrap_or(SHORTEST).clamp(SHORTEST, longest.max(SHORTEST))
            }
            _ => longest,
        }
    }
}

async fn read(pool: &PgPool) -> Result<Snapshot<Vec<StoredSchedule>>, PassError> {
    let acquired = tokio::time::timeout(STATEMENT_LIMIT, pool.acquire()).await;
    let mut conn = acquired.unwrap_or(Err(sqlx::Error::PoolTimedOut)).map_err(PassError::Connect)?;
    let read = schedule::read_schedules(&mut conn).await;
    if matches!(read, Err(JobsError::TimedOut { .. })) {
        // It still waits for the answer, and whoever got it next would wait too.
        conn.close_on_drop();
    }
    Ok(read?)
}

#[derive(Default)]
struct Fired {
    now: Option<DateTime<Utc>>,
    ticks: Vec<RecordedTick>,
    next: Option<DateTime<Utc>>,
}

/// Decides again under the row lock, with the database's time, and commits the outcome.
async fn fire(term: &Term, pool: &PgPool, name: &str) -> Result<Fired, PassError> {
    let mut tx = term.begin_fenced(pool).await?;
    limit_transaction(&mut tx, TICK_STATEMENT_LIMIT).await?;
    let Some(Snapshot { now, found: stored }) = schedule::lock_schedule(&mut tx, name).await? else {
        return Ok(Fired::default());
    };
    // It may have been disabled or changed since it was read; the next pass sees that.
    let Some(policy) = Policy::try_from(&stored.definition).ok().filter(|_| stored.definition.enabled) else {
        return Ok(Fired::default());
    };
    let plan = policy.decide(&stored, now);
    // The clock was set back while this transaction ran: roll back, the next pass reads it again.
    let not_yet = Fired { now: Some(now), ticks: Vec::new(), next: Some(now) };
    let mut ledger = Ledger::new(&mut tx, term, &stored);
    for run in &plan.skip {
        if ledger.skip(run.last, run.first, run.count, run.reason.to_string()).await? == TickRecord::NotDue {
            return Ok(not_yet);
        }
    }
    for due_at in plan.fire {
        if ledger.fire(due_at, policy.overlap).await? == TickRecord::NotDue {
            return Ok(not_yet);
        }
    }
    let ticks = ledger.into_ticks();
    if let Some(newest) = plan.newest {
        schedule::settle_ticks(&mut tx, name, newest).await?;
    }
    tx.commit().await?;
    Ok(Fired { now: Some(now), ticks, next: plan.next })
}
