//! The lease session on a real connection.

use super::{
    holders::lock_holders,
    problem::{Kind, diagnose, lost},
    sql,
};
use crate::{
    Epoch, Role, Timing,
    lease::{AcquireError, Attempt, EndReason, LeaseSession, LockHolder, Lost},
};
use async_trait::async_trait;
use sqlx::{AssertSqlSafe, Connection as _, PgConnection, Row as _, postgres::PgRow};
use std::collections::{BTreeSet, HashMap};
use uuid::Uuid;

/// What a session was when the front door was accepted, and has to stay.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Identity {
    pub(crate) pid: i32,
    /// Microseconds since 1970, by the server's clock.
    pub(crate) backend_start: i64,
    pub(crate) stamp: String,
    /// The database's object identifier, as `pg_locks` shows it.
    pub(crate) database: i64,
    /// The timeline, from names of WAL files; `None` where the server doesn't show it.
    pub(crate) timeline: Option<i64>,
}

/// See the module.
pub(crate) struct PgSession {
    connection: PgConnection,
    identity: Identity,
    timing: Timing,
    instance: Uuid,
    host: String,
    held: BTreeSet<i64>,
}

impl PgSession {
    pub(crate) fn new(
        connection: PgConnection,
        identity: Identity,
        timing: Timing,
        instance: Uuid,
        host: String,
    ) -> Self {
        Self { connection, identity, timing, instance, host, held: BTreeSet::new() }
    }

    /// Compares what answers with what was examined.
    fn check(&self, row: &PgRow, held: &[i64]) -> Result<(), Lost> {
        let changed = |reason, detail| Err(Lost { reason, detail });
        let pid: i32 = get(row, "pid")?;
        let backend_start: i64 = get(row, "backend_start")?;
        let stamp: Option<String> = get(row, "stamp")?;
        if pid != self.identity.pid || backend_start != self.identity.backend_start {
            let detail = format!("backend {} became backend {pid}", self.identity.pid);
            return changed(EndReason::SessionChanged, detail);
        }
        if stamp.as_deref() != Some(&self.identity.stamp) {
            return changed(EndReason::SessionChanged, "the session's stamp is gone".to_owned());
        }
        if get::<bool>(row, "in_recovery")? {
            return changed(EndReason::InRecovery, "the server is in recovery".to_owned());
        }
        let timeline = get::<Option<&str>>(row, "timeline")?.and_then(read_timeline);
        if timeline != self.identity.timeline {
            let detail = format!("timeline {:?} became {timeline:?}", self.identity.timeline);
            return changed(EndReason::TimelineChanged, detail);
        }
        let (own, proven): (i64, i64) = (get(row, "own")?, get(row, "proven")?);
        if usize::try_from(proven) != Ok(held.len()) {
            let detail = format!("the server lists {proven} of {} held locks", held.len());
            return changed(EndReason::LockMissing, detail);
        }
        if own != proven {
            let detail = format!("the backend holds {} locks that this instance never took", own - proven);
            return changed(EndReason::SessionChanged, detail);
        }
        Ok(())
    }

    async fn acquire_in_transaction(&mut self, wanted: &[Role]) -> Result<Vec<(Role, Attempt)>, sqlx::Error> {
        let by_key: HashMap<i64, Role> = wanted.iter().map(|role| (role.key(), *role)).collect();
        let opening = sql::begin_acquiring(self.timing.retry_interval().as_millis());
        let mut tx = self.connection.begin_with(AssertSqlSafe(opening)).await?;
        let answers = sqlx::query(sql::TRY_LOCKS)
            .bind(wanted.iter().map(Role::name).collect::<Vec<_>>())
            .bind(wanted.iter().map(Role::key).collect::<Vec<_>>())
            .fetch_all(&mut *tx)
            .await?;
        let (mut locked, mut attempts) = (Vec::new(), Vec::new());
        for row in answers {
            let role = by_key[&row.try_get::<i64, _>("key")?];
            match row.try_get::<&str, _>("answer")? {
                "locked" => locked.push(role),
                "busy" => attempts.push((role, Attempt::Busy)),
                "shared" => attempts.push((role, Attempt::Refused(SHARED.to_owned()))),
                _ => {
                    let reason = mismatch(&mut tx, role).await?;
                    attempts.push((role, Attempt::Refused(reason)));
                }
            }
        }
        if locked.is_empty() {
            tx.rollback().await?;
            return Ok(attempts);
        }
        // Where it isn't shown, the storage is the service's own, and a failover loses no epoch.
        let timeline = self.identity.timeline.unwrap_or(1);
        let begun = sqlx::query(sql::BEGIN_TERMS)
            .bind(locked.iter().map(Role::name).collect::<Vec<_>>())
            .bind(locked.iter().map(Role::key).collect::<Vec<_>>())
            .bind((timeline << Epoch::COUNTER_BITS) + 1)
            .bind(self.instance)
            .bind(&self.host)
            .fetch_all(&mut *tx)
            .await?;
        for row in begun {
            let role = by_key[&row.try_get::<i64, _>("key")?];
            attempts.push((role, Attempt::Won(Epoch(row.try_get("epoch")?))));
        }
        tx.commit().await?;
        Ok(attempts)
    }

