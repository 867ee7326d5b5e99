//! Connections for the work, which may go through a transaction pooler.
//!
//! The lease needs a session; the work doesn't, so `database.url` may point to `PgBouncer` in transaction
//! mode with its stock settings. Such a pooler gives each *transaction* some backend, and so three things
//! must not happen on a connection for the work:
//!
//! * Startup parameters that the pooler doesn't know; sqlx sends `extra_float_digits` by default.
//! * State of a session: `SET`, `LISTEN`, temporary tables, session-level locks, named prepared
//!   statements. A cached statement is prepared on one backend and executed on another.
//! * A statement with parameters outside an explicit transaction. Even unnamed, it is two round trips
//!   (parse, then bind), and without a transaction the second may reach another backend.

use sqlx::{
    PgPool, Postgres, SqlSafeStr,
    postgres::{PgArguments, PgConnectOptions, PgPoolOptions},
    query::Query,
};
use std::time::Duration;

/// How long a caller waits for a free connection of the work pool.
const ACQUIRE_LIMIT: Duration = Duration::from_secs(10);

/// How to connect for the work: without what a stock `PgBouncer` refuses, and without cached statements.
///
/// # Errors
///
/// When `url` is no address of a `PostgreSQL` database.
pub fn work_connect_options(url: &str) -> Result<PgConnectOptions, sqlx::Error> {
    Ok(url
        .parse::<PgConnectOptions>()?
        .application_name("tenured work")
        .extra_float_digits(None)
        .statement_cache_capacity(0))
}

/// A pool for the work that connects when it is first used, with up to `max_connections`.
///
/// # Errors
///
/// When `url` is no address of a `PostgreSQL` database.
pub fn work_pool(url: &str, max_connections: u32) -> Result<PgPool, sqlx::Error> {
    Ok(PgPoolOptions::new()
        .max_connections(max_connections)
        .acquire_timeout(ACQUIRE_LIMIT)
        .connect_lazy_with(work_connect_options(url)?))
}

/// A statement that leaves nothing prepared on its connection. Use it inside an explicit transaction.
pub fn query<'a>(sql: impl SqlSafeStr) -> Query<'a, Postgres, PgArguments> {
    sqlx::query(sql).persistent(false)
}
