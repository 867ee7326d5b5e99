//! Schedules and the ledger of their ticks, as they are stored.
//!
//! The words in here (policies, rules) are plain text: a schedule that a newer binary declared must not
//! keep this one from reading the others. The scheduler parses them.

use crate::{InvalidJob, JobsError, NewJob, limit::limited, pool::query};
use chrono::{DateTime, Utc};
use serde::Serialize;
use serde_json::Value;
use sqlx::{PgConnection, Row as _, postgres::PgRow};
use std::time::Duration;
use tenure::Epoch;

/// What a schedule is, apart from its history.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Definition {
    /// Its name.
    pub name: String,
    /// Kind of the job that a tick enqueues.
    pub kind: String,
    /// Cron expression.
    pub expression: String,
    /// IANA time zone.
    pub time_zone: String,
    /// Payload of the jobs.
    pub payload: Value,
    /// Queue of the jobs.
    pub queue: String,
    /// `skip`, `run_once` or `catch_up`.
    pub misfire: String,
    /// With `catch_up`: how old a tick may be, and how many at most.
    pub catch_up: Option<(Duration, u32)>,
    /// Until so long after it was due, a tick is on time.
    pub grace: Duration,
    /// `auto`, `once` or `real_time`.
    pub dst_rule: String,
    /// `allow` or `skip`.
    pub overlap: String,
    /// Whether it fires.
    pub enabled: bool,
}

impl Definition {
    /// The job that a tick enqueues.
    ///
    /// # Errors
    ///
    /// [`InvalidJob`] when such a job can't be stored.
    pub fn job(&self) -> Result<NewJob, InvalidJob> {
        let job =
            NewJob { queue: self.queue.clone(), ..NewJob::new(self.kind.clone(), self.payload.clone()) };
        job.validate()?;
        Ok(job)
    }
}

/// A schedule as it is stored.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct StoredSchedule {
    /// What it is.
    pub definition: Definition,
    /// `config` or `hand`.
    pub source: String,
    /// Ticks up to this time are none of its own.
    pub active_from: DateTime<Utc>,
    /// The newest tick that is settled.
    pub last_tick: Option<DateTime<Utc>>,
}

impl StoredSchedule {
    /// The time up to which everything is settled: the next tick is strictly later.
    pub fn settled(&self) -> DateTime<Utc> {
        self.last_tick.map_or(self.active_from, |tick| tick.max(self.active_from))
    }
}

/// Schedules, and what time it was when they were read, by the database's clock.
#[derive(Debug, Clone, PartialEq)]
pub struct Snapshot<T> {
    /// The database's time.
    pub now: DateTime<Utc>,
    /// What was read.
    pub found: T,
}

/// What became of a declaration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Declared {
    /// It is new.
    Created,
    /// It was there, and differed.
    Changed,
    /// It was there as declared. Nothing was written.
    Unchanged,
    /// A schedule made by hand has this name. Nothing was written.
    MadeByHand,
}

/// What became of a row for the ledger.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TickRecord {
    /// It was written.
    Written,
    /// The tick was on record already. Nothing was written, and nothing may be enqueued for it.
    OnRecord,
    /// It isn't due by the database's clock. Nothing was written, and it is not settled.
    NotDue,
}

/// A row of the ledger to be written.
#[derive(Debug, Clone, PartialEq)]
pub struct NewTick<'a> {
    /// The schedule.
    pub schedule: &'a str,
    /// When it was due: of a run of skipped ticks, the last.
    pub due_at: DateTime<Utc>,
    /// The first of a run of skipped ticks; otherwise the same as `due_at`.
    pub first_due_at: DateTime<Utc>,
    /// How many ticks the row stands for.
    pub ticks: u32,
    /// `enqueued`, `skipped` or `failed`.
    pub outcome: &'a str,
    /// Why there is no job.
    pub reason: Option<&'a str>,
    /// The term that records it.
    pub epoch: Epoch,
}

macro_rules! columns {
    () => {
        "s.name, s.kind, s.expression, s.time_zone, s.payload, s.queue, s.misfire,
         extract(epoch from s.catch_up_window)::float8 as catch_up_seconds, s.catch_up_cap,
         extract(epoch from s.grace)::float8 as grace_seconds, s.dst_rule, s.overlap, s.enabled,
         s.source, s.active_from, s.last_tick"
    };
}

// One row at least, so that the time is known when there is no schedule. Without parameters it needs no
// transaction.
const READ: &str = concat!(
    "select clock_timestamp() as now, ",
    columns!(),
    " from (values (1)) as always left join tenure.schedule s on true order by s.name"
);

