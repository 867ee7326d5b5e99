//! What an examination must not leave on any backend: advisory locks, temporary tables, settings.

use super::door::Open;
use sqlx::{AssertSqlSafe, Connection as _, PgConnection, Row as _, postgres::PgConnectOptions};
use std::{collections::BTreeSet, time::Duration};
use tokio::time::{Instant, sleep, timeout};

/// Things that are there, each in words.
pub type Residue = BTreeSet<String>;

/// A backend whose client has just left may need a moment to end.
const PATIENCE: Duration = Duration::from_secs(20);
const STEP: Duration = Duration::from_millis(20);
/// How long a pool is asked for another backend.
const ATTEMPT: Duration = Duration::from_millis(500);
/// How many backends of a pool are looked into.
const BACKENDS: usize = 10;

const LOCKS_AND_TABLES: &str = "\
select 'lock ' || classid || ' ' || objid from pg_locks
where locktype = 'advisory' and database = (select oid from pg_database where datname = current_database())
union all
select 'table ' || relname from pg_class where relpersistence = 't' and relkind = 'r'";

/// Settings that differ from what the backend was started with, of those that the examination sets.
const SETTINGS: &str = "\
select 'setting ' || name || ' = ' || setting from pg_settings
where source = 'session' and (name in ('idle_session_timeout', 'idle_in_transaction_session_timeout',
    'statement_timeout', 'client_connection_check_interval') or name like 'tcp\\_%')
union all
select 'stamp ' || current_setting('tenure.stamp', true)
where coalesce(current_setting('tenure.stamp', true), '') <> ''";

/// What is there now: locks and tables of the whole database, settings of the backends behind the door.
pub async fn residue(open: &Open) -> Residue {
    let mut found = outside(open).await;
    if open.pooled {
        found.extend(settings(&open.url).await);
    }
    found
}

/// The part that is seen without going through the door: locks and tables.
pub(super) async fn outside(open: &Open) -> Residue {
    let mut direct = PgConnection::connect(&open.direct).await.expect("the server answers");
    let rows: Vec<String> =
        sqlx::query_scalar(LOCKS_AND_TABLES).fetch_all(&mut direct).await.expect("the server answers");
    direct.close().await.expect("the session ends");
    rows.into_iter().collect()
}

/// What has come since `before`, once that is nothing or doesn't go away.
pub(super) async fn since(before: &Residue, open: &Open) -> Residue {
    let end = Instant::now() + PATIENCE;
    loop {
        let now = residue(open).await;
        let new: Residue = now.difference(before).cloned().collect();
        if new.is_empty() || Instant::now() > end {
            return new;
        }
        sleep(STEP).await;
    }
}

/// Looks into several backends at once: each is kept by a transaction while the next is asked for.
async fn settings(url: &str) -> Residue {
    let options: PgConnectOptions = url.parse().expect("a URL");
    let options = options.extra_float_digits(None).application_name("residue");
    let (mut found, mut kept) = (Residue::new(), Vec::new());
    for _ in 0..BACKENDS {
        let Ok(Ok((connection, rows))) = timeout(ATTEMPT, look(&options, true)).await else { break };
        found.extend(rows);
        kept.push(connection);
    }
    if kept.is_empty() {
        // A pooler in statement mode has no transactions; one backend can be looked into.
        if let Ok(Ok((connection, rows))) = timeout(ATTEMPT, look(&options, false)).await {
            found.extend(rows);
            let _closed_or_dropped = timeout(ATTEMPT, connection.close()).await;
        }
    }
    for mut connection in kept {
        let _closed_or_dropped = timeout(ATTEMPT, async {
            sqlx::raw_sql("rollback").execute(&mut connection).await?;
            connection.close().await
        })
        .await;
    }
    found
}

async fn look(options: &PgConnectOptions, kept: bool) -> Result<(PgConnection, Vec<String>), sqlx::Error> {
    let mut connection = PgConnection::connect_with(options).await?;
    if kept {
        sqlx::raw_sql("begin").execute(&mut connection).await?;
    }
    let rows = sqlx::raw_sql(AssertSqlSafe(SETTINGS)).fetch_all(&mut connection).await?;
    let rows = rows.iter().map(|row| row.try_get(0)).collect::<Result<_, _>>()?;
    Ok((connection, rows))
}
