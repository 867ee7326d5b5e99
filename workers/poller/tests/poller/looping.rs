use crate::{
    failures::Held,
    support::{Database, eventually, job, sql},
};
use serde_json::json;
use tenure::Singleton as _;
use tenure_jobs::{JobState, NewJob};

/// So long that a test which has to wait for it fails.
const NEVER: &str = "1h";

#[tokio::test]
async fn after_work_it_polls_again_at_once() {
    let db = Database::create().await;
    let mut ids = Vec::new();
    for _ in 0..5 {
        ids.push(db.add(job("sql")).await);
    }
    let mut config = sql("select 1");
    config["poll_interval"] = json!(NEVER);
    config["batch_size"] = json!(1);
    let poller = db.poller(config);
    let (term, control) = db.term().await;
    let watch = async {
        for id in ids {
            db.until(id, JobState::Completed).await;
        }
        control.drain();
    };
    let (ended, ()) = tokio::join!(poller.run(term), watch);
    ended.unwrap();
}

#[tokio::test]
async fn the_next_job_of_an_ordering_key_follows_at_once_and_in_order() {
    let db = Database::create().await;
    db.execute("create table effect (n bigint generated always as identity, job bigint)").await;
    let mut ids = Vec::new();
    for priority in 0..5 {
        ids.push(db.add(NewJob { priority, ordering_key: Some("k".to_owned()), ..job("sql") }).await);
    }
    let mut config = sql("insert into effect (job) values ($2)");
    config["poll_interval"] = json!(NEVER);
    let poller = db.poller(config);
    let (term, control) = db.term().await;
    let watch = async {
        db.until(ids[4], JobState::Completed).await;
        control.drain();
    };
    let (ended, ()) = tokio::join!(poller.run(term), watch);
    ended.unwrap();
    let order: Vec<i64> =
        sqlx::query_scalar("select job from effect order by n").fetch_all(&db.pool).await.unwrap();
    assert_eq!(order, ids);
}

#[tokio::test]
async fn a_new_job_is_found_by_polling_alone() {
    let db = Database::create().await;
    let mut config = sql("select 1");
    config["poll_interval"] = json!("100ms");
    let poller = db.poller(config);
    let (term, control) = db.term().await;
    let watch = async {
        let first = db.add(job("sql")).await;
        db.until(first, JobState::Completed).await;
        let second = db.add(job("sql")).await;
        db.until(second, JobState::Completed).await;
        control.drain();
    };
    let (ended, ()) = tokio::join!(poller.run(term), watch);
    ended.unwrap();
}

#[tokio::test]
async fn a_slow_job_holds_up_no_other_one_and_no_more_run_than_are_allowed() {
    let db = Database::create().await;
    let held = Held::default();
    let slow = db.add(job("held")).await;
    for _ in 0..2 {
        db.add(job("held")).await;
    }
    let mut config = sql("select 1");
    config["poll_interval"] = json!(NEVER);
    config["max_concurrency"] = json!(2);
    let poller = db.poller(config).with_handler("held", held.clone());
    let (term, control) = db.term().await;
    let watch = async {
        held.until_begun(2).await;
        let quick = db.add(NewJob { priority: 1, ..job("sql") }).await;
        held.let_one_go();
        db.until(quick, JobState::Completed).await;
        held.until_begun(3).await;
        let running = db.number("select count(*) from tenure.job where state = 'running'").await;
        assert_eq!(running, 2);
        control.drain();
        held.let_one_go();
        held.let_one_go();
        held.let_one_go();
    };
    let (ended, ()) = tokio::join!(poller.run(term), watch);
    ended.unwrap();
    assert_eq!(db.job(slow).await.state, JobState::Completed);
}

#[tokio::test]
async fn a_planned_stop_finishes_what_is_at_hand_and_takes_nothing_new() {
    let db = Database::create().await;
    let held = Held::default();
    let at_hand = db.add(job("held")).await;
    let poller = db.poller(json!({"poll_interval": "100ms"})).with_handler("held", held.clone());
    let (term, control) = db.term().await;
    let watch = async {
        held.until_begun(1).await;
        control.drain();
        let new = db.add(job("held")).await;
        held.let_one_go();
        new
    };
    let (ended, new) = tokio::join!(poller.run(term), watch);
    ended.unwrap();
    assert_eq!(db.job(at_hand).await.state, JobState::Completed);
    assert_eq!((db.job(new).await.state, held.begun()), (JobState::Available, 1));
}

#[tokio::test]
async fn trouble_with_the_database_is_waited_out() {
    let db = Database::create().await;
    let admin = tenure_jobs::work_pool(&db.server.url(), 1).unwrap();
    let mut config = sql("select 1");
    config["poll_interval"] = json!("100ms");
    let poller = db.poller(config);
    let (term, control) = db.term().await;
    let watch = async {
        let id = db.add(job("sql")).await;
        db.until(id, JobState::Completed).await;
        sqlx::raw_sql("alter table tenure.job rename to gone").execute(&admin).await.unwrap();
        eventually("the poller has met trouble twice", async || {
            let trouble = db.server.log().matches("relation \"tenure.job\" does not exist").count();
            (trouble >= 2).then_some(())
        })
        .await;
        sqlx::raw_sql("alter table tenure.gone rename to job").execute(&admin).await.unwrap();
        let mut tx = admin.begin().await.unwrap();
        let id = tenure_jobs::enqueue(&mut tx, &job("sql")).await.unwrap().id;
        tx.commit().await.unwrap();
        db.until(id, JobState::Completed).await;
        control.drain();
    };
    let (ended, ()) = tokio::join!(poller.run(term), watch);
    ended.unwrap();
}
