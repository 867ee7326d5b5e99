//! A service with one worker that runs on exactly one of its replicas.

#[cfg(feature = "billing")]
mod billing;

use sqlx::PgPool;
use std::{env, error::Error};
use tenure::{FrontDoor, Instance, LeaseAddress, Signals, Timing, gate, schema};
use uuid::Uuid;

tenure::workers! {
    /// Everything that this service may run on one replica at a time.
    fn workers(pool: &PgPool) {
        "billing" = 1_840_000_100, feature "billing", toggle "BILLING_ENABLED"
            => billing::Billing { pool: pool.clone() };
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    tracing_subscriber::fmt()
        .json()
        .flatten_event(true)
        .with_writer(std::io::stderr)
        .with_env_filter("info,sqlx=warn")
        .init();
    let mut signals = Signals::listen()?;
    let url = env::var("DATABASE_URL")?;
    let pool = PgPool::connect(&url).await?;

    let declarations = workers();
    for gate in gate::gates(&declarations).map_err(all)? {
        gate.announce();
    }
    let open = gate::open_workers(&declarations, &pool).map_err(all)?;

    schema::migrate(&pool, schema::MIGRATIONS).await?;
    let address = LeaseAddress::parse(&url, FrontDoor::Direct)?;
    let instance = Instance::builder(address, Timing::default()).workers(open).start(Uuid::new_v4())?;
    tracing::info!(event = "service.started", instance = %instance.id());
    Ok(instance.run_until_signal(&mut signals).await?)
}

/// Every toggle that can't be read, in one message.
fn all(errors: Vec<gate::ToggleError>) -> String {
    errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}
