use crate::support::{Database, job, sql};
use serde_json::json;
use std::time::Duration;
use tenure::Singleton as _;
use tenure_jobs::{JobFilter, JobState, NewJob, count_backlog, enqueue, list_jobs, retry_job};
use tenure_poller::Poller;
use tenure_testkit::PgBouncer;

/// A stock `PgBouncer` in transaction mode moves clients between its server sessions whenever several
/// want one, so many jobs run at once here, on fewer server sessions than clients.
#[tokio::test]
async fn everything_works_through_a_transaction_pooler() {
    const JOBS: usize = 300;
    let db = Database::create().await;
    db.execute("create table effect (job bigint primary key)").await;
    let bouncer = PgBouncer::builder(&db.server).pool_size(4).start().await;
    let pool = tenure_jobs::work_pool(&bouncer.url(), 10).unwrap();
    let mut config = sql("insert into effect values ($2)");
    config["poll_interval"] = json!("100ms");
    let poller = Poller::new(pool.clone(), serde_json::from_value(config).unwrap()).unwrap();
    let (term, control) = db.term().await;

    let watch = async {
        let adds = (0..JOBS).map(async |_| {
            let mut tx = pool.begin().await.unwrap();
            let new = NewJob { unique_key: Some("u".to_owned()), ..job("sql") };
            enqueue(&mut tx, &job("sql")).await.unwrap();
            enqueue(&mut tx, &new).await.unwrap();
            tx.commit().await.unwrap();
        });
        futures_util::future::join_all(adds).await;
        loop {
            let mut tx = pool.begin().await.unwrap();
            let backlog = count_backlog(&mut tx).await.unwrap();
            tx.commit().await.unwrap();
            if backlog.total(JobState::Available) + backlog.total(JobState::Running) == 0 {
                break;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        control.drain();
    };
    let (ended, ()) = tokio::join!(poller.run(term.clone()), watch);
    ended.unwrap();

    let mut tx = pool.begin().await.unwrap();
    let filter = JobFilter { limit: 10_000, ..JobFilter::default() };
    let jobs = list_jobs(&mut tx, &filter).await.unwrap();
    assert!(jobs.len() > JOBS);
    for job in &jobs {
        assert_eq!((job.state, job.attempt, &job.last_error), (JobState::Completed, 1, &None), "{job:?}");
    }
    assert_eq!(db.number("select count(*) from effect").await, i64::try_from(jobs.len()).unwrap());
    assert!(retry_job(&mut tx, jobs[0].id).await.is_err(), "a completed job");
    tx.rollback().await.unwrap();
}
