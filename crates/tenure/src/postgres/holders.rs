//! Who holds an advisory lock, whoever it is.

use crate::lease::APPLICATION_NAME_PREFIX;
use serde::Serialize;
use sqlx::{PgConnection, Row as _, postgres::PgRow};

/// A server process that holds the advisory lock of a role's key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct LockHolder {
    /// The key.
    pub key: i64,
    /// The process on the server.
    pub pid: i32,
    /// What it calls itself.
    pub application_name: String,
    /// When its connection was made, in RFC 3339; not shown to every role.
    pub connected_since: Option<String>,
    /// What it does, such as `idle`; not shown to every role.
    pub state: Option<String>,
    /// Since when it does that, in RFC 3339; not shown to every role.
    pub state_since: Option<String>,
    /// Whether it names itself as a lease session of Tenure.
    pub is_tenure: bool,
}

/// The database is read off a lock that this very statement holds: see `sql` for why not off `pg_database`.
const HOLDERS: &str = "\
select ((locks.classid::bigint << 32) | locks.objid::bigint)::text as key, locks.pid::text as pid,
       coalesce(activity.application_name, '') as application_name,
       to_char(activity.backend_start at time zone 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS\"Z\"') as since,
       activity.state,
       to_char(activity.state_change at time zone 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS\"Z\"') as state_since
from pg_locks as locks left join pg_stat_get_activity(null) as activity on activity.pid = locks.pid
where locks.locktype = 'advisory' and locks.objsubid = 1 and locks.granted
  and locks.database = (select database from pg_locks where pid = pg_backend_pid() and database <> 0 limit 1)";

/// Everybody who holds the lock of one of `keys` in this connection's database. One statement; cancel-safe
/// as far as the connection is: after a dropped future it is not to be used again.
///
/// # Errors
///
/// When the database doesn't answer, or with an error.
pub async fn lock_holders(
    connection: &mut PgConnection,
    keys: &[i64],
) -> Result<Vec<LockHolder>, sqlx::Error> {
    let rows = sqlx::raw_sql(HOLDERS).fetch_all(connection).await?;
    let all = rows.iter().map(holder).collect::<Result<Vec<_>, _>>()?;
    Ok(all.into_iter().filter(|holder| keys.contains(&holder.key)).collect())
}

fn holder(row: &PgRow) -> Result<LockHolder, sqlx::Error> {
    let number = |column: &str| -> Result<i64, sqlx::Error> {
        row.try_get::<&str, _>(column)?.parse().map_err(|error: std::num::ParseIntError| {
            sqlx::Error::ColumnDecode { index: column.to_owned(), source: error.into() }
        })
    };
    let application_name: String = row.try_get("application_name")?;
    Ok(LockHolder {
        key: number("key")?,
        pid: i32::try_from(number("pid")?).unwrap_or_default(),
        is_tenure: application_name.starts_with(APPLICATION_NAME_PREFIX),
        application_name,
        connected_since: row.try_get("since")?,
        state: row.try_get("state")?,
        state_since: row.try_get("state_since")?,
    })
}

impl LockHolder {
    /// What to do about a holder that isn't Tenure.
    pub fn advice(&self) -> Option<String> {
        (!self.is_tenure).then(|| {
            format!(
                "key {} is held by something that is not Tenure: {self}; while it holds the key nobody \
                 leads; to free it: select pg_terminate_backend({})",
                self.key, self.pid
            )
        })
    }
}

impl std::fmt::Display for LockHolder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "pid {} ({:?})", self.pid, self.application_name)?;
        if let Some(since) = &self.connected_since {
            write!(f, ", connected since {since}")?;
        }
        if let Some(state) = &self.state {
            write!(f, ", {state}")?;
            if let Some(since) = &self.state_since {
                write!(f, " since {since}")?;
            }
        }
        Ok(())
    }
}
