use crate::support::{Database, HOUR, job};
use std::time::Duration;
use tenure_jobs::{
    AfterFailure, JobFilter, JobState, JobsError, NewJob, cancel_job, complete, count_backlog, fail,
    limit_transaction, list_jobs, query, read_job, retry_job,
};

async fn discarded(db: &Database, new: NewJob) -> i64 {
    let id = db.add(new).await.id;
    let claimed = db.claim(&["a"], 1, HOUR).await;
    let mut tx = db.begin().await;
    fail(&mut tx, id, claimed[0].attempt, "x", AfterFailure::Discard).await.unwrap();
    tx.commit().await.unwrap();
    id
}

#[tokio::test]
async fn a_dead_letter_can_be_retried_and_its_attempts_count_on() {
    let db = Database::create().await;
    let id = discarded(&db, NewJob { max_attempts: 1, ..job("a") }).await;
    let mut tx = db.begin().await;
    retry_job(&mut tx, id).await.unwrap();
    tx.commit().await.unwrap();
    assert_eq!(db.claim(&["a"], 1, HOUR).await[0].attempt, 2, "a number is never used twice");
    let running = retry_job(&mut *db.begin().await, id).await.unwrap_err();
    assert!(matches!(running, JobsError::WrongState { state: JobState::Running, .. }), "{running}");
    let absent = retry_job(&mut *db.begin().await, id + 1).await.unwrap_err();
    assert!(matches!(absent, JobsError::NotFound { .. }), "{absent}");
}

#[tokio::test]
async fn a_dead_letter_whose_unique_key_is_taken_is_not_retried() {
    let db = Database::create().await;
    let unique = || NewJob { unique_key: Some("k".to_owned()), ..job("a") };
    let id = discarded(&db, unique()).await;
    assert!(db.add(unique()).await.inserted);
    let refused = retry_job(&mut *db.begin().await, id).await.unwrap_err();
    assert!(matches!(refused, JobsError::UniqueKeyTaken { .. }), "{refused}");
}

#[tokio::test]
async fn a_waiting_job_can_be_cancelled_and_a_running_one_can_not() {
    let db = Database::create().await;
    let (running, waiting) = (db.add(job("a")).await.id, db.add(job("a")).await.id);
    db.claim(&["a"], 1, HOUR).await;
    let mut tx = db.begin().await;
    cancel_job(&mut tx, waiting).await.unwrap();
    let refused = cancel_job(&mut tx, running).await.unwrap_err();
    tx.commit().await.unwrap();
    assert!(matches!(refused, JobsError::WrongState { state: JobState::Running, .. }), "{refused}");
    assert_eq!(db.state(waiting).await, JobState::Cancelled);
    assert_eq!(db.claim(&["a"], 1, HOUR).await, []);
}

#[tokio::test]
async fn the_backlog_counts_by_queue_and_state_and_knows_the_oldest_due_job() {
    let db = Database::create().await;
    let empty = count_backlog(&mut *db.begin().await).await.unwrap();
    assert_eq!((empty.due, empty.oldest_due_seconds), (0, None));
    db.add(NewJob { queue: "mail".to_owned(), ..job("a") }).await;
    db.claim(&["a"], 1, HOUR).await;
    db.execute("insert into tenure.job (kind, run_at) values ('b', now() - interval '90 seconds'), ('b', now() + interval '1 day')")
        .await;
    let backlog = count_backlog(&mut *db.begin().await).await.unwrap();
    let counts: Vec<_> = backlog.queues.iter().map(|q| (q.queue.as_str(), q.state, q.jobs)).collect();
    assert_eq!(counts, [("default", JobState::Available, 2), ("mail", JobState::Running, 1)]);
    assert_eq!(backlog.due, 1);
    assert!(backlog.oldest_due_seconds.is_some_and(|age| age >= 90.0));
    assert_eq!(backlog.total(JobState::Running), 1);
}

#[tokio::test]
async fn jobs_are_listed_by_state_kind_and_page() {
    let db = Database::create().await;
    let mut added = Vec::new();
    for kind in ["a", "b", "a", "a"] {
        added.push(db.add(job(kind)).await.id);
    }
    let list = async |filter: JobFilter| -> Vec<i64> {
        let listed = list_jobs(&mut *db.begin().await, &filter).await.unwrap();
        listed.iter().map(|job| job.id).collect()
    };
    let kind = Some("a".to_owned());
    let first = list(JobFilter { kind: kind.clone(), limit: 2, ..JobFilter::default() }).await;
    assert_eq!(first, [added[3], added[2]]);
    let next = JobFilter { kind, before: first.last().copied(), ..JobFilter::default() };
    assert_eq!(list(next).await, [added[0]]);
    assert_eq!(
        list(JobFilter { state: Some(JobState::Completed), ..JobFilter::default() }).await,
        Vec::<i64>::new()
    );
    let absent = read_job(&mut *db.begin().await, i64::MAX).await.unwrap_err();
    assert!(matches!(absent, JobsError::NotFound { .. }));
}

#[tokio::test]
async fn a_statement_that_takes_too_long_is_ended_by_the_server() {
    let db = Database::create().await;
    let id = db.add(job("a")).await.id;
    db.claim(&["a"], 1, HOUR).await;
    let mut holder = db.begin().await;
    query("select from tenure.job where id = $1 for update").bind(id).execute(&mut *holder).await.unwrap();
    let mut tx = db.begin().await;
    limit_transaction(&mut tx, Duration::from_millis(50)).await.unwrap();
    let ended = complete(&mut tx, id, 1).await.unwrap_err();
    assert!(matches!(ended, JobsError::Database { .. }), "{ended}");
    tx.rollback().await.unwrap();
}
