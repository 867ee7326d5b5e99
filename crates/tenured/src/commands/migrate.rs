//! `tenured migrate`: brings the schema up to date, or prints how.

use crate::{
    config::Databases,
    exit::{Failure, chain},
    run::migrations,
};
use tenure::schema::{self, MigrateError};

/// Prints the SQL for a database administrator.
pub(crate) fn print() {
    say!("{}", schema::script(&migrations()));
}

/// Applies what is missing.
pub(crate) async fn apply(databases: &Databases) -> Result<(), Failure> {
    let pool = tenure_jobs::work_pool(databases.work.expose(), 2)
        .map_err(|_quotes_the_url| crate::exit::usage("database.url can't be read"))?;
    let applied = schema::migrate(&pool, &migrations()).await.map_err(|error| match error {
        MigrateError::NotPermitted { .. } => Failure::Other(chain(&error)),
        error => Failure::from_database(&error),
    })?;
    if applied.is_empty() {
        say!("the schema is up to date");
    }
    for migration in applied {
        say!("applied {} {}: {}", migration.component, migration.version, migration.name);
    }
    Ok(())
}
