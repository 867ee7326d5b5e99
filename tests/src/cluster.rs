//! A server with the schema, and replicas of the witness.

use crate::acts;
use sqlx::PgPool;
use std::{path::PathBuf, time::Duration};
use tenure::{Timing, TimingConfig};
use tenure_testkit::{Replica, TestServer};

/// Intervals of the witnesses: bounds that a test can wait for, with room for a noisy machine.
///
/// # Panics
///
/// Never: the order is right.
pub fn timing() -> Timing {
    Timing::new(TimingConfig {
        heartbeat_interval: Duration::from_secs(1),
        ttl: Duration::from_secs(6),
        safety_margin: Duration::from_millis(1500),
        statement_timeout: Duration::from_secs(2),
        drain_timeout: Duration::from_secs(3),
        ..TimingConfig::default()
    })
    .expect("in order")
}

/// A server with Tenure's schema and the table of acts.
#[derive(Debug)]
pub struct Cluster {
    /// The server.
    pub server: TestServer,
    /// A pool for looking at it.
    pub pool: PgPool,
}

impl Cluster {
    /// Starts the server.
    ///
    /// # Panics
    ///
    /// When it can't be had.
    pub async fn start(settings: &[(&str, &str)]) -> Self {
        let server = TestServer::start_with(settings);
        let pool = server.pool().await;
        tenure::schema::migrate(&pool, tenure::schema::MIGRATIONS).await.expect("the schema is made");
        sqlx::raw_sql(acts::TABLE).execute(&pool).await.expect("the table of acts is made");
        Self { server, pool }
    }

    /// Starts a replica of the witness with these roles.
    pub fn witness(&self, roles: u32, envs: &[(&str, &str)]) -> Replica {
        Replica::spawn(witness(), &[self.server.url(), roles.to_string()], envs)
    }

    /// Advisory locks that are held in the database.
    ///
    /// # Panics
    ///
    /// When the server doesn't answer.
    pub async fn locks(&self) -> i64 {
        sqlx::query_scalar("select count(*) from pg_locks where locktype = 'advisory'")
            .fetch_one(&self.pool)
            .await
            .expect("the locks are counted")
    }
}

/// Path of the witness, beside the running test.
///
/// # Panics
///
/// When the test isn't where Cargo puts it.
pub fn witness() -> PathBuf {
    // target/debug/deps/test-hash → target/debug/witness
    let test = std::env::current_exe().expect("the test's own path");
    let folder = test.parent().and_then(|deps| deps.parent()).expect("target/PROFILE/deps");
    folder.join("witness")
}
