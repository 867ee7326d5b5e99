//! One-shot commands: what they print and how they end.

pub(crate) mod check_config;
pub(crate) mod doctor;
pub(crate) mod enqueue;
pub(crate) mod jobs;
pub(crate) mod ledgers;
pub(crate) mod migrate;
pub(crate) mod resign;
pub(crate) mod status;
pub(crate) mod workers;

use crate::exit::Failure;
use sqlx::{Connection as _, PgConnection, Postgres, Transaction};
use std::{future::Future, time::Duration};

/// How long a one-shot command waits for a connection, and for each statement.
const PATIENCE: Duration = Duration::from_secs(10);

/// Connects for one command. Bounded.
pub(crate) async fn connect(url: &str) -> Result<PgConnection, Failure> {
    let options = tenure_jobs::work_connect_options(url)
        .map_err(|_quotes_the_url| crate::exit::usage("the database URL can't be read"))?
        .application_name("tenured");
    bounded(PgConnection::connect_with(&options)).await
}

/// One transaction for all statements, so that a transaction pooler keeps to one backend.
async fn begin(connection: &mut PgConnection) -> Result<Transaction<'_, Postgres>, Failure> {
    bounded(connection.begin()).await
}

/// Bounds one statement, and explains its failure.
pub(crate) async fn bounded<T>(work: impl Future<Output = Result<T, sqlx::Error>>) -> Result<T, Failure> {
    match tokio::time::timeout(PATIENCE, work).await {
        Ok(result) => result.map_err(|error| explained(&error)),
        Err(_elapsed) => Err(Failure::Unreachable(format!("no answer within {PATIENCE:?}"))),
    }
}

/// A missing schema is the most likely mistake: say what to do.
fn explained(error: &(dyn std::error::Error + 'static)) -> Failure {
    let mut cause = Some(error);
    while let Some(error) = cause {
        let code = error.downcast_ref::<sqlx::Error>().and_then(|e| e.as_database_error()?.code());
        if code.is_some_and(|code| matches!(code.as_ref(), "42P01" | "3F000")) {
            return Failure::Other("the schema `tenure` is missing or old: run `tenured migrate`".to_owned());
        }
        cause = error.source();
    }
    Failure::from_database(error)
}

/// Prints one JSON document.
fn print_json(document: &serde_json::Value) -> Result<(), Failure> {
    let text = serde_json::to_string_pretty(document).map_err(|error| Failure::Other(error.to_string()))?;
    say!("{text}");
    Ok(())
}
