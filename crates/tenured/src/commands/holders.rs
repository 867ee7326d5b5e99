//! Who holds a role's key now, whoever it is.

use super::bounded;
use crate::exit::Failure;
use serde::Serialize;
use sqlx::{PgConnection, Row as _};
use tenure::lease::APPLICATION_NAME_PREFIX;

/// A server process that holds an advisory lock on a role's key.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Holder {
    pub(crate) key: i64,
    pub(crate) pid: i32,
    pub(crate) application_name: String,
    /// When the connection was made, in RFC 3339.
    pub(crate) connected_since: Option<String>,
    pub(crate) state: Option<String>,
    /// Whether it names itself as a lease session of Tenure.
    pub(crate) is_tenure: bool,
}

const HOLDERS: &str = "\
select (locks.classid::bigint << 32) | locks.objid::bigint as key, locks.pid,
       coalesce(activity.application_name, '') as application_name,
       to_char(activity.backend_start at time zone 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS\"Z\"') as since,
       activity.state
from pg_locks as locks left join pg_stat_activity as activity on activity.pid = locks.pid
where locks.locktype = 'advisory' and locks.objsubid = 1 and locks.granted
  and locks.database = (select oid from pg_database where datname = current_database())";

/// Everybody who holds one of `keys`.
pub(crate) async fn holders(connection: &mut PgConnection, keys: &[i64]) -> Result<Vec<Holder>, Failure> {
    let rows = bounded(sqlx::raw_sql(HOLDERS).fetch_all(connection)).await?;
    let decode = |row: &sqlx::postgres::PgRow| -> Result<Holder, sqlx::Error> {
        let application_name: String = row.try_get("application_name")?;
        Ok(Holder {
            key: row.try_get("key")?,
            pid: row.try_get("pid")?,
            is_tenure: application_name.starts_with(APPLICATION_NAME_PREFIX),
            application_name,
            connected_since: row.try_get("since")?,
            state: row.try_get("state")?,
        })
    };
    let all: Vec<Holder> =
        rows.iter().map(decode).collect::<Result<_, _>>().map_err(|error| Failure::from_database(&error))?;
    Ok(all.into_iter().filter(|holder| keys.contains(&holder.key)).collect())
}

impl Holder {
    /// What to do about a holder that isn't Tenure.
    pub(crate) fn advice(&self) -> Option<String> {
        (!self.is_tenure).then(|| {
            format!(
                "key {} is held by something that is not Tenure: pid {} ({:?}); while it holds it nobody leads; \
                 to free it: select pg_terminate_backend({})",
                self.key, self.pid, self.application_name, self.pid
            )
        })
    }
}
