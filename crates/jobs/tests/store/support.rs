//! A server of its own for each test, with the schema in it.

use chrono::{DateTime, Utc};
use sqlx::{PgConnection, PgPool, Postgres, Transaction};
use std::time::Duration;
use tenure::Epoch;
use tenure_jobs::{Claim, ClaimedJob, Enqueued, JobState, NewJob, claim, enqueue, read_job};
use tenure_testkit::TestServer;
use uuid::Uuid;

pub(crate) struct Database {
    pub(crate) pool: PgPool,
    server: TestServer,
}

impl Database {
    pub(crate) async fn create() -> Self {
        let server = TestServer::start();
        let pool = tenure_jobs::work_pool(&server.url(), 8).unwrap();
        let all = [tenure::schema::MIGRATIONS, tenure_jobs::MIGRATIONS].concat();
        tenure::schema::migrate(&pool, &all).await.unwrap();
        Self { pool, server }
    }

    /// The same database through new sessions.
    pub(crate) async fn reconnect(self) -> Self {
        self.pool.close().await;
        Self { pool: tenure_jobs::work_pool(&self.server.url(), 8).unwrap(), ..self }
    }

    pub(crate) async fn begin(&self) -> Transaction<'static, Postgres> {
        self.pool.begin().await.unwrap()
    }

    pub(crate) async fn add(&self, job: NewJob) -> Enqueued {
        let mut tx = self.begin().await;
        let enqueued = enqueue(&mut tx, &job).await.unwrap();
        tx.commit().await.unwrap();
        enqueued
    }

    /// Claims in a transaction of its own.
    pub(crate) async fn claim(&self, kinds: &[&str], limit: u32, lease: Duration) -> Vec<ClaimedJob> {
        let mut tx = self.begin().await;
        let claimed = claim_in(&mut tx, kinds, limit, lease).await;
        tx.commit().await.unwrap();
        claimed
    }

    pub(crate) async fn state(&self, job: i64) -> JobState {
        read_job(&mut *self.begin().await, job).await.unwrap().state
    }

    /// The time by the server's clock.
    pub(crate) async fn now(&self) -> DateTime<Utc> {
        sqlx::query_scalar("select pg_catalog.now()").fetch_one(&self.pool).await.unwrap()
    }

    pub(crate) async fn execute(&self, sql: &str) {
        sqlx::raw_sql(sqlx::AssertSqlSafe(sql.to_owned())).execute(&self.pool).await.unwrap();
    }
}

pub(crate) async fn claim_in(
    conn: &mut PgConnection,
    kinds: &[&str],
    limit: u32,
    lease: Duration,
) -> Vec<ClaimedJob> {
    let kinds: Vec<String> = kinds.iter().map(ToString::to_string).collect();
    let request = Claim { kinds: &kinds, limit, epoch: Epoch(7), instance: Uuid::new_v4(), lease };
    claim(conn, &request).await.unwrap()
}

pub(crate) fn job(kind: &str) -> NewJob {
    NewJob::new(kind, serde_json::json!({}))
}

pub(crate) fn ids(jobs: &[ClaimedJob]) -> Vec<i64> {
    jobs.iter().map(|job| job.id).collect()
}

pub(crate) const HOUR: Duration = Duration::from_hours(1);
