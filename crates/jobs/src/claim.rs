//! Claiming due jobs.

use crate::{JobsError, limit::limited, pool::query};
use chrono::{DateTime, Utc};
use serde_json::Value;
use sqlx::{PgConnection, Row as _, postgres::PgRow};
use std::time::Duration;
use tenure::Epoch;
use uuid::Uuid;

/// What a claim asks for.
#[derive(Debug, Clone, Copy)]
pub struct Claim<'a> {
    /// The kinds that the caller has routes for. Others are left alone.
    pub kinds: &'a [String],
    /// At most this many jobs.
    pub limit: u32,
    /// Epoch of the claiming term, for the record.
    pub epoch: Epoch,
    /// The claiming process, for the record.
    pub instance: Uuid,
    /// The attempts count as dead after this time, unless they are extended.
    pub lease: Duration,
}

/// A job with an attempt under way.
#[derive(Debug, Clone, PartialEq)]
pub struct ClaimedJob {
    /// Its number.
    pub id: i64,
    /// What kind of work it is.
    pub kind: String,
    /// Its queue.
    pub queue: String,
    /// What it is about.
    pub payload: Value,
    /// Number of this attempt, from 1.
    pub attempt: i32,
    /// If the attempt with this number fails, the job is discarded.
    pub max_attempts: i32,
    /// Idempotency key for receivers: the same for every attempt.
    pub delivery_key: Uuid,
    /// When the attempt began, by the database's clock.
    pub claimed_at: DateTime<Utc>,
}

/// Whose turn it is: the condition under which the available job `j` isn't kept waiting by another job of
/// its ordering key. The running one may have a higher id, if a lower one was committed late.
macro_rules! has_its_turn {
    () => {
        "not exists (select from tenure.job o where o.ordering_key = j.ordering_key
            and o.state in ('available', 'running') and (o.id < j.id or o.state = 'running'))"
    };
}
pub(crate) use has_its_turn;

// Each kind is read through its own part of the index, in the order of claiming: neither a kind without a
// route nor a job for later is ever in the way of one that can run. A row that somebody else has locked
// is passed over for the same reason. The attempt is counted here, so that a job that ends its process
// has had it.
const CLAIM: &str = concat!(
    "\
with due as (
    select j.id, j.priority, j.run_at
    from unnest($1::text[]) as routed (kind)
    cross join lateral (
        select j.id, j.priority, j.run_at from tenure.job j
        where j.kind = routed.kind and j.state = 'available' and j.run_at <= statement_timestamp()
          and ",
    has_its_turn!(),
    "
        order by j.priority desc, j.run_at, j.id
        limit $2
        for update skip locked
    ) j
    order by j.priority desc, j.run_at, j.id
    limit $2
), claimed as (
    update tenure.job j
    set state = 'running', attempt = j.attempt + 1, claimed_by = $3,
        attempt_deadline = statement_timestamp() + make_interval(secs => $5)
    from due where j.id = due.id
    returning j.id, j.kind, j.queue, j.payload, j.priority, j.run_at, j.attempt, j.max_attempts,
              j.delivery_key
), opened as (
    insert into tenure.job_attempt (job_id, attempt, epoch, instance, started_at)
    select id, attempt, $3, $4, statement_timestamp() from claimed
)
select id, kind, queue, payload, attempt, max_attempts, delivery_key, statement_timestamp() as claimed_at
from claimed order by priority desc, run_at, id"
);

/// Claims due jobs and begins an attempt at each, highest priority first, then longest due.
///
/// Call it in a fenced transaction of the one poller. The attempts are counted once that commits.
///
/// # Errors
///
/// [`JobsError::Database`], [`JobsError::TimedOut`].
pub async fn claim(conn: &mut PgConnection, claim: &Claim<'_>) -> Result<Vec<ClaimedJob>, JobsError> {
    let step = "claiming jobs";
    let statement = query(CLAIM)
        .bind(claim.kinds)
        .bind(i64::from(claim.limit))
        .bind(claim.epoch.0)
        .bind(claim.instance)
        .bind(claim.lease.as_secs_f64());
    let rows = limited(step, statement.fetch_all(conn)).await?;
    rows.iter().map(claimed).collect::<Result<_, _>>().map_err(|source| JobsError::Database { step, source })
}

fn claimed(row: &PgRow) -> Result<ClaimedJob, sqlx::Error> {
    Ok(ClaimedJob {
        id: row.try_get("id")?,
        kind: row.try_get("kind")?,
        queue: row.try_get("queue")?,
        payload: row.try_get("payload")?,
        attempt: row.try_get("attempt")?,
        max_attempts: row.try_get("max_attempts")?,
        delivery_key: row.try_get("delivery_key")?,
        claimed_at: row.try_get("claimed_at")?,
    })
}
