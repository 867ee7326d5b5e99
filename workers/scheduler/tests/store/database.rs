//! A migrated database and what the tests ask of it.

use chrono::{DateTime, Utc};
use sqlx::{AssertSqlSafe, PgPool, Row as _};
use tenure::{Singleton as _, Term, testing::TermControl};
use tenure_scheduler::Scheduler;
use tenure_testkit::TestServer;

/// A server of its own with Tenure's schema.
pub(crate) struct Database {
    pub(crate) server: TestServer,
    pub(crate) pool: PgPool,
}

impl Database {
    pub(crate) async fn start() -> Self {
        let server = TestServer::start();
        let pool = server.pool().await;
        let all = [tenure::schema::MIGRATIONS, tenure_jobs::MIGRATIONS].concat();
        tenure::schema::migrate(&pool, &all).await.expect("the schema is made");
        Self { server, pool }
    }

    /// Begins the next term.
    pub(crate) async fn term(&self) -> (Term, TermControl) {
        TermControl::begin(&self.pool, Scheduler::ROLE).await.expect("a term begins")
    }

    /// Runs statements.
    pub(crate) async fn run(&self, sql: &str) {
        sqlx::raw_sql(AssertSqlSafe(sql.to_owned())).execute(&self.pool).await.expect(sql);
    }

    /// A number.
    pub(crate) async fn number(&self, sql: &str) -> i64 {
        let row = sqlx::raw_sql(AssertSqlSafe(sql.to_owned())).fetch_one(&self.pool).await.expect(sql);
        row.get::<i64, _>(0)
    }

    /// A schedule by hand whose ticks are settled up to `settled`, an SQL expression.
    pub(crate) async fn schedule(&self, name: &str, expression: &str, settled: &str) {
        self.run(&format!(
            "insert into tenure.schedule (name, kind, expression, active_from)
             values ('{name}', 'work', '{expression}', {settled})"
        ))
        .await;
    }

    /// A schedule by hand with exactly one due tick, two minutes ago, and none to come for most of a day.
    pub(crate) async fn due_once(&self, name: &str) {
        self.run(&format!(
            "insert into tenure.schedule (name, kind, expression, active_from, grace)
             select '{name}', 'work', to_char((now() - interval '2 minutes') at time zone 'UTC',
                'FMMI FMHH24 * * *'), now() - interval '5 minutes', interval '10 minutes'"
        ))
        .await;
    }

    /// The ledger: outcome, how many ticks, reason, oldest first.
    pub(crate) async fn ledger(&self, schedule: &str) -> Vec<(String, i32, Option<String>)> {
        let rows =
            sqlx::query("select outcome, ticks, reason from tenure.tick where schedule = $1 order by due_at")
                .bind(schedule)
                .fetch_all(&self.pool)
                .await
                .expect("the ledger");
        rows.iter().map(|row| (row.get(0), row.get(1), row.get(2))).collect()
    }

    /// When the ticks with a job were due.
    pub(crate) async fn fired(&self, schedule: &str) -> Vec<DateTime<Utc>> {
        let rows = sqlx::query(
            "select t.due_at from tenure.tick t join tenure.job j on j.id = t.job_id
             where t.schedule = $1 order by t.due_at",
        )
        .bind(schedule)
        .fetch_all(&self.pool)
        .await
        .expect("fired ticks");
        rows.iter().map(|row| row.get(0)).collect()
    }

    pub(crate) async fn jobs(&self) -> i64 {
        self.number("select count(*) from tenure.job").await
    }

    /// The next transaction id: it stays the same while nobody writes.
    pub(crate) async fn next_transaction(&self) -> i64 {
        self.number("select pg_snapshot_xmax(pg_current_snapshot())::text::bigint").await
    }
}
