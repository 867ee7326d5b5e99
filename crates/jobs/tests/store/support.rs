//! A migrated database for each test.

use sqlx::{PgConnection, PgPool, Postgres, Transaction};
use std::time::Duration;
use tenure::Epoch;
use tenure_jobs::{Claim, ClaimedJob, Enqueued, JobState, NewJob, claim, enqueue, read_job};
use uuid::Uuid;

pub struct Database {
    pub pool: PgPool,
    url: String,
}

impl Database {
    pub async fn create() -> Self {
        let admin = tenure_jobs::work_pool("postgres://postgres@127.0.0.1:54987/postgres", 1).unwrap();
        let name = format!("t{}", Uuid::new_v4().simple());
        sqlx::raw_sql(sqlx::AssertSqlSafe(format!("create database {name}"))).execute(&admin).await.unwrap();
        let url = format!("postgres://postgres@127.0.0.1:54987/{name}");
        let pool = tenure_jobs::work_pool(&url, 8).unwrap();
        let all = [tenure::schema::MIGRATIONS, tenure_jobs::MIGRATIONS].concat();
        tenure::schema::migrate(&pool, &all).await.unwrap();
        Self { pool, url }
    }

    /// The same database through new sessions.
    pub async fn reconnect(self) -> Self {
        self.pool.close().await;
        Self { pool: tenure_jobs::work_pool(&self.url, 8).unwrap(), url: self.url }
    }

    pub async fn begin(&self) -> Transaction<'static, Postgres> {
        self.pool.begin().await.unwrap()
    }

    pub async fn add(&self, job: NewJob) -> Enqueued {
        let mut tx = self.begin().await;
        let enqueued = enqueue(&mut tx, &job).await.unwrap();
        tx.commit().await.unwrap();
        enqueued
    }

    /// Claims in a transaction of its own.
    pub async fn claim(&self, kinds: &[&str], limit: u32, lease: Duration) -> Vec<ClaimedJob> {
        let mut tx = self.begin().await;
        let claimed = claim_in(&mut tx, kinds, limit, lease).await;
        tx.commit().await.unwrap();
        claimed
    }

    pub async fn state(&self, job: i64) -> JobState {
        read_job(&mut *self.begin().await, job).await.unwrap().state
    }

    pub async fn execute(&self, sql: &str) {
        sqlx::raw_sql(sqlx::AssertSqlSafe(sql.to_owned())).execute(&self.pool).await.unwrap();
    }
}

pub async fn claim_in(
    conn: &mut PgConnection,
    kinds: &[&str],
    limit: u32,
    lease: Duration,
) -> Vec<ClaimedJob> {
    let kinds: Vec<String> = kinds.iter().map(ToString::to_string).collect();
    let request = Claim { kinds: &kinds, limit, epoch: Epoch(7), instance: Uuid::new_v4(), lease };
    claim(conn, &request).await.unwrap()
}

pub fn job(kind: &str) -> NewJob {
    NewJob::new(kind, serde_json::json!({}))
}

pub fn ids(jobs: &[ClaimedJob]) -> Vec<i64> {
    jobs.iter().map(|job| job.id).collect()
}

pub const HOUR: Duration = Duration::from_hours(1);