    /// After a failed try: whatever it locked is let go, or the session is lost.
    async fn unlock_others(&mut self) -> Result<(), Lost> {
        let held: Vec<i64> = self.held.iter().copied().collect();
        // The transaction is over on the server; sqlx has its ROLLBACK queued before the next statement.
        let rows = sqlx::query(sql::UNLOCK_OTHERS)
            .bind(&held)
            .fetch_all(&mut self.connection)
            .await
            .map_err(|error| lost(&error))?;
        all_unlocked(&rows)
    }
}

const SHARED: &str = "our own backend already holds this key, which we never took: the backend is shared, so \
    what answers on the lease address is a pooler; use the server's own address";

async fn mismatch(connection: &mut PgConnection, role: Role) -> Result<String, sqlx::Error> {
    let known = sqlx::query(sql::KNOWN_AS).bind(role.name()).bind(role.key()).fetch_one(connection).await?;
    let (name, key): (String, i64) = (known.try_get(0)?, known.try_get(1)?);
    Ok(format!(
        "the database knows role {name} by key {key}, this binary knows role {} by key {}: two binaries that \
         disagree about a key can both lead; deploy one of them, or correct the row in tenure.lease",
        role.name(),
        role.key()
    ))
}

fn all_unlocked(rows: &[PgRow]) -> Result<(), Lost> {
    for row in rows {
        if !get::<bool>(row, "unlocked")? {
            let detail = "the server says that a lock was not held when it was released".to_owned();
            return Err(Lost { reason: EndReason::UnlockRefused, detail });
        }
    }
    Ok(())
}

/// Eight hexadecimal digits.
pub(crate) fn read_timeline(digits: &str) -> Option<i64> {
    i64::from_str_radix(digits, 16).ok()
}

fn get<'r, T: sqlx::Decode<'r, sqlx::Postgres> + sqlx::Type<sqlx::Postgres>>(
    row: &'r PgRow,
    column: &str,
) -> Result<T, Lost> {
    row.try_get(column).map_err(|error| lost(&error))
}

#[async_trait]
impl LeaseSession for PgSession {
    async fn pulse(&mut self, held: &[i64], wanted: &[i64]) -> Result<Vec<i64>, Lost> {
        let row = sqlx::query(sql::PULSE)
            .bind(held)
            .bind(wanted)
            .bind(self.identity.database)
            .bind(self.identity.timeline.is_some())
            .fetch_one(&mut self.connection)
            .await
            .map_err(|error| lost(&error))?;
        self.check(&row, held)?;
        get(&row, "free")
    }

    async fn strangers(&mut self, keys: &[i64]) -> Result<Vec<LockHolder>, Lost> {
        match lock_holders(&mut self.connection, keys).await {
            Ok(holders) => Ok(holders.into_iter().filter(|holder| !holder.is_tenure).collect()),
            Err(error) if matches!(diagnose(&error).kind, Kind::Broken(_)) => Err(lost(&error)),
            // Knowing who it is helps, but leading doesn't depend on it.
            Err(_answered) => Ok(Vec::new()),
        }
    }

    async fn acquire(&mut self, wanted: &[Role]) -> Result<Vec<(Role, Attempt)>, AcquireError> {
        match self.acquire_in_transaction(wanted).await {
            Ok(attempts) => {
                let won = attempts.iter().filter(|(_, attempt)| matches!(attempt, Attempt::Won(_)));
                self.held.extend(won.map(|(role, _)| role.key()));
                Ok(attempts)
            }
            Err(error) => {
                let problem = diagnose(&error);
                if let Kind::Broken(reason) = problem.kind {
                    return Err(AcquireError::Lost(Lost { reason, detail: problem.because }));
                }
                self.unlock_others().await?;
                Err(AcquireError::Failed { because: problem.because, advice: problem.advice.to_owned() })
            }
        }
    }

    async fn release(&mut self, ended: &[(Role, Epoch, EndReason)]) -> Result<(), Lost> {
        let keys: Vec<i64> = ended.iter().map(|(role, ..)| role.key()).collect();
        let recorded = sqlx::query(sql::RELEASE)
            .bind(ended.iter().map(|(role, ..)| role.name()).collect::<Vec<_>>())
            .bind(ended.iter().map(|(_, epoch, _)| epoch.0).collect::<Vec<_>>())
            .bind(ended.iter().map(|(.., reason)| reason.as_str()).collect::<Vec<_>>())
            .bind(&keys)
            .fetch_all(&mut self.connection)
            .await;
        let rows = match recorded {
            Ok(rows) => rows,
            Err(error) if matches!(diagnose(&error).kind, Kind::Broken(_)) => return Err(lost(&error)),
            // The history can't be written, but the lock must still go; nothing else depends on the row.
            Err(error) => {
                let reason = diagnose(&error).because;
                tracing::warn!(event = "lease.error", reason, advice = "the term's end was not recorded");
                // The failed statement may have unlocked some before it failed.
                self.held.retain(|key| !keys.contains(key));
                return self.unlock_others().await;
            }
        };
        all_unlocked(&rows)?;
        self.held.retain(|key| !keys.contains(key));
        Ok(())
    }
}
