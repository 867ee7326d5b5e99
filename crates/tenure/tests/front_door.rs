//! The examination, and what an instance does behind a refused door, against real poolers.

use sqlx::PgPool;
use std::time::Duration;
use tenure::{
    FrontDoor, Instance, LeaseAddress, Role, Singleton, StopMode, Term, Timing, WorkerError, async_trait,
    front_door::{Examination, Step, Verdict, examine},
    lease::{RoleState, SessionState},
    schema,
};
use tenure_testkit::{PgBouncer, PoolMode, TestServer, eventually};
use uuid::Uuid;

const LONG: Duration = Duration::from_secs(60);

struct Idle;

#[async_trait]
impl Singleton for Idle {
    const ROLE: Role = Role::new("idle", 4712);
    async fn run(&self, term: Term) -> Result<(), WorkerError> {
        term.draining().await;
        Ok(())
    }
}

fn address(url: &str, front_door: FrontDoor) -> LeaseAddress {
    LeaseAddress::parse(url, front_door).unwrap()
}

async fn examined(url: &str, front_door: FrontDoor) -> Examination {
    examine(&address(url, front_door), &Timing::default()).await
}

#[track_caller]
fn refused_by(examination: &Examination) -> Step {
    match &examination.verdict {
        Verdict::Refused { step, .. } => *step,
        other => panic!("{other:?}"),
    }
}

async fn advisory_locks(pool: &PgPool) -> i64 {
    sqlx::query_scalar("select count(*) from pg_locks where locktype = 'advisory'")
        .fetch_one(pool)
        .await
        .unwrap()
}

#[tokio::test]
async fn postgresql_itself_is_accepted_in_every_step_and_keeps_nothing() {
    let server = TestServer::start();
    let pool = server.pool().await;
    let examination = examined(&server.url(), FrontDoor::Direct).await;
    assert!(examination.accepted(), "{examination:#?}");
    let steps: Vec<Step> = examination.steps.iter().map(|report| report.step).collect();
    assert_eq!(steps, Step::ALL);
    assert_eq!(advisory_locks(&pool).await, 0);
    let tables: i64 = sqlx::query_scalar("select count(*) from pg_class where relname like 'tenure\\_%'")
        .fetch_one(&pool)
        .await
        .unwrap();
    assert_eq!(tables, 0);
}

#[tokio::test]
async fn an_idle_transaction_pooler_is_refused_and_no_lock_is_left() {
    let server = TestServer::start();
    let pool = server.pool().await;
    schema::migrate(&pool, schema::MIGRATIONS).await.unwrap();
    for size in [1, 10] {
        for ignore in ["", "extra_float_digits,options"] {
            let bouncer =
                PgBouncer::builder(&server).pool_size(size).ignore_startup_parameters(ignore).start().await;
            let examination = examined(&bouncer.url(), FrontDoor::Direct).await;
            assert_eq!(refused_by(&examination), Step::Canary, "{examination:#?}");
            let Verdict::Refused { advice, .. } = &examination.verdict else { unreachable!() };
            assert!(advice.contains("pooler") && advice.contains("lease_url"), "{advice}");
            let instance = Instance::builder(address(&bouncer.url(), FrontDoor::Direct), Timing::default())
                .worker(Idle)
                .start(Uuid::new_v4())
                .unwrap();
            let watch = instance.watch();
            eventually(LONG, || async {
                let snapshot = watch.snapshot();
                if matches!(snapshot.session, SessionState::Closed { .. }) { Ok(()) } else { Err(snapshot) }
            })
            .await;
            assert!(!watch.snapshot().is_ready());
            assert_eq!(watch.snapshot().led().count(), 0);
            assert_eq!(advisory_locks(&pool).await, 0);
        }
    }
}

#[tokio::test]
async fn a_session_pooler_is_accepted_when_it_is_declared_and_not_otherwise() {
    let server = TestServer::start();
    let bouncer = PgBouncer::builder(&server).mode(PoolMode::Session).start().await;
    assert_eq!(refused_by(&examined(&bouncer.url(), FrontDoor::Direct).await), Step::Canary);
    let declared = examined(&bouncer.url(), FrontDoor::SessionPooler).await;
    assert!(declared.accepted(), "{declared:#?}");
}

#[tokio::test]
async fn a_transaction_pooler_that_was_declared_a_session_pooler_is_still_refused() {
    let server = TestServer::start();
    let pool = server.pool().await;
    for size in [2, 10] {
        for round_robin in [false, true] {
            let bouncer = PgBouncer::builder(&server).pool_size(size).round_robin(round_robin).start().await;
            let examination = examined(&bouncer.url(), FrontDoor::SessionPooler).await;
            assert!(!examination.accepted(), "{size} {round_robin}: {examination:#?}");
            assert_eq!(advisory_locks(&pool).await, 0);
        }
    }
}

