//! One connection of an examination: how it is opened, and what it is asked.
//!
//! Everything goes through the simple protocol. A prepared statement fails through some poolers in ways
//! that would hide what is to be seen.

use crate::{FrontDoor, LeaseAddress, Timing, clock::BootClock, clock::Clock as _};
use sqlx::{AssertSqlSafe, Connection as _, PgConnection, Row as _, postgres::PgRow};
use std::{future::Future, time::Duration};

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
    pub(super) pid: i32,
    /// Microseconds since 1970, by the server's clock.
    pub(super) backend_start: i64,
    pub(super) canary: Option<String>,
    /// `idle_session_timeout` in milliseconds; `None` when the server doesn't know it.
    pub(super) idle_session_timeout: Option<u128>,
    pub(super) version: i32,
    pub(super) version_text: String,
    pub(super) in_recovery: bool,
    pub(super) timeline: String,
    pub(super) database: String,
    pub(super) database_oid: i64,
    pub(super) system: String,
}

const FACTS: &str = "\
select me.pid::text,
       (extract(epoch from me.backend_start) * 1000000)::bigint::text as backend_start,
       (extract(epoch from clock_timestamp() - me.backend_start) * 1000000)::bigint::text as age,
       current_setting('tenure.canary', true) as canary,
       (select setting from pg_settings where name = 'idle_session_timeout') as bound,
       current_setting('server_version_num') as version_number,
       version() as version,
       pg_is_in_recovery()::text as in_recovery,
       current_database()::text as database,
       (select oid::bigint::text from pg_database where datname = current_database()) as database_oid
from pg_stat_get_activity(pg_backend_pid()) as me";

/// A primary's timeline. Errors in recovery, so it is asked only outside of it.
const TIMELINE: &str = "select substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8)";
/// The cluster's identifier. Some managed services keep it to themselves.
const SYSTEM: &str = "select system_identifier::text from pg_control_system()";

impl Probe {
    /// Connects, with the bounds in the startup packet unless a session pooler is declared.
    pub(super) async fn connect(
        address: &LeaseAddress,
        timing: &Timing,
        application_name: &str,
    ) -> Result<Self, sqlx::Error> {
        let canary = format!("{:032x}", rand::random::<u128>());
        let mut options = address.options.clone().application_name(application_name);
        if address.front_door == FrontDoor::Direct {
            options = options.options([("tenure.canary", canary.as_str())]).options(bounds(timing));
        }
        let limit = timing.statement_timeout();
        let attempt = BootClock.now();
        let mut connection = bounded(limit, PgConnection::connect_with(&options)).await?;
        if address.front_door == FrontDoor::SessionPooler {
            let set: Vec<_> = bounds(timing)
                .iter()
                .map(|(name, value)| format!("set_config('{name}', '{value}', false)"))
                .collect();
            let set = format!("select {}", set.join(", "));
            bounded(limit, sqlx::raw_sql(AssertSqlSafe(set)).execute(&mut connection)).await?;
        }
        let row = bounded(limit, sqlx::raw_sql(FACTS).fetch_one(&mut connection)).await?;
        let elapsed = BootClock.now().since(attempt);
        let age = Duration::from_micros(parse(&row, "age")?);
        let in_recovery = row.try_get::<&str, _>("in_recovery")? == "true";
        let timeline = if in_recovery {
            String::new()
        } else {
            bounded(limit, sqlx::raw_sql(TIMELINE).fetch_one(&mut connection)).await?.try_get(0)?
        };
        let system = match bounded(limit, sqlx::raw_sql(SYSTEM).fetch_one(&mut connection)).await {
            Ok(row) => row.try_get(0)?,
            Err(sqlx::Error::Database(_)) => "not shown by this server".to_owned(),
            Err(error) => return Err(error),
        };
        let facts = Facts {
            pid: parse(&row, "pid")?,
            backend_start: parse(&row, "backend_start")?,
            canary: row.try_get("canary")?,
            idle_session_timeout: row.try_get::<Option<&str>, _>("bound")?.and_then(|text| text.parse().ok()),
            version: parse(&row, "version_number")?,
            version_text: row.try_get("version")?,
            in_recovery,
            timeline,
            database: row.try_get("database")?,
            database_oid: parse(&row, "database_oid")?,
            system,
        };
        Ok(Self { connection, canary, age, elapsed, facts, limit })
    }

    /// Pid and stamp of whatever backend answers now.
    pub(super) async fn identity(&mut self) -> Result<(i32, Option<String>), sqlx::Error> {
        let row = self
            .row(
                "select me.pid::text as pid, current_setting('tenure.stamp', true) as stamp \
                 from pg_stat_get_activity(pg_backend_pid()) as me",
            )
            .await?;
        Ok((parse(&row, "pid")?, row.try_get("stamp")?))
    }

    /// One statement without a result.
    pub(super) async fn run(&mut self, sql: impl Into<String>) -> Result<(), sqlx::Error> {
        let statement = sqlx::raw_sql(AssertSqlSafe(sql.into())).execute(&mut self.connection);
        bounded(self.limit, statement).await.map(drop)
    }

    /// One row.
    pub(super) async fn row(&mut self, sql: impl Into<String>) -> Result<PgRow, sqlx::Error> {
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

/// The session's bounds: after ttl of silence, whatever the cause, the server frees the locks by itself.
///
/// `idle_session_timeout` covers a process that is frozen or cut off; the TCP settings find a dead peer
/// while a statement runs; `client_connection_check_interval` notices a closed socket during one.
fn bounds(timing: &Timing) -> [(&'static str, String); 8] {
    let (ttl, statement) = (timing.ttl(), timing.statement_timeout());
    let seconds = |duration: Duration| duration.as_secs().max(1).to_string();
    [
        ("idle_session_timeout", ttl.as_millis().to_string()),
        ("idle_in_transaction_session_timeout", statement.as_millis().to_string()),
        ("statement_timeout", statement.as_millis().to_string()),
        ("tcp_user_timeout", ttl.as_millis().to_string()),
        ("tcp_keepalives_idle", seconds(ttl / 3)),
        ("tcp_keepalives_interval", seconds(ttl / 6)),
        ("tcp_keepalives_count", "3".to_owned()),
        ("client_connection_check_interval", (ttl / 3).as_millis().to_string()),
    ]
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

fn parse<T: std::str::FromStr>(row: &PgRow, column: &str) -> Result<T, sqlx::Error>
where
    T::Err: std::error::Error + Send + Sync + 'static,
{
    row.try_get::<&str, _>(column)?.parse().map_err(|error: T::Err| sqlx::Error::Decode(error.into()))
}
