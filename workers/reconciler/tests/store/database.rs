//! A migrated database and what the tests ask of it.

use figment::{
    Figment,
    providers::{Format as _, Toml},
};
use serde::Deserialize;
use sqlx::{AssertSqlSafe, PgPool, Row as _};
use std::time::Duration;
use tenure::{Singleton as _, Term, testing::TermControl};
use tenure_reconciler::{
    PassError, PassReport, Reconciler, ReconcilerConfig,
    pass::{Memory, run_pass},
    target::Target,
};
use tenure_testkit::TestServer;

#[derive(Debug, Deserialize)]
struct File {
    reconciler: ReconcilerConfig,
}

/// The configuration as users write it.
pub(crate) fn parse(toml: &str) -> Result<ReconcilerConfig, Box<figment::Error>> {
    Figment::from(Toml::string(toml)).extract::<File>().map(|file| file.reconciler).map_err(Box::new)
}

/// The targets of a configuration that is right.
pub(crate) fn targets(toml: &str) -> Vec<Target> {
    let config = parse(toml).unwrap_or_else(|error| panic!("{error}"));
    config.targets().unwrap_or_else(|errors| panic!("{errors:?}"))
}

/// A sweep of `public.log` with these further keys, and no pause.
pub(crate) fn log_sweep(more: &str) -> Vec<Target> {
    targets(&format!(
        "[reconciler.sweeps.log]\ntable = \"public.log\"\ncolumn = \"at\"\nretention = \"30d\"\npause = \"0s\"\n{more}"
    ))
}

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

    /// With a table `public.log` that has `old` rows past 30 days, a second apart, and `young` others.
    pub(crate) async fn with_log(old: u32, young: u32) -> Self {
        let db = Self::start().await;
        db.run(&format!(
            "create table public.log (id bigint generated always as identity primary key, at timestamptz);
             insert into public.log (at) select now() - interval '40 days' + make_interval(secs => n)
                from generate_series(1, {old}) n;
             insert into public.log (at) select now() from generate_series(1, {young});
             create index on public.log (at);
             analyze public.log;"
        ))
        .await;
        db
    }

    /// Begins the next term.
    pub(crate) async fn term(&self) -> (Term, TermControl) {
        TermControl::begin(&self.pool, Reconciler::ROLE).await.expect("a term begins")
    }

    /// A pass with a memory of its own.
    pub(crate) async fn pass(&self, term: &Term, targets: &[Target]) -> Result<PassReport, PassError> {
        run_pass(term, &self.pool, targets, Duration::from_secs(60), &mut Memory::default()).await
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

    pub(crate) async fn log_rows(&self) -> i64 {
        self.number("select count(*) from public.log").await
    }

    pub(crate) async fn sweep_runs(&self) -> i64 {
        self.number("select count(*) from tenure.sweep_run").await
    }

    /// The next transaction id: it stays the same while nobody writes.
    pub(crate) async fn next_transaction(&self) -> i64 {
        self.number("select pg_snapshot_xmax(pg_current_snapshot())::text::bigint").await
    }
}
