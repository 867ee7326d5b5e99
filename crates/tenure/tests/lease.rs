//! The lease session against a real server, in the corners where a mistake would make a second leader.

use sqlx::{AssertSqlSafe, PgPool};
use std::time::Duration;
use tenure::{
    FrontDoor, Instance, InstanceWatch, LeaseAddress, Role, StopMode, Term, Timing, Worker, WorkerError,
    async_trait, lease::SessionState, schema,
};
use tenure_testkit::{TestServer, eventually};
use uuid::Uuid;

const LONG: Duration = Duration::from_secs(60);

struct Idle(Role);

#[async_trait]
impl Worker for Idle {
    fn role(&self) -> Role {
        self.0
    }

    async fn work(&self, term: Term) -> Result<(), WorkerError> {
        term.draining().await;
        Ok(())
    }
}

fn role(name: &str, key: i64) -> Role {
    Role::new(Box::leak(name.to_owned().into_boxed_str()), key)
}

async fn set_up(settings: &[(&str, &str)]) -> (TestServer, PgPool) {
    let server = TestServer::start_with(settings);
    let pool = server.pool().await;
    schema::migrate(&pool, schema::MIGRATIONS).await.unwrap();
    (server, pool)
}

fn start(server: &TestServer, roles: impl IntoIterator<Item = Role>) -> Instance {
    let workers = roles.into_iter().map(|role| Box::new(Idle(role)) as Box<dyn Worker>);
    Instance::builder(LeaseAddress::parse(&server.url(), FrontDoor::Direct).unwrap(), Timing::default())
        .workers(workers)
        .start(Uuid::new_v4())
        .unwrap()
}

async fn leads(watch: &InstanceWatch, wanted: impl Fn(usize) -> bool) -> usize {
    eventually(LONG, || async {
        let led = watch.snapshot().led().count();
        if wanted(led) { Ok(led) } else { Err(led) }
    })
    .await
}

async fn advisory_locks(pool: &PgPool) -> i64 {
    sqlx::query_scalar("select count(*) from pg_locks where locktype = 'advisory'")
        .fetch_one(pool)
        .await
        .unwrap()
}

async fn lease_pid(pool: &PgPool) -> Vec<i32> {
    sqlx::query_scalar("select pid from pg_stat_activity where application_name like 'tenure lease %'")
        .fetch_all(pool)
        .await
        .unwrap()
}

#[tokio::test]
async fn negative_and_extreme_keys_are_led_and_proved() {
    let (server, pool) = set_up(&[]).await;
    let keys = [i64::MIN, -1, 0, 1, i64::from(i32::MAX) + 1, i64::MAX];
    let instance = start(&server, keys.iter().enumerate().map(|(n, key)| role(&format!("k{n}"), *key)));
    leads(&instance.watch(), |led| led == keys.len()).await;
    let before = lease_pid(&pool).await;
    // Proofs compare the keys with what pg_locks shows: a session that stays is a proof that succeeded.
    tokio::time::sleep(Timing::default().heartbeat_interval() + Duration::from_secs(1)).await;
    assert_eq!(lease_pid(&pool).await, before);
    assert_eq!(instance.watch().snapshot().led().count(), keys.len());
}

#[tokio::test]
async fn a_full_lock_table_is_an_error_and_leaves_no_lock_behind() {
    let (server, pool) = set_up(&[("max_locks_per_transaction", "10"), ("max_connections", "20")]).await;
    let instance = start(&server, (0..5000).map(|n| role(&format!("r{n}"), 1000 + n)));
    let watch = instance.watch();
    leads(&watch, |led| led >= 64).await;
    let session = lease_pid(&pool).await;
    // It has filled up when the server has refused a lock.
    eventually(LONG, || async {
        if server.log().contains("out of shared memory") { Ok(()) } else { Err("not full yet") }
    })
    .await;
    eventually(LONG, || async {
        let (led, locks) = (watch.snapshot().led().count(), advisory_locks(&pool).await);
        if i64::try_from(led) == Ok(locks) { Ok(()) } else { Err((led, locks)) }
    })
    .await;
    assert_eq!(lease_pid(&pool).await, session, "the terms that were won go on");
}

#[tokio::test]
async fn a_lease_row_that_is_still_fenced_delays_only_its_own_role() {
    let (server, pool) = set_up(&[]).await;
    let mut first = start(&server, [role("a", 1), role("b", 2)]);
    leads(&first.watch(), |led| led == 2).await;
    first.stop(StopMode::Drain);
    first.ended().await.unwrap();
    let mut open = pool.begin().await.unwrap();
    sqlx::raw_sql("select from tenure.lease where role = 'b' for share").execute(&mut *open).await.unwrap();
    let second = start(&server, [role("a", 1), role("b", 2)]);
    let watch = second.watch();
    leads(&watch, |led| led == 1).await;
    let session = lease_pid(&pool).await;
    eventually(LONG, || async {
        if server.log().contains("canceling statement due to lock timeout") {
            Ok(())
        } else {
            Err("no try yet")
        }
    })
    .await;
    assert_eq!(watch.snapshot().led().map(|role| role.role).collect::<Vec<_>>(), ["a"]);
    open.rollback().await.unwrap();
    leads(&watch, |led| led == 2).await;
    assert_eq!(lease_pid(&pool).await, session);
}

