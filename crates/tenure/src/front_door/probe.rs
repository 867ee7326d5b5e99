//! One connection of an examination: how it is opened, and what it is asked.
//!
//! Everything goes through the simple protocol. A prepared statement fails through some poolers in ways
//! that would hide what is to be seen.

use super::bounds::Bounds;
use crate::{FrontDoor, LeaseAddress, clock::BootClock, clock::Clock as _, postgres::read_timeline};
use sqlx::{AssertSqlSafe, Connection as _, PgConnection, Row as _, postgres::PgRow};
use std::{fmt, future::Future, time::Duration};

/// A connection under examination.
pub(super) struct Probe {
    pub(super) connection: PgConnection,
    /// The random value in its startup packet.
    pub(super) canary: String,
    /// Age of the backend, and time since our attempt to connect, at one moment.
    pub(super) age: Duration,
    pub(super) elapsed: Duration,
    pub(super) facts: Facts,
    limit: Duration,
}

/// What the backend says of itself.
#[derive(Debug, Clone)]
pub(super) struct Facts {
    pub(super) backend: Backend,
    pub(super) canary: Option<String>,
    /// `idle_session_timeout` in milliseconds; `None` when the server doesn't know it.
    pub(super) idle_session_timeout: Option<u128>,
    pub(super) version: i32,
    pub(super) version_text: String,
    pub(super) in_recovery: bool,
    pub(super) read_only: bool,
    /// `None` in recovery, and where the server keeps it to itself.
    pub(super) timeline: Option<i64>,
    pub(super) database: String,
    pub(super) database_oid: i64,
    pub(super) system: String,
}

/// One backend process. Pids are used again, together with the start they are not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Backend {
    pub(super) pid: i32,
    /// Microseconds since 1970, by the server's clock.
    pub(super) start: i64,
}

const FACTS: &str = "\
select me.pid::text,
       (extract(epoch from me.backend_start) * 1000000)::bigint::text as start,
       (extract(epoch from clock_timestamp() - me.backend_start) * 1000000)::bigint::text as age,
       current_setting('tenure.canary', true) as canary,
       (select setting from pg_settings where name = 'idle_session_timeout') as bound,
       current_setting('server_version_num') as version_number,
       version() as version,
       pg_is_in_recovery()::text as in_recovery,
       current_setting('transaction_read_only') as read_only,
       current_database()::text as database,
       (select oid::bigint::text from pg_database where datname = current_database()) as database_oid
from pg_stat_get_activity(pg_backend_pid()) as me";

/// Who answers now. The pid comes out of a table: some proxies answer the bare function themselves.
const BACKEND: &str = "\
select me.pid::text,
       (extract(epoch from me.backend_start) * 1000000)::bigint::text as start,
       current_setting('tenure.stamp', true) as stamp
from pg_stat_get_activity(pg_backend_pid()) as me";

/// What a session has that was just made: none of this.
const LEFTOVERS: &str = "\
select (select count(*) from pg_locks where locktype = 'advisory' and pid = pg_backend_pid())::text as locks,
       (select count(*) from pg_class where relnamespace = pg_my_temp_schema())::text as tables,
       coalesce(current_setting('tenure.stamp', true), '') as stamp";

const UNDEFINED_TABLE: &str = "42P01";
const INSUFFICIENT_PRIVILEGE: &str = "42501";
const READ_ONLY: &str = "25006";

const NOT_IN_STATE: &str = "55000";
const UNSUPPORTED: &str = "0A000";

/// A primary's timeline. Errors in recovery, so it is asked only outside of it. Aurora shows it only with
/// `wal_level = logical`: <https://github.com/DataDog/integrations-core/issues/20356>.
const TIMELINE: &str = "select substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8)";
/// The cluster's identifier. Some managed services keep it to themselves.
const SYSTEM: &str = "select system_identifier::text from pg_control_system()";

