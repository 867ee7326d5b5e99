//! A server of its own for each test, with the schema in it, and what the tests wait for.

use serde_json::{Value, json};
use sqlx::{AssertSqlSafe, PgPool};
use std::time::Duration;
use tenure::{Term, testing::TermControl};
use tenure_jobs::{JobState, JobSummary, NewJob, enqueue, read_job};
use tenure_poller::Poller;
use tenure_testkit::TestServer;

pub(crate) struct Database {
    pub(crate) pool: PgPool,
    pub(crate) server: TestServer,
}

impl Database {
    pub(crate) async fn create() -> Self {
        let server = TestServer::start();
        let pool = tenure_jobs::work_pool(&server.url(), 10).unwrap();
        let all = [tenure::schema::MIGRATIONS, tenure_jobs::MIGRATIONS].concat();
        tenure::schema::migrate(&pool, &all).await.unwrap();
        Self { pool, server }
    }

    /// A poller with this section of the configuration.
    pub(crate) fn poller(&self, config: Value) -> Poller {
        Poller::new(self.pool.clone(), serde_json::from_value(config).unwrap()).unwrap()
    }

    pub(crate) async fn term(&self) -> (Term, TermControl) {
        TermControl::begin(&self.pool, tenure_poller::ROLE).await.unwrap()
    }

    pub(crate) async fn add(&self, job: NewJob) -> i64 {
        let mut tx = self.pool.begin().await.unwrap();
        let enqueued = enqueue(&mut tx, &job).await.unwrap();
        tx.commit().await.unwrap();
        enqueued.id
    }

    pub(crate) async fn job(&self, id: i64) -> JobSummary {
        let mut tx = self.pool.begin().await.unwrap();
        read_job(&mut tx, id).await.unwrap()
    }

    pub(crate) async fn execute(&self, sql: &str) {
        sqlx::raw_sql(AssertSqlSafe(sql.to_owned())).execute(&self.pool).await.unwrap();
    }

    pub(crate) async fn number(&self, sql: &str) -> i64 {
        sqlx::query_scalar(AssertSqlSafe(sql.to_owned())).fetch_one(&self.pool).await.unwrap()
    }

    /// Makes every attempt under way overdue, as if its process had been silent for long.
    pub(crate) async fn expire_attempts(&self) {
        self.execute(
            "update tenure.job set attempt_deadline = now() - interval '1 s' where state = 'running'",
        )
        .await;
    }

    /// Waits until a job is in a state.
    pub(crate) async fn until(&self, id: i64, state: JobState) -> JobSummary {
        eventually(&format!("job {id} is {state}"), async || {
            let job = self.job(id).await;
            (job.state == state).then_some(job)
        })
        .await
    }
}

/// Waits until `ready` finds something. The limit is for a test that would hang, not part of any order.
pub(crate) async fn eventually<T>(what: &str, ready: impl AsyncFn() -> Option<T>) -> T {
    let wait = async {
        loop {
            if let Some(found) = ready().await {
                return found;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), wait).await.unwrap_or_else(|_| panic!("never: {what}"))
}

pub(crate) fn job(kind: &str) -> NewJob {
    NewJob::new(kind, json!({}))
}

/// The configuration of one SQL route, for the kind `sql`.
pub(crate) fn sql(statement: &str) -> Value {
    json!({"routes": {"sql": {"type": "sql", "statement": statement}}})
}
