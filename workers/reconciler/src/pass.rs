//! One pass: return what died, then sweep the tables in turns.
//!
//! Each table with debt gets one batch in a round, so that a big table doesn't keep the small ones
//! waiting, and each pass begins with another table, so that a pass that runs out of time isn't always
//! unfair to the same one. A pass that finds nothing to do only reads: one statement, and one for each
//! table.

use crate::{
    debt::{self, Debt},
    error::PassError,
    report::{Outcome, PassReport, SweepReport},
    returns,
    sweep::Sweep,
    target::Target,
    telemetry,
};
use chrono::{DateTime, Utc};
use sqlx::PgPool;
use std::{collections::BTreeMap, time::Duration};
use tenure::Term;
use tenure_jobs::{
    JobsError, STATEMENT_LIMIT,
    sweep::{PassStart, SweepRun, begin_pass, record_sweep},
};

/// What is remembered from one pass to the next, within a term.
#[derive(Debug, Default)]
pub struct Memory {
    passes: usize,
    batch_sizes: BTreeMap<String, u32>,
    /// What was last on record of each sweep that had something to tell.
    told: BTreeMap<String, (Option<u64>, Outcome)>,
    /// Passes in a row that a sweep was stuck.
    stuck: BTreeMap<String, u32>,
}

/// A sweep that is stuck is logged at once, and then every so many passes.
const ALARM_EVERY: u32 = 20;

impl Memory {
    /// Whether `sweep` is stuck, and it is time to say so.
    fn is_alarm(&mut self, sweep: &SweepReport) -> bool {
        if !sweep.is_stuck() {
            self.stuck.remove(&sweep.name);
            return false;
        }
        let passes = self.stuck.entry(sweep.name.clone()).or_insert(0);
        *passes += 1;
        *passes % ALARM_EVERY == 1
    }
}

/// Runs one pass over `targets`, for at most about `pass_time`.
///
/// Cancel-safe: batches that were committed stay deleted, and nothing else was changed.
///
/// # Errors
///
/// [`PassError`] when the term is over or the database is out of reach. What concerns one table only is
/// in its report.
pub async fn run_pass(
    term: &Term,
    pool: &PgPool,
    targets: &[Target],
    pass_time: Duration,
    memory: &mut Memory,
) -> Result<PassReport, PassError> {
    let PassStart { now: started_at, dead_attempts } = begin(pool).await?;
    let mut report = PassReport { started_at, returned: Vec::new(), sweeps: Vec::new() };
    if dead_attempts {
        report.returned = returns::return_dead(term, pool).await?;
        telemetry::returned(term, &report.returned);
    }

    let first = memory.passes.checked_rem(targets.len()).unwrap_or(0);
    memory.passes = memory.passes.wrapping_add(1);
    let mut sweeps = Vec::new();
    for target in targets[first..].iter().chain(&targets[..first]) {
        let cutoff = target.cutoff(started_at);
        let size = memory.batch_sizes.get(&target.name).copied().unwrap_or(target.batch_size);
        let mut sweep = Sweep::new(target, cutoff, size);
        let debt = debt::count_debt(pool, target, cutoff).await?;
        // What is too slow to count isn't too slow to sweep.
        if debt == Debt::Rows(0) {
            sweep.end(Outcome::Done, None);
        }
        sweeps.push((target, sweep, debt));
    }

    take_turns(term, pool, &mut sweeps, started_at, pass_time).await?;

    for (target, sweep, mut debt) in sweeps {
        if debt != Debt::Rows(0) {
            debt = debt::count_debt(pool, target, sweep.cutoff()).await?;
        }
        let report_one = sweep.report(debt);
        memory.batch_sizes.insert(target.name.clone(), report_one.batch_size);
        telemetry::measured(&report_one);
        if memory.is_alarm(&report_one) {
            telemetry::stuck(term, &report_one);
        }
        report.sweeps.push(report_one);
    }
    record(term, pool, &mut report, memory).await?;
    Ok(report)
}

/// Gives each sweep one batch in a round, until all have ended or the pass is over.
async fn take_turns(
    term: &Term,
    pool: &PgPool,
    sweeps: &mut [(&Target, Sweep<'_>, Debt)],
    started_at: DateTime<Utc>,
    pass_time: Duration,
) -> Result<(), PassError> {
    let pass_time = chrono::Duration::from_std(pass_time).unwrap_or(chrono::Duration::MAX);
    let mut now = started_at;
    while sweeps.iter().any(|(_, sweep, _)| !sweep.has_ended()) {
        for (target, sweep, _) in sweeps.iter_mut() {
            if sweep.has_ended() {
                continue;
            }
            if now - started_at >= pass_time {
                sweep.end(Outcome::Budget, Some("the pass's time is used up"));
                continue;
            }
            sweep.turn(term, pool).await?;
            now = sweep.now.map_or(now, |then| now.max(then));
            // A stop begins here or in the pause; the batch before it is committed either way.
            if !term.sleep(target.pause).await.is_leading() {
                for (_, sweep, _) in sweeps.iter_mut() {
                    sweep.end(Outcome::Stopped, Some("the term was drained"));
                }
                return Ok(());
            }
        }
    }
    Ok(())
}

/// Writes down the sweeps that did something, or whose debt isn't what was told before.
async fn record(
    term: &Term,
    pool: &PgPool,
    report: &mut PassReport,
    memory: &mut Memory,
) -> Result<(), PassError> {
    let worth = |sweep: &SweepReport, memory: &Memory| {
        let told = memory.told.get(&sweep.name).copied().unwrap_or((Some(0), Outcome::Done));
        sweep.deleted > 0 || told != (sweep.debt, sweep.outcome)
    };
    if !report.sweeps.iter().any(|sweep| worth(sweep, memory)) {
        return Ok(());
    }
    let mut tx = term.begin_fenced(pool).await?;
    for sweep in report.sweeps.iter_mut().filter(|sweep| worth(sweep, memory)) {
        let run = SweepRun {
            sweep: sweep.name.clone(),
            table_name: sweep.table.clone(),
            started_at: report.started_at,
            cutoff: sweep.cutoff,
            deleted: sweep.deleted,
            batches: sweep.batches,
            batch_size: sweep.batch_size,
            debt: sweep.debt,
            outcome: sweep.outcome.as_str().to_owned(),
            reason: sweep.reason.clone(),
        };
        record_sweep(&mut tx, term.epoch(), &run).await?;
        sweep.recorded = true;
    }
    tx.commit().await?;
    for sweep in report.sweeps.iter().filter(|sweep| sweep.recorded) {
        memory.told.insert(sweep.name.clone(), (sweep.debt, sweep.outcome));
        telemetry::finished(term, sweep);
    }
    Ok(())
}

async fn begin(pool: &PgPool) -> Result<PassStart, PassError> {
    let acquired = tokio::time::timeout(STATEMENT_LIMIT, pool.acquire()).await;
    let mut conn = acquired.unwrap_or(Err(sqlx::Error::PoolTimedOut)).map_err(PassError::Connect)?;
    let start = begin_pass(&mut conn).await;
    if matches!(start, Err(JobsError::TimedOut { .. })) {
        // It still waits for the answer, and whoever got it next would wait too.
        conn.close_on_drop();
    }
    Ok(start?)
}
