//! What the demo plays on: a private server, a schema, a configuration, and jobs.

use crate::{
    exit::{Failure, chain},
    run::migrations,
};
use serde_json::json;
use sqlx::{PgPool, Row as _};
use std::{fs, path::PathBuf};
use tempfile::TempDir;
use tenure::schema;
use tenure_jobs::{NewJob, enqueue};
use tenure_private_postgres::{Binaries, PrivatePostgres};

/// The tables that the demo's jobs work on. Nothing in them forbids a double: it would be seen.
const TABLES: &str = "\
create table charge (job bigint not null, amount integer not null, at timestamptz not null default now());
create table audit_log (id bigint generated always as identity primary key, at timestamptz not null);
create index on audit_log (at);
insert into audit_log (at) select now() - interval '2 days' from generate_series(1, 5000);";

const COUNTS: &str = "\
select (select count(*) from charge) as done,
       (select count(*) - count(distinct job) from charge) as doubled,
       (select count(*) from tenure.job where state in ('available', 'running')) as waiting,
       (select count(*) from tenure.tick where outcome <> 'skipped') as ticks,
       5000 - (select count(*) from audit_log) as swept";

const CONFIG: &str = "\
[poller]
poll_interval = \"500ms\"
[poller.routes.\"demo.charge\"]
type = \"sql\"
statement = \"insert into charge (job, amount) values ($2, ($1->>'amount')::integer)\"

[scheduler.schedules.every-five-seconds]
kind = \"demo.charge\"
cron = \"*/5 * * * * *\"
payload = { amount = 5 }

[reconciler]
interval = \"2s\"
[reconciler.sweeps.audit]
table = \"public.audit_log\"
column = \"at\"
retention = \"1d\"
max_rows = 1000
";

/// See the module. Dropping it stops the server and removes all folders.
pub(super) struct Scene {
    server: PrivatePostgres,
    pool: PgPool,
    folder: TempDir,
}

/// What has been done so far.
#[derive(Debug, Clone, Copy)]
pub(super) struct Counts {
    pub(super) done: i64,
    pub(super) doubled: i64,
    pub(super) waiting: i64,
    pub(super) ticks: i64,
    pub(super) swept: i64,
}

impl Scene {
    /// Starts the server and makes everything ready. Runs on the main thread: the server ends with the
    /// thread that started it.
    pub(super) async fn set() -> Result<Self, Failure> {
        let other = |error: &dyn std::error::Error| Failure::Other(chain(error));
        let binaries = Binaries::find().map_err(|error| other(&error))?;
        // Other users of this machine reach loopback too.
        let password = uuid::Uuid::new_v4().simple().to_string();
        let server =
            PrivatePostgres::builder(binaries).password(&password).start().map_err(|error| other(&error))?;
        let pool = PgPool::connect(&server.url("postgres")).await.map_err(|error| other(&error))?;
        schema::migrate(&pool, &migrations()).await.map_err(|error| other(&error))?;
        sqlx::raw_sql(TABLES).execute(&pool).await.map_err(|error| other(&error))?;
        let folder =
            tempfile::Builder::new().prefix("tenure-demo-").tempdir().map_err(|error| other(&error))?;
        fs::write(folder.path().join("demo.toml"), CONFIG).map_err(|error| other(&error))?;
        Ok(Self { server, pool, folder })
    }

    pub(super) fn url(&self) -> String {
        self.server.url("postgres")
    }

    pub(super) fn config(&self) -> PathBuf {
        self.folder.path().join("demo.toml")
    }

    /// Adds one job.
    pub(super) async fn enqueue(&self) -> Result<(), Failure> {
        let job = NewJob::new("demo.charge", json!({ "amount": 1 }));
        let mut transaction = self.pool.begin().await.map_err(|error| Failure::from_database(&error))?;
        enqueue(&mut transaction, &job).await.map_err(|error| Failure::from_database(&error))?;
        transaction.commit().await.map_err(|error| Failure::from_database(&error))
    }

    pub(super) async fn counts(&self) -> Result<Counts, Failure> {
        let row = sqlx::query(COUNTS)
            .fetch_one(&self.pool)
            .await
            .map_err(|error| Failure::from_database(&error))?;
        Ok(Counts {
            done: row.get("done"),
            doubled: row.get("doubled"),
            waiting: row.get("waiting"),
            ticks: row.get("ticks"),
            swept: row.get("swept"),
        })
    }
}