impl Probe {
    /// Connects, with the bounds in the startup packet unless a session pooler is declared. Each answer is
    /// waited for no longer than `limit`.
    pub(super) async fn connect(
        address: &LeaseAddress,
        application_name: &str,
        bounds: &mut Bounds,
        limit: Duration,
    ) -> Result<Self, sqlx::Error> {
        let canary = format!("{:032x}", rand::random::<u128>());
        let plain = address.options.clone().application_name(application_name);
        let (attempt, mut connection) = loop {
            let mut options = plain.clone();
            if address.front_door == FrontDoor::Direct {
                options = options.options([("tenure.canary", &canary)]).options(bounds.settings());
            }
            let attempt = BootClock.now();
            match bounded(limit, Box::pin(PgConnection::connect_with(&options))).await {
                Ok(connection) => break (attempt, connection),
                Err(error) if bounds.can_do_without(&error) => {}
                Err(error) => return Err(error),
            }
        };
        let row = bounded(limit, sqlx::raw_sql(FACTS).fetch_one(&mut connection)).await?;
        let elapsed = BootClock.now().since(attempt);
        // Negative when the server's clock was set back meanwhile.
        let age = Duration::from_micros(parse::<i64>(&row, "age")?.try_into().unwrap_or(0));
        let in_recovery = row.try_get::<&str, _>("in_recovery")? == "true";
        let timeline = if in_recovery {
            None
        } else {
            match bounded(limit, sqlx::raw_sql(TIMELINE).fetch_one(&mut connection)).await {
                Ok(row) => read_timeline(row.try_get(0)?),
                Err(error) if is_code(&error, NOT_IN_STATE) || is_code(&error, UNSUPPORTED) => None,
                Err(error) => return Err(error),
            }
        };
        let system = match bounded(limit, sqlx::raw_sql(SYSTEM).fetch_one(&mut connection)).await {
            Ok(row) => row.try_get(0)?,
            Err(sqlx::Error::Database(_)) => "not shown by this server".to_owned(),
            Err(error) => return Err(error),
        };
        let facts = Facts {
            backend: Backend { pid: parse(&row, "pid")?, start: parse(&row, "start")? },
            canary: row.try_get("canary")?,
            idle_session_timeout: row.try_get::<Option<&str>, _>("bound")?.and_then(|text| text.parse().ok()),
            version: parse(&row, "version_number")?,
            version_text: row.try_get("version")?,
            in_recovery,
            read_only: row.try_get::<&str, _>("read_only")? == "on",
            timeline,
            database: row.try_get("database")?,
            database_oid: parse(&row, "database_oid")?,
            system,
        };
        Ok(Self { connection, canary, age, elapsed, facts, limit: bounds.statement_timeout() })
    }

    /// The backend that answers now, and the stamp of its session.
    pub(super) async fn backend(&mut self) -> Result<(Backend, Option<String>), sqlx::Error> {
        let row = self.row(BACKEND).await?;
        Ok((Backend { pid: parse(&row, "pid")?, start: parse(&row, "start")? }, row.try_get("stamp")?))
    }

    /// [`backend`](Self::backend), when others may be in the way: if no answer comes, `free` lets them go,
    /// and it is waited for once more.
    pub(super) async fn backend_beside(
        &mut self,
        free: impl Future<Output = ()>,
    ) -> Result<Answer<Backend>, sqlx::Error> {
        let limit = std::mem::replace(&mut self.limit, Duration::MAX);
        let answer = hindered(limit, self.backend(), free).await;
        self.limit = limit;
        Ok(match answer? {
            Answer::AtOnce((backend, _)) => Answer::AtOnce(backend),
            Answer::OnceFree((backend, _)) => Answer::OnceFree(backend),
        })
    }

    /// Begins a transaction, in which this connection keeps its backend even through a pooler. Its bounds
    /// end with it; it may be idle for as long as others are waited for.
    pub(super) async fn begin(&mut self) -> Result<(), sqlx::Error> {
        let (limit, idle) = (self.limit.as_millis(), self.limit.as_millis() * 4);
        self.run(format!(
            "begin; set local statement_timeout = {limit}; \
             set local idle_in_transaction_session_timeout = {idle}"
        ))
        .await
    }

    /// Stamps the session.
    pub(super) async fn mark(&mut self, stamp: &str) -> Result<(), sqlx::Error> {
        self.run(format!("select set_config('tenure.stamp', '{stamp}', false)")).await
    }

    /// What somebody else left in the session that was handed to us; `None` when nothing.
    pub(super) async fn leftovers(&mut self) -> Result<Option<String>, sqlx::Error> {
        let row = self.row(LEFTOVERS).await?;
        let (locks, tables): (u64, u64) = (parse(&row, "locks")?, parse(&row, "tables")?);
        let stamp = if row.try_get::<&str, _>("stamp")?.is_empty() { "no" } else { "a" };
        Ok((locks > 0 || tables > 0 || stamp == "a")
            .then(|| format!("{locks} advisory locks, {tables} temporary relations, {stamp} stamp")))
    }