/// Reads every schedule. One statement without parameters: it needs no transaction around it.
///
/// # Errors
///
/// [`JobsError::Database`], [`JobsError::TimedOut`].
pub async fn read_schedules(conn: &mut PgConnection) -> Result<Snapshot<Vec<StoredSchedule>>, JobsError> {
    let step = "reading the schedules";
    let rows = limited(step, sqlx::raw_sql(READ).fetch_all(conn)).await?;
    let decode = || {
        let now = rows.first().ok_or(sqlx::Error::RowNotFound)?.try_get("now")?;
        let named = rows.iter().filter(|row| matches!(row.try_get::<Option<&str>, _>("name"), Ok(Some(_))));
        Ok(Snapshot { now, found: named.map(stored).collect::<Result<_, _>>()? })
    };
    decode().map_err(|source| JobsError::Database { step, source })
}

const LOCK: &str = concat!(
    "select clock_timestamp() as now, ",
    columns!(),
    " from tenure.schedule s where s.name = $1 for update"
);

/// Locks a schedule until the transaction ends, and reads it together with the database's time. `None`
/// when there is no such schedule.
///
/// # Errors
///
/// [`JobsError::Database`], [`JobsError::TimedOut`].
pub async fn lock_schedule(
    conn: &mut PgConnection,
    name: &str,
) -> Result<Option<Snapshot<StoredSchedule>>, JobsError> {
    let step = "locking a schedule";
    let Some(row) = limited(step, query(LOCK).bind(name).fetch_optional(conn)).await? else {
        return Ok(None);
    };
    let decode = || Ok(Some(Snapshot { now: row.try_get("now")?, found: stored(&row)? }));
    decode().map_err(|source| JobsError::Database { step, source })
}

// Another expression, zone or rule makes other ticks: those of the past are none of this schedule's.
const DECLARE: &str = "\
insert into tenure.schedule as s (name, kind, expression, time_zone, payload, queue, misfire,
    catch_up_window, catch_up_cap, grace, dst_rule, overlap, enabled, source)
values ($1, $2, $3, $4, $5::text::jsonb, $6, $7, make_interval(secs => $8), $9, make_interval(secs => $10),
    $11, $12, $13, 'config')
on conflict (name) do update set
    kind = excluded.kind, expression = excluded.expression, time_zone = excluded.time_zone,
    payload = excluded.payload, queue = excluded.queue, misfire = excluded.misfire,
    catch_up_window = excluded.catch_up_window, catch_up_cap = excluded.catch_up_cap,
    grace = excluded.grace, dst_rule = excluded.dst_rule, overlap = excluded.overlap,
    enabled = excluded.enabled, updated_at = now(),
    active_from = case
        when (s.expression, s.time_zone, s.dst_rule)
             is distinct from (excluded.expression, excluded.time_zone, excluded.dst_rule)
          or (excluded.enabled and not s.enabled)
        then now() else s.active_from end
where s.source = 'config'
  and (s.kind, s.expression, s.time_zone, s.payload, s.queue, s.misfire, s.catch_up_window, s.catch_up_cap,
       s.grace, s.dst_rule, s.overlap, s.enabled)
      is distinct from
      (excluded.kind, excluded.expression, excluded.time_zone, excluded.payload, excluded.queue,
       excluded.misfire, excluded.catch_up_window, excluded.catch_up_cap, excluded.grace, excluded.dst_rule,
       excluded.overlap, excluded.enabled)
returning (xmax = 0) as created";

/// Makes the stored schedule be what a configuration declares. One that was made by hand is left alone.
///
/// # Errors
///
/// [`JobsError::Database`], [`JobsError::TimedOut`].
pub async fn declare_schedule(conn: &mut PgConnection, wanted: &Definition) -> Result<Declared, JobsError> {
    let step = "declaring a schedule";
    let catch_up_cap = wanted.catch_up.map(|(_, cap)| i32::try_from(cap).unwrap_or(i32::MAX));
    let declare = query(DECLARE)
        .bind(&wanted.name)
        .bind(&wanted.kind)
        .bind(&wanted.expression)
        .bind(&wanted.time_zone)
        .bind(wanted.payload.to_string())
        .bind(&wanted.queue)
        .bind(&wanted.misfire)
        .bind(wanted.catch_up.map(|(window, _)| window.as_secs_f64()))
        .bind(catch_up_cap)
        .bind(wanted.grace.as_secs_f64())
        .bind(&wanted.dst_rule)
        .bind(&wanted.overlap)
        .bind(wanted.enabled);
    if let Some(row) = limited(step, declare.fetch_optional(&mut *conn)).await? {
        return Ok(if row.get("created") { Declared::Created } else { Declared::Changed });
    }
    let source = query("select source from tenure.schedule where name = $1").bind(&wanted.name);
    let row = limited(step, source.fetch_one(conn)).await?;
    Ok(if row.get::<&str, _>("source") == "config" { Declared::Unchanged } else { Declared::MadeByHand })
}

