//! The schema `tenure` and its migrations.
//!
//! Migrations only go forward, and each leaves the schema usable for the binary before it, so that old
//! and new binaries run side by side during a deploy. Every statement can be run again without effect:
//! that makes the printed script and a half-remembered manual run harmless.
//!
//! Several replicas may migrate at once: the first takes a transaction-level lock, the others wait for it
//! and find nothing to do. A database role without the right to create anything can still start when the
//! migrations were applied by somebody else.

use sqlx::{AssertSqlSafe, PgPool, Postgres, Row, Transaction};
use std::{collections::HashSet, fmt::Write as _};
use thiserror::Error;

/// One step of a component's schema.
#[derive(Debug, Clone, Copy)]
pub struct Migration {
    /// Whose schema it is: `lease`, `jobs`, …
    pub component: &'static str,
    /// Its place in the component's order, from 1.
    pub version: i32,
    /// What it does, in a few words.
    pub name: &'static str,
    /// Statements that can be run twice.
    pub sql: &'static str,
}

/// The lease engine's own migrations.
pub const MIGRATIONS: &[Migration] = &[Migration {
    component: "lease",
    version: 1,
    name: "lease and term",
    sql: include_str!("../migrations/0001_lease.sql"),
}];

const BOOTSTRAP: &str = "\
create schema if not exists tenure;
create table if not exists tenure.migration (
    component  text        not null,
    version    integer     not null,
    name       text        not null,
    applied_at timestamptz not null default now(),
    primary key (component, version)
);
comment on table tenure.migration is 'Migrations that were applied, by component.';
";

/// Serializes concurrent migrations of one database. Never changed: old and new binaries share it.
const MIGRATION_LOCK: i64 = 1_840_000_000;

/// Why the schema could not be brought up to date.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum MigrateError {
    /// The database can't be reached, or failed while it was asked what is applied.
    #[error("reading which migrations are applied")]
    Inspect(#[source] sqlx::Error),
    /// The database role may not create what is missing.
    #[error(
        "this database role may not create the schema `tenure` ({missing} migrations missing): let a \
         database administrator run the output of `tenured migrate --print`"
    )]
    NotPermitted {
        /// How many migrations are missing.
        missing: usize,
        /// What the server refused.
        #[source]
        source: sqlx::Error,
    },
    /// A migration failed. Nothing was changed.
    #[error("migration {component} {version} ({name}) failed; nothing was changed")]
    Apply {
        /// Whose schema.
        component: &'static str,
        /// Which step.
        version: i32,
        /// What it does.
        name: &'static str,
        /// What the server refused.
        #[source]
        source: sqlx::Error,
    },
    /// Beginning or committing failed. Nothing was changed.
    #[error("the migration transaction failed; nothing was changed")]
    Transaction(#[source] sqlx::Error),
}

/// The migrations of `all` that the database lacks, in order.
///
/// # Errors
///
/// [`MigrateError::Inspect`].
pub async fn missing(pool: &PgPool, all: &[Migration]) -> Result<Vec<Migration>, MigrateError> {
    let mut tx = pool.begin().await.map_err(MigrateError::Inspect)?;
    missing_in(&mut tx, all).await.map_err(MigrateError::Inspect)
}

async fn missing_in(
    tx: &mut Transaction<'static, Postgres>,
    all: &[Migration],
) -> Result<Vec<Migration>, sqlx::Error> {
    // Not `to_regclass`: it answers from a cache that is as old as the transaction's start, and this may
    // have waited long for another replica's migration.
    let exists = sqlx::raw_sql(
        "select exists (select from pg_tables where schemaname = 'tenure' and tablename = 'migration')",
    )
    .fetch_one(&mut **tx)
    .await?
    .get::<bool, _>(0);
    let mut applied = HashSet::new();
    if exists {
        for row in
            sqlx::raw_sql("select component, version from tenure.migration").fetch_all(&mut **tx).await?
        {
            applied.insert((row.get::<String, _>(0), row.get::<i32, _>(1)));
        }
    }
    Ok(all.iter().filter(|m| !applied.contains(&(m.component.to_owned(), m.version))).copied().collect())
}

/// Applies what is missing, in one transaction, and returns it. Idempotent; safe from several replicas.
///
/// Cancel-safe: a dropped future rolls back.
///
/// # Errors
///
/// See [`MigrateError`]. Nothing is half done.
pub async fn migrate(pool: &PgPool, all: &[Migration]) -> Result<Vec<Migration>, MigrateError> {
    let wanted = missing(pool, all).await?;
    if wanted.is_empty() {
        return Ok(wanted);
    }
    let mut tx = pool.begin().await.map_err(MigrateError::Transaction)?;
    sqlx::raw_sql(AssertSqlSafe(format!("select pg_advisory_xact_lock({MIGRATION_LOCK})")))
        .execute(&mut *tx)
        .await
        .map_err(MigrateError::Transaction)?;
    let wanted = missing_in(&mut tx, all).await.map_err(MigrateError::Inspect)?;
    let refused = |source: sqlx::Error, failed: &Migration| {
        let code = source.as_database_error().and_then(sqlx::error::DatabaseError::code).unwrap_or_default();
        if code == "42501" {
            MigrateError::NotPermitted { missing: wanted.len(), source }
        } else {
            let Migration { component, version, name, .. } = *failed;
            MigrateError::Apply { component, version, name, source }
        }
    };
    if let Some(first) = wanted.first() {
        sqlx::raw_sql(BOOTSTRAP).execute(&mut *tx).await.map_err(|e| refused(e, first))?;
    }
    for migration in &wanted {
        sqlx::raw_sql(AssertSqlSafe(apply(migration)))
            .execute(&mut *tx)
            .await
            .map_err(|e| refused(e, migration))?;
    }
    tx.commit().await.map_err(MigrateError::Transaction)?;
    Ok(wanted)
}

fn apply(migration: &Migration) -> String {
    format!(
        "{}\ninsert into tenure.migration (component, version, name) values ('{}', {}, '{}') \
         on conflict do nothing;\n",
        migration.sql, migration.component, migration.version, migration.name
    )
}

/// All of `all` as one script for a database administrator. It can be run twice.
pub fn script(all: &[Migration]) -> String {
    let mut script = format!(
        "-- Creates or upgrades the schema `tenure`. It can be run again without effect.\nbegin;\n{BOOTSTRAP}"
    );
    for migration in all {
        let _infallible = write!(
            script,
            "\n-- {} {}: {}\n{}",
            migration.component,
            migration.version,
            migration.name,
            apply(migration)
        );
    }
    script.push_str(
        "commit;\n\n-- Then let the service's own role use it:\n\
         -- grant usage on schema tenure to SERVICE;\n\
         -- grant select, insert, update, delete on all tables in schema tenure to SERVICE;\n\
         -- grant usage on all sequences in schema tenure to SERVICE;\n",
    );
    script
}