    /// The classical probe: a temporary table, made, filled, read and dropped, each in its own transaction.
    pub(super) async fn temporary_table(&mut self) -> Result<Table, sqlx::Error> {
        let table = format!("tenure_{:016x}", rand::random::<u64>());
        match self.make_table(&table).await {
            Ok(true) => Ok(Table::Kept),
            Ok(false) => Ok(Table::Lost),
            Err(error) if is_code(&error, UNDEFINED_TABLE) => Ok(Table::Lost),
            // Some roles may not make temporary tables, and nobody may on a standby. There is other
            // session state to look at.
            Err(error) if is_code(&error, INSUFFICIENT_PRIVILEGE) || is_code(&error, READ_ONLY) => {
                Ok(Table::NotAllowed)
            }
            Err(error) => Err(error),
        }
    }

    async fn make_table(&mut self, table: &str) -> Result<bool, sqlx::Error> {
        self.run(format!("create temporary table {table} (probe integer)")).await?;
        self.run(format!("insert into pg_temp.{table} values (1)")).await?;
        let found = self.truth(format!("select count(*) = 1 from pg_temp.{table}")).await?;
        self.run(format!("drop table pg_temp.{table}")).await?;
        Ok(found)
    }

    /// Sets the bounds for the session, where the startup packet didn't carry them, and reads one back.
    pub(super) async fn set_bounds(&mut self, bounds: &mut Bounds) -> Result<Option<u128>, sqlx::Error> {
        loop {
            let set =
                bounds.settings().map(|(name, value)| format!("set_config('{name}', '{value}', false)"));
            let set = set.collect::<Vec<_>>().join(", ");
            match self.run(format!("select {set}")).await {
                Ok(()) => break,
                Err(error) if bounds.can_do_without(&error) => {}
                Err(error) => return Err(error),
            }
        }
        let row = self.row("select setting from pg_settings where name = 'idle_session_timeout'").await?;
        Ok(row.try_get::<&str, _>(0)?.parse().ok())
    }

    /// One statement without a result.
    pub(super) async fn run(&mut self, sql: impl Into<String>) -> Result<(), sqlx::Error> {
        let statement = sqlx::raw_sql(AssertSqlSafe(sql.into())).execute(&mut self.connection);
        bounded(self.limit, statement).await.map(drop)
    }

    /// One row.
    async fn row(&mut self, sql: impl Into<String>) -> Result<PgRow, sqlx::Error> {
        let statement = sqlx::raw_sql(AssertSqlSafe(sql.into())).fetch_one(&mut self.connection);
        bounded(self.limit, statement).await
    }

    /// One boolean.
    pub(super) async fn truth(&mut self, sql: impl Into<String>) -> Result<bool, sqlx::Error> {
        self.row(sql).await?.try_get(0)
    }

    /// Ends the connection, so that the server frees it now and not when it notices.
    pub(super) async fn close(self) {
        let Self { connection, limit, .. } = self;
        let _closed_or_dropped = bounded(limit, connection.close()).await;
    }
}

/// What became of a temporary table.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Table {
    Kept,
    Lost,
    NotAllowed,
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Table::Kept => "temporary table kept",
            Table::Lost => "temporary table lost",
            Table::NotAllowed => "no temporary table is allowed here",
        })
    }
}

/// An answer, and whether it needed others to go.
pub(super) enum Answer<T> {
    AtOnce(T),
    OnceFree(T),
}

/// Waits for `work` no longer than `limit`; then lets go by `free` what may be in its way, and waits again.
pub(super) async fn hindered<T>(
    limit: Duration,
    work: impl Future<Output = Result<T, sqlx::Error>>,
    free: impl Future<Output = ()>,
) -> Result<Answer<T>, sqlx::Error> {
    // Boxed: connecting makes a large future.
    let mut work = Box::pin(work);
    if let Ok(done) = tokio::time::timeout(limit, &mut work).await {
        return done.map(Answer::AtOnce);
    }
    free.await;
    bounded(limit, work).await.map(Answer::OnceFree)
}

async fn bounded<T>(
    limit: Duration,
    work: impl Future<Output = Result<T, sqlx::Error>>,
) -> Result<T, sqlx::Error> {
    tokio::time::timeout(limit, work).await.unwrap_or_else(|_elapsed| {
        let text = format!("no answer within {limit:?}");
        Err(sqlx::Error::Io(std::io::Error::new(std::io::ErrorKind::TimedOut, text)))
    })
}

pub(super) fn is_code(error: &sqlx::Error, code: &str) -> bool {
    error.as_database_error().and_then(sqlx::error::DatabaseError::code).is_some_and(|seen| seen == code)
}

fn parse<T: std::str::FromStr>(row: &PgRow, column: &str) -> Result<T, sqlx::Error>
where
    T::Err: std::error::Error + Send + Sync + 'static,
{
    row.try_get::<&str, _>(column)?.parse().map_err(|error: T::Err| sqlx::Error::Decode(error.into()))
}