// Whether it is due is asked of the database's clock once more, in the insert itself.
const RECORD: &str = "\
insert into tenure.tick (schedule, due_at, epoch, outcome, reason, first_due_at, ticks, recorded_at)
select $1, $2, $3, $4, $5, $6, $7, clock_timestamp() where $2 <= clock_timestamp()
on conflict (schedule, due_at) do nothing";

const ON_RECORD: &str = "select from tenure.tick where schedule = $1 and due_at = $2";

/// Writes a row of the ledger, unless the tick is on record or isn't due.
///
/// # Errors
///
/// [`JobsError::Database`], [`JobsError::TimedOut`].
pub async fn record_tick(conn: &mut PgConnection, tick: &NewTick<'_>) -> Result<TickRecord, JobsError> {
    let step = "recording a tick";
    let record = query(RECORD)
        .bind(tick.schedule)
        .bind(tick.due_at)
        .bind(tick.epoch.0)
        .bind(tick.outcome)
        .bind(tick.reason)
        .bind(tick.first_due_at)
        .bind(i32::try_from(tick.ticks).unwrap_or(i32::MAX));
    if limited(step, record.execute(&mut *conn)).await?.rows_affected() == 1 {
        return Ok(TickRecord::Written);
    }
    let on_record = query(ON_RECORD).bind(tick.schedule).bind(tick.due_at);
    let found = limited(step, on_record.fetch_optional(conn)).await?;
    Ok(found.map_or(TickRecord::NotDue, |_| TickRecord::OnRecord))
}

const ATTACH: &str = "update tenure.tick set job_id = $3 where schedule = $1 and due_at = $2";

/// Notes the job of a tick that was recorded in the same transaction.
///
/// # Errors
///
/// [`JobsError::Database`], [`JobsError::TimedOut`].
pub async fn attach_job(
    conn: &mut PgConnection,
    schedule: &str,
    due_at: DateTime<Utc>,
    job: i64,
) -> Result<(), JobsError> {
    let attach = query(ATTACH).bind(schedule).bind(due_at).bind(job);
    limited("noting the job of a tick", attach.execute(conn)).await.map(drop)
}

const SETTLE: &str = "update tenure.schedule set last_tick = greatest(last_tick, $2) where name = $1";

/// Notes that all ticks up to `tick` are settled. It never goes back.
///
/// # Errors
///
/// [`JobsError::Database`], [`JobsError::TimedOut`].
pub async fn settle_ticks(
    conn: &mut PgConnection,
    schedule: &str,
    tick: DateTime<Utc>,
) -> Result<(), JobsError> {
    let settle = query(SETTLE).bind(schedule).bind(tick);
    limited("settling the ticks of a schedule", settle.execute(conn)).await.map(drop)
}

// The newest ticks only: the primary key gives them in order, and an older job that is still unfinished
// would have kept the newer ones from firing.
const UNFINISHED: &str = "\
select j.id from (
    select t.job_id from tenure.tick t where t.schedule = $1 and t.outcome = 'enqueued'
    order by t.due_at desc limit 100
) t join tenure.job j on j.id = t.job_id
where j.state in ('available', 'running') limit 1";

/// The unfinished job of an earlier tick of this schedule, if there is one among its newest hundred.
///
/// # Errors
///
/// [`JobsError::Database`], [`JobsError::TimedOut`].
pub async fn find_unfinished_job(conn: &mut PgConnection, schedule: &str) -> Result<Option<i64>, JobsError> {
    let find = query(UNFINISHED).bind(schedule);
    let row = limited("looking for an unfinished job of a schedule", find.fetch_optional(conn)).await?;
    Ok(row.map(|row| row.get("id")))
}

fn stored(row: &PgRow) -> Result<StoredSchedule, sqlx::Error> {
    let seconds = |value: f64| Duration::try_from_secs_f64(value).unwrap_or(Duration::ZERO);
    let window: Option<f64> = row.try_get("catch_up_seconds")?;
    let cap: Option<i32> = row.try_get("catch_up_cap")?;
    let catch_up = window.zip(cap).map(|(window, cap)| (seconds(window), u32::try_from(cap).unwrap_or(0)));
    Ok(StoredSchedule {
        definition: Definition {
            name: row.try_get("name")?,
            kind: row.try_get("kind")?,
            expression: row.try_get("expression")?,
            time_zone: row.try_get("time_zone")?,
            payload: row.try_get("payload")?,
            queue: row.try_get("queue")?,
            misfire: row.try_get("misfire")?,
            catch_up,
            grace: seconds(row.try_get("grace_seconds")?),
            dst_rule: row.try_get("dst_rule")?,
            overlap: row.try_get("overlap")?,
            enabled: row.try_get("enabled")?,
        },
        source: row.try_get("source")?,
        active_from: row.try_get("active_from")?,
        last_tick: row.try_get("last_tick")?,
    })
}