#[tokio::test]
async fn a_standby_is_refused_for_its_role_and_accepted_once_promoted() {
    let primary = TestServer::start();
    let standby = primary.start_standby();
    assert_eq!(refused_by(&examined(&standby.url(), FrontDoor::Direct).await), Step::Role);
    standby.promote();
    assert!(examined(&standby.url(), FrontDoor::Direct).await.accepted());
}

#[tokio::test]
async fn what_does_not_answer_is_unreachable_and_not_refused() {
    let port = tenure_testkit::free_port();
    let url = format!("postgres://somebody:hunter2@127.0.0.1:{port}/postgres");
    let examination = examined(&url, FrontDoor::Direct).await;
    assert!(matches!(examination.verdict, Verdict::Unreachable { .. }), "{examination:?}");
    assert!(!format!("{examination:?}").contains("hunter2"));
}

#[tokio::test]
async fn a_key_that_the_database_knows_by_another_role_is_refused_loudly() {
    let server = TestServer::start();
    let pool = server.pool().await;
    schema::migrate(&pool, schema::MIGRATIONS).await.unwrap();
    for (role, key) in [("idle", 1), ("another", Idle::ROLE.key())] {
        sqlx::query(
            "insert into tenure.lease (role, key, epoch, instance, host, backend_pid, acquired_at) \
             values ($1, $2, 5, gen_random_uuid(), 'elsewhere', 0, now())",
        )
        .bind(role)
        .bind(key)
        .execute(&pool)
        .await
        .unwrap();
        let instance = Instance::builder(address(&server.url(), FrontDoor::Direct), Timing::default())
            .worker(Idle)
            .start(Uuid::new_v4())
            .unwrap();
        let watch = instance.watch();
        let state = || async {
            match watch.snapshot().role(Idle::ROLE).map(|role| role.state) {
                Some(RoleState::Refused) => Ok(()),
                other => Err(other),
            }
        };
        eventually(LONG, state).await;
        assert_eq!(advisory_locks(&pool).await, 0, "what is refused isn't locked");
        stop(instance).await;
        sqlx::raw_sql("delete from tenure.lease").execute(&pool).await.unwrap();
    }
}

async fn stop(mut instance: Instance) {
    instance.stop(StopMode::Drain);
    instance.ended().await.unwrap();
}

#[tokio::test]
async fn a_missing_schema_is_not_taken_for_another_leader() {
    let server = TestServer::start();
    let pool = server.pool().await;
    let instance = Instance::builder(address(&server.url(), FrontDoor::Direct), Timing::default())
        .worker(Idle)
        .start(Uuid::new_v4())
        .unwrap();
    let watch = instance.watch();
    eventually(LONG, || async {
        if watch.snapshot().session == SessionState::Open { Ok(()) } else { Err(watch.snapshot()) }
    })
    .await;
    assert_eq!(watch.snapshot().led().count(), 0);
    schema::migrate(&pool, schema::MIGRATIONS).await.unwrap();
    eventually(LONG, || async {
        if watch.snapshot().led().count() == 1 { Ok(()) } else { Err(watch.snapshot()) }
    })
    .await;
    stop(instance).await;
    assert_eq!(advisory_locks(&pool).await, 0);
}

#[tokio::test]
async fn epochs_rise_across_a_failover_that_lost_the_last_ones() {
    let primary = TestServer::start();
    let pool = primary.pool().await;
    schema::migrate(&pool, schema::MIGRATIONS).await.unwrap();
    let standby = primary.start_standby();
    let standby_pool = standby.pool().await;
    eventually(LONG, || async {
        schema::missing(&standby_pool, schema::MIGRATIONS).await.map(|m| assert!(m.is_empty()))
    })
    .await;
    let epoch_at = |url: String| async move {
        let instance = Instance::builder(address(&url, FrontDoor::Direct), Timing::default())
            .worker(Idle)
            .start(Uuid::new_v4())
            .unwrap();
        let watch = instance.watch();
        let epoch = eventually(LONG, || async {
            watch.snapshot().led().next().and_then(|role| role.epoch).ok_or_else(|| watch.snapshot())
        })
        .await;
        stop(instance).await;
        epoch
    };
    let mut last = epoch_at(primary.url()).await;
    // The standby misses what comes now, as a failover that lost the newest transactions.
    standby.promote();
    for _ in 0..3 {
        let next = epoch_at(primary.url()).await;
        assert!(next > last);
        last = next;
    }
    let after = epoch_at(standby.url()).await;
    assert!(after > last, "{after} after {last}");
}
