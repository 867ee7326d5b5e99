//! A migrated database for each test, and what the tests wait for.

use serde_json::{Value, json};
use sqlx::{AssertSqlSafe, PgPool};
use std::time::Duration;
use tenure::{Term, testing::TermControl};
use tenure_jobs::{JobState, JobSummary, NewJob, enqueue, read_job};
use tenure_poller::Poller;
use uuid::Uuid;

pub struct Database {
    pub pool: PgPool,
    pub url: String,
}

impl Database {
    pub async fn create() -> Self {
        let admin = tenure_jobs::work_pool("postgres://postgres@127.0.0.1:54987/postgres", 1).unwrap();
        let name = format!("t{}", Uuid::new_v4().simple());
        sqlx::raw_sql(AssertSqlSafe(format!("create database {name}"))).execute(&admin).await.unwrap();
        let url = format!("postgres://postgres@127.0.0.1:54987/{name}");
        let pool = tenure_jobs::work_pool(&url, 10).unwrap();
        let all = [tenure::schema::MIGRATIONS, tenure_jobs::MIGRATIONS].concat();
        tenure::schema::migrate(&pool, &all).await.unwrap();
        Self { pool, url }
    }

    /// A stock `PgBouncer` in transaction mode in front of the database.
    pub async fn pooler(&self) -> Pooler {
        let url = reqwest::Url::parse(&self.url).unwrap();
        let database = &url.path()[1..];
        let dir = format!("/tmp/jobs-pg/b{}", Uuid::new_v4().simple());
        let port = 55988;
        std::fs::create_dir(&dir).unwrap();
        std::fs::write(format!("{dir}/users"), "\"postgres\" \"\"\n").unwrap();
        std::fs::write(format!("{dir}/ini"), format!("[databases]\n{database} = host=127.0.0.1 port=54987\n[pgbouncer]\nlisten_addr=127.0.0.1\nlisten_port={port}\nunix_socket_dir=\nauth_type=trust\nauth_file={dir}/users\npool_mode=transaction\n")).unwrap();
        std::process::Command::new("chown").args(["-R", "postgres", &dir]).status().unwrap();
        let child = tokio::process::Command::new("su").args(["postgres", "-s", "/bin/sh", "-c", &format!("exec pgbouncer {dir}/ini 2>{dir}/log")]).kill_on_drop(true).spawn().unwrap();
        let url = format!("postgres://postgres@127.0.0.1:{port}/{database}");
        eventually("up", async || tokio::net::TcpStream::connect(("127.0.0.1", port)).await.ok()).await;
        Pooler { url, _child: child }
    }

    /// A poller with this section of the configuration.
    pub fn poller(&self, config: Value) -> Poller {
        Poller::new(self.pool.clone(), serde_json::from_value(config).unwrap()).unwrap()
    }

    pub async fn term(&self) -> (Term, TermControl) {
        TermControl::begin(&self.pool, tenure_poller::ROLE).await.unwrap()
    }

    pub async fn add(&self, job: NewJob) -> i64 {
        let mut tx = self.pool.begin().await.unwrap();
        let enqueued = enqueue(&mut tx, &job).await.unwrap();
        tx.commit().await.unwrap();
        enqueued.id
    }

    pub async fn job(&self, id: i64) -> JobSummary {
        read_job(&mut *self.pool.begin().await.unwrap(), id).await.unwrap()
    }

    pub async fn execute(&self, sql: &str) {
        sqlx::raw_sql(AssertSqlSafe(sql.to_owned())).execute(&self.pool).await.unwrap();
    }

    pub async fn number(&self, sql: &str) -> i64 {
        sqlx::query_scalar(AssertSqlSafe(sql.to_owned())).fetch_one(&self.pool).await.unwrap()
    }

    /// Makes every attempt under way overdue, as if its process had been silent for long.
    pub async fn expire_attempts(&self) {
        self.execute(
            "update tenure.job set attempt_deadline = now() - interval '1 s' where state = 'running'",
        )
        .await;
    }

    /// Waits until a job is in a state.
    pub async fn until(&self, id: i64, state: JobState) -> JobSummary {
        eventually(&format!("job {id} is {state}"), async || {
            let job = self.job(id).await;
            (job.state == state).then_some(job)
        })
        .await
    }
}

pub struct Pooler {
    pub url: String,
    _child: tokio::process::Child,
}

/// Waits until `ready` finds something. The limit is for a test that would hang, not part of any order.
pub async fn eventually<T>(what: &str, ready: impl AsyncFn() -> Option<T>) -> T {
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

pub fn job(kind: &str) -> NewJob {
    NewJob::new(kind, json!({}))
}

/// The configuration of one SQL route, for the kind `sql`.
pub fn sql(statement: &str) -> Value {
    json!({"routes": {"sql": {"type": "sql", "statement": statement}}})
}