#[tokio::test]
async fn one_process_cannot_compete_twice_for_a_role() {
    let server = TestServer::start();
    for roles in [[role("a", 1), role("b", 1)], [role("a", 1), role("a", 2)]] {
        let builder = Instance::builder(
            LeaseAddress::parse(&server.url(), FrontDoor::Direct).unwrap(),
            Timing::default(),
        );
        let error =
            roles.iter().fold(builder, |b, role| b.worker(Idle(*role))).start(Uuid::new_v4()).unwrap_err();
        assert!(error.to_string().contains("share a name or a key"), "{error}");
    }
}

#[tokio::test]
async fn an_idle_leader_holds_no_transaction_and_no_snapshot() {
    let (server, pool) = set_up(&[]).await;
    let leader = start(&server, [role("a", 1)]);
    leads(&leader.watch(), |led| led == 1).await;
    let standby = start(&server, [role("a", 1)]);
    eventually(LONG, || async {
        // The examination holds transactions for a moment, on purpose.
        let examined = standby.watch().snapshot().session == SessionState::Open;
        if examined && lease_pid(&pool).await.len() == 2 { Ok(()) } else { Err(examined) }
    })
    .await;
    for _ in 0..50 {
        let pinned: i64 = sqlx::query_scalar(
            "select count(*) from pg_stat_activity where application_name like 'tenure lease %' \
             and state <> 'active' and (backend_xmin is not null or backend_xid is not null \
             or state like 'idle in transaction%')",
        )
        .fetch_one(&pool)
        .await
        .unwrap();
        // The stand-by's one transaction per try is over within a round trip; seen once is chance.
        assert!(pinned <= 1, "{pinned}");
    }
    drop(standby);
}

#[tokio::test]
async fn a_planned_end_is_on_record_with_its_reason() {
    let (server, pool) = set_up(&[]).await;
    let mut instance = start(&server, [role("a", 1)]);
    leads(&instance.watch(), |led| led == 1).await;
    instance.resign(role("a", 1));
    eventually(LONG, || async {
        let reason: Option<String> =
            sqlx::query_scalar("select end_reason from tenure.term order by epoch limit 1")
                .fetch_one(&pool)
                .await
                .unwrap();
        if reason.as_deref() == Some("resigned") { Ok(()) } else { Err(reason) }
    })
    .await;
    instance.stop(StopMode::Drain);
    instance.ended().await.unwrap();
}

#[tokio::test]
async fn a_role_without_rights_on_the_schema_is_told_so_and_leads_nothing() {
    let (server, pool) = set_up(&[]).await;
    server.create_role("poor", "secret-of-poor").await;
    let url = server.url_as("poor", "secret-of-poor");
    let instance =
        Instance::builder(LeaseAddress::parse(&url, FrontDoor::Direct).unwrap(), Timing::default())
            .worker(Idle(role("a", 1)))
            .start(Uuid::new_v4())
            .unwrap();
    eventually(LONG, || async {
        if server.log().contains("permission denied") { Ok(()) } else { Err("no try yet") }
    })
    .await;
    assert_eq!(instance.watch().snapshot().led().count(), 0);
    assert_eq!(advisory_locks(&pool).await, 0);
    sqlx::raw_sql(AssertSqlSafe(
        "grant usage on schema tenure to poor; \
         grant select, insert, update, delete on all tables in schema tenure to poor"
            .to_owned(),
    ))
    .execute(&pool)
    .await
    .unwrap();
    leads(&instance.watch(), |led| led == 1).await;
}

#[tokio::test]
async fn migrations_are_safe_from_many_replicas_and_printed_for_a_dba() {
    let server = TestServer::start();
    let pool = server.pool().await;
    let replicas: Vec<_> = (0..8)
        .map(|_| {
            let pool = pool.clone();
            tokio::spawn(
                async move { schema::migrate(&pool, schema::MIGRATIONS).await.map(|done| done.len()) },
            )
        })
        .collect();
    let mut applied = Vec::new();
    for replica in replicas {
        applied.push(replica.await.unwrap().unwrap());
    }
    applied.sort_unstable();
    assert_eq!(applied.iter().sum::<usize>(), schema::MIGRATIONS.len(), "{applied:?}");
    // The script does the same, also where everything is there already.
    let script = schema::script(schema::MIGRATIONS);
    for _ in 0..2 {
        sqlx::raw_sql(AssertSqlSafe(script.clone())).execute(&pool).await.unwrap();
    }
    server.create_role("poor", "x").await;
    let fresh = TestServer::start();
    fresh.create_role("poor", "x").await;
    let powerless = PgPool::connect(&fresh.url_as("poor", "x")).await.unwrap();
    let error = schema::migrate(&powerless, schema::MIGRATIONS).await.unwrap_err();
    assert!(error.to_string().contains("tenured migrate --print"), "{error}");
    let ready = PgPool::connect(&server.url_as("poor", "x")).await.unwrap();
    let error = schema::migrate(&ready, schema::MIGRATIONS).await;
    assert!(error.is_err(), "without usage on the schema it can't even see what is there");
    sqlx::raw_sql("grant usage on schema tenure to poor; grant select on tenure.migration to poor")
        .execute(&pool)
        .await
        .unwrap();
    assert_eq!(schema::migrate(&ready, schema::MIGRATIONS).await.unwrap().len(), 0);
}
