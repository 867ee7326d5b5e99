use crate::support::{Database, eventually, job, sql};
use serde_json::json;
use tenure_jobs::{JobState, NewJob};
use tenure_poller::PassReport;

const EFFECT: &str = "create table effect (job bigint, text text)";

#[tokio::test]
async fn a_statement_gets_the_payload_and_the_id_and_completes_its_job() {
    let db = Database::create().await;
    db.execute(EFFECT).await;
    let id = db.add(NewJob::new("sql", json!({"text": "hello"}))).await;
    let (term, _control) = db.term().await;
    let poller = db.poller(sql("insert into effect values ($2, $1 ->> 'text')"));
    let report = poller.pass(&term).await.unwrap();
    assert_eq!(report, PassReport { claimed: 1, completed: 1, ..PassReport::default() });
    let effects: Vec<(i64, String)> =
        sqlx::query_as("select job, text from effect").fetch_all(&db.pool).await.unwrap();
    assert_eq!(effects, [(id, "hello".to_owned())]);
    let job = db.job(id).await;
    assert_eq!((job.state, job.attempt, job.claimed_by), (JobState::Completed, 1, Some(term.epoch().0)));
    assert_eq!(poller.pass(&term).await.unwrap(), PassReport::default());
}

#[tokio::test]
async fn a_statement_may_leave_out_parameters_and_may_return_rows() {
    let db = Database::create().await;
    let (term, _control) = db.term().await;
    for statement in ["select 1", "select $2", "select $1", "values (1), (2)"] {
        let id = db.add(job("sql")).await;
        db.poller(sql(statement)).pass(&term).await.unwrap();
        assert_eq!(db.job(id).await.state, JobState::Completed, "{statement}");
    }
}

#[tokio::test]
async fn the_effect_happens_exactly_once_though_an_attempt_is_killed_after_its_statement() {
    let db = Database::create().await;
    db.execute(EFFECT).await;
    let id = db.add(job("sql")).await;
    // The effect is written, and then the statement waits for a lock that the test holds.
    let poller = db.poller(sql(
        "with e as (insert into effect values ($2) returning job) select pg_advisory_xact_lock_shared(job) from e",
    ));
    let mut gate = db.pool.begin().await.unwrap();
    sqlx::query("select pg_advisory_xact_lock($1)").bind(id).execute(&mut *gate).await.unwrap();
    let (term, control) = db.term().await;
    {
        let pass = poller.pass(&term);
        let waiting = eventually("the statement waits", async || {
            let waiting = "select count(*) from pg_locks where locktype = 'advisory' and not granted \
                           and database = (select oid from pg_database where datname = current_database())";
            (db.number(waiting).await == 1).then_some(())
        });
        tokio::select! {
            report = pass => panic!("the pass ended: {report:?}"),
            () = waiting => {}
        }
        // The process dies: its futures and connections are gone.
    }
    control.revoke();
    gate.rollback().await.unwrap();
    db.expire_attempts().await;
    let (term, _control) = db.term().await;
    // The dead process's server session holds the job until it notices.
    eventually("another attempt completes the job", async || {
        (poller.pass(&term).await.unwrap().completed == 1).then_some(())
    })
    .await;
    let job = db.job(id).await;
    assert_eq!((job.state, job.attempt), (JobState::Completed, 2));
    assert_eq!(db.number("select count(*) from effect").await, 1);
}

#[tokio::test]
async fn a_statement_that_fails_has_no_effect_and_is_tried_again() {
    let db = Database::create().await;
    db.execute(EFFECT).await;
    let id = db.add(job("sql")).await;
    let (term, _control) = db.term().await;
    let failing = "with e as (insert into effect values ($2) returning job) select 1 / (job - job) from e";
    let report = db.poller(sql(failing)).pass(&term).await.unwrap();
    assert_eq!(report, PassReport { claimed: 1, failed: 1, ..PassReport::default() });
    let job = db.job(id).await;
    assert_eq!((job.state, job.attempt), (JobState::Available, 1));
    assert!(job.last_error.as_deref().is_some_and(|e| e.contains("division by zero")), "{job:?}");
    assert_eq!(db.number("select count(*) from effect").await, 0);
}

#[tokio::test]
async fn a_statement_that_takes_too_long_is_ended() {
    let db = Database::create().await;
    let id = db.add(NewJob { max_attempts: 1, ..job("sql") }).await;
    let (term, _control) = db.term().await;
    let route = json!({"type": "sql", "statement": "select pg_sleep(3600)", "timeout": "100ms"});
    let report = db.poller(json!({"routes": {"sql": route}})).pass(&term).await.unwrap();
    assert_eq!(report, PassReport { claimed: 1, discarded: 1, ..PassReport::default() });
    let job = db.job(id).await;
    assert_eq!(job.state, JobState::Discarded);
    assert!(job.last_error.as_deref().is_some_and(|e| e.contains("statement timeout")), "{job:?}");
}

#[tokio::test]
async fn an_attempt_that_was_released_meanwhile_writes_nothing() {
    let db = Database::create().await;
    db.execute(EFFECT).await;
    let id = db.add(job("sql")).await;
    // The attempt is taken away as soon as it is claimed, before its statement.
    let (term, _control) = db.term().await;
    db.execute(
        "create function steal() returns trigger language plpgsql as $$ begin
            update tenure.job set state = 'available', attempt_deadline = null where id = new.job_id;
            return null; end $$;
         create trigger steal after insert on tenure.job_attempt for each row execute function steal()",
    )
    .await;
    let report = db.poller(sql("insert into effect values ($2)")).pass(&term).await.unwrap();
    assert_eq!(report, PassReport { claimed: 1, gone: 1, ..PassReport::default() });
    assert_eq!(db.number("select count(*) from effect").await, 0);
    assert_eq!(db.job(id).await.state, JobState::Available);
}
