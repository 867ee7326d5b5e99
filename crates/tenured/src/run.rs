//! `tenured run`: from the configuration to leading, and back down in order.

use crate::{
    config::{Databases, Listen, Settings},
    exit::{Failure, chain},
    http::{self, Health},
    logging,
    registry::{Context, workers},
    same_database, telemetry,
};
use sqlx::PgPool;
use std::{sync::Arc, time::Duration};
use tenure::{
    Gate, Instance, Outcome, Signals, gate,
    schema::{self, MigrateError, Migration},
};
use uuid::Uuid;

/// The longest wait between two tries to reach the database at start.
const LONGEST_WAIT: Duration = Duration::from_secs(10);

/// Every migration that this binary may need, whatever workers are compiled in.
pub(crate) fn migrations() -> Vec<Migration> {
    schema::MIGRATIONS.iter().chain(tenure_jobs::MIGRATIONS).copied().collect()
}

/// Runs until a signal. See the module.
pub(crate) async fn run(settings: Settings, no_migrate: bool) -> Result<(), Failure> {
    let signals = Signals::listen().map_err(|error| Failure::Other(format!("signal handlers: {error}")))?;
    let id = Uuid::new_v4();
    let gates = gates()?;
    let open = gates.iter().any(|gate| gate.outcome == Outcome::Runs);
    // An inert process needs no database: a fresh install has all toggles off.
    let databases = if open { Some(settings.databases()?) } else { settings.databases().ok() };
    logging::start(&settings.log, id).map_err(crate::exit::usage)?;
    let metrics = telemetry::start().map_err(Failure::Other)?;
    for gate in &gates {
        gate.announce();
    }
    for variable in unknown_toggles() {
        tracing::warn!(
            event = "worker.toggle_unknown",
            variable,
            advice = "this binary knows no such worker; `tenured workers` lists the toggles"
        );
    }
    let health = Arc::new(Health::new(id, gates, metrics));
    if let Listen::On(address) = settings.http.listen {
        http::serve(address, Arc::clone(&health)).await?;
    }
    let result = match databases {
        Some(databases) => lead(settings, &databases, no_migrate, id, &health, signals).await,
        None => idle(&health, signals).await,
    };
    tracing::info!(event = "process.stopped", ok = result.is_ok());
    result
}

/// Reads the toggles.
pub(crate) fn gates() -> Result<Vec<Gate>, Failure> {
    gate::gates(&workers()).map_err(|errors| {
        Failure::Config(crate::config::ConfigErrors(errors.iter().map(ToString::to_string).collect()))
    })
}

/// Variables that look like toggles and are none. A misspelled one would leave a worker off unnoticed.
pub(crate) fn unknown_toggles() -> Vec<String> {
    let known: Vec<&str> = workers().iter().map(|worker| worker.toggle).collect();
    std::env::vars_os()
        .filter_map(|(name, _)| name.into_string().ok())
        .filter(|name| name.starts_with("TENURE_") && name.ends_with("_ENABLED") && !name.contains("__"))
        .filter(|name| !known.contains(&name.as_str()))
        .collect()
}

/// No gate is open and no database is known: stays up, so that a deployment with everything off is healthy.
async fn idle(health: &Health, mut signals: Signals) -> Result<(), Failure> {
    health.ready();
    tracing::info!(event = "process.idle", reason = "no worker is compiled in and switched on");
    signals.next().await;
    Ok(())
}

async fn lead(
    settings: Settings,
    databases: &Databases,
    no_migrate: bool,
    id: Uuid,
    health: &Health,
    mut signals: Signals,
) -> Result<(), Failure> {
    let pool = tenure_jobs::work_pool(databases.work.expose(), settings.database.max_connections)
        .map_err(|_quotes_the_url| crate::exit::usage("database.url can't be read"))?;
    let context = Context { pool: pool.clone(), settings };
    let workers = gate::open_workers(&workers(), &context)
        .map_err(|_read_before| Failure::Other("the toggles changed while they were read".to_owned()))?;
    if !no_migrate && !workers.is_empty() {
        tokio::select! {
            migrated = migrate(&pool, health) => migrated?,
            _ = signals.next() => return Ok(()),
        }
    }
    match same_database::check(databases).await {
        // What can't be reached is told by the examination, again and again, until it can.
        Ok(()) | Err(Failure::Unreachable(_) | Failure::Other(_)) => {}
        Err(refused) => return Err(refused),
    }
    let instance = Instance::builder(databases.lease.clone(), databases.timing)
        .workers(workers)
        .start(id)
        .map_err(|error| Failure::Other(chain(&error)))?;
    health.watch(instance.watch());
    instance.run_until_signal(&mut signals).await.map_err(|error| Failure::Other(chain(&error)))?;
    // Idle connections only: every worker's future is gone. Bounded, since the server may be gone too.
    let _closed_or_late = tokio::time::timeout(Duration::from_secs(2), pool.close()).await;
    Ok(())
}

/// Brings the schema up to date. An unreachable database is waited for; a missing right is final.
async fn migrate(pool: &PgPool, health: &Health) -> Result<(), Failure> {
    let mut wait = Duration::from_millis(250);
    loop {
        let error = match schema::migrate(pool, &migrations()).await {
            Ok(applied) => {
                for Migration { component, version, name, .. } in applied {
                    tracing::info!(event = "schema.migrated", component, version, name);
                }
                return Ok(());
            }
            Err(error) => error,
        };
        let reason = chain(&error);
        if matches!(error, MigrateError::NotPermitted { .. } | MigrateError::Apply { .. }) {
            return Err(Failure::Other(reason));
        }
        tracing::warn!(
            event = "schema.waiting",
            reason,
            advice = "the database has to be reached before anything can be led"
        );
        health.not_ready(&format!("the schema can't be checked: {reason}"));
        tokio::time::sleep(wait).await;
        wait = (wait * 2).min(LONGEST_WAIT);
    }
}
