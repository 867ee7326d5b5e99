use crate::support::{Database, HOUR, ids, job};
use std::time::Duration;
use tenure_jobs::{
    AfterFailure, AttemptId, DueProbe, JobState, JobsError, NewJob, complete, extend, fail, hold_attempt,
    read_job, release_dead,
};

async fn release(db: &Database) -> Vec<(i64, JobState)> {
    let mut tx = db.begin().await;
    let released = release_dead(&mut tx, 100).await.unwrap();
    tx.commit().await.unwrap();
    released.into_iter().map(|job| (job.id, job.state)).collect()
}

async fn outcomes(db: &Database, job: i64) -> Vec<(i32, Option<String>)> {
    sqlx::query_as("select attempt, outcome from tenure.job_attempt where job_id = $1 order by attempt")
        .bind(job)
        .fetch_all(&db.pool)
        .await
        .unwrap()
}

#[tokio::test]
async fn an_attempt_that_was_taken_for_dead_can_not_end_the_job() {
    let db = Database::create().await;
    let id = db.add(job("a")).await.id;
    db.claim(&["a"], 1, Duration::ZERO).await;
    assert_eq!(release(&db).await, [(id, JobState::Available)]);

    let mut tx = db.begin().await;
    let gone = complete(&mut tx, id, 1).await.unwrap_err();
    assert!(
        matches!(gone, JobsError::AttemptGone { attempt: 1, state: JobState::Available, current: 1, .. }),
        "{gone}"
    );
    let again = db.claim(&["a"], 1, HOUR).await;
    assert_eq!(again[0].attempt, 2);
    for gone in [
        complete(&mut tx, id, 1).await.map(drop),
        fail(&mut tx, id, 1, "late", AfterFailure::Discard).await.map(drop),
        hold_attempt(&mut tx, id, 1).await,
    ] {
        assert!(matches!(gone, Err(JobsError::AttemptGone { current: 2, .. })), "{gone:?}");
    }
    complete(&mut tx, id, 2).await.unwrap();
    let twice = complete(&mut tx, id, 2).await.unwrap_err();
    assert!(matches!(twice, JobsError::AttemptGone { state: JobState::Completed, .. }), "{twice}");
    tx.commit().await.unwrap();
    let ends = [(1, Some("died".to_owned())), (2, Some("completed".to_owned()))];
    assert_eq!(outcomes(&db, id).await, ends, "each attempt has one end");
}

#[tokio::test]
async fn a_job_that_kills_its_process_runs_out_of_attempts() {
    let db = Database::create().await;
    let id = db.add(NewJob { max_attempts: 3, ..job("a") }).await.id;
    for attempt in 1..=3 {
        assert!(!DueProbe::new(["a"]).ask(&db.pool).await.unwrap().dead_attempts);
        let claimed = db.claim(&["a"], 1, Duration::ZERO).await;
        assert_eq!(claimed[0].attempt, attempt);
        assert!(DueProbe::new(["a"]).ask(&db.pool).await.unwrap().dead_attempts);
        let state = if attempt < 3 { JobState::Available } else { JobState::Discarded };
        assert_eq!(release(&db).await, [(id, state)]);
    }
    assert_eq!(db.claim(&["a"], 1, HOUR).await, [], "it is quarantined");
    let died = Some("died".to_owned());
    assert_eq!(outcomes(&db, id).await, [(1, died.clone()), (2, died.clone()), (3, died)]);
}

#[tokio::test]
async fn an_attempt_that_is_extended_is_not_taken_for_dead() {
    let db = Database::create().await;
    let (long, dead) = (db.add(job("a")).await.id, db.add(job("a")).await.id);
    db.claim(&["a"], 2, Duration::ZERO).await;
    let mut tx = db.begin().await;
    let living = [AttemptId { job: long, attempt: 1 }];
    assert_eq!(extend(&mut tx, &living, HOUR).await.unwrap(), []);
    tx.commit().await.unwrap();
    assert_eq!(release(&db).await, [(dead, JobState::Available)]);
    assert_eq!(db.state(long).await, JobState::Running);

    let mut tx = db.begin().await;
    let both = [AttemptId { job: long, attempt: 1 }, AttemptId { job: dead, attempt: 1 }];
    assert_eq!(extend(&mut tx, &both, HOUR).await.unwrap(), [both[1]], "the other one is gone");
}

#[tokio::test]
async fn an_attempt_that_is_just_being_ended_is_neither_released_nor_waited_for() {
    let db = Database::create().await;
    let (ending, other) = (db.add(job("a")).await.id, db.add(job("a")).await.id);
    db.claim(&["a"], 2, Duration::ZERO).await;
    let mut holder = db.begin().await;
    hold_attempt(&mut holder, ending, 1).await.unwrap();
    let both = [AttemptId { job: ending, attempt: 1 }, AttemptId { job: other, attempt: 1 }];
    let mut tx = db.begin().await;
    assert_eq!(extend(&mut tx, &both, Duration::ZERO).await.unwrap(), []);
    tx.commit().await.unwrap();
    assert_eq!(release(&db).await, [(other, JobState::Available)]);
    complete(&mut holder, ending, 1).await.unwrap();
    holder.commit().await.unwrap();
    assert_eq!(db.state(ending).await, JobState::Completed);
}

#[tokio::test]
async fn a_failed_job_waits_for_its_next_try_with_a_storable_reason() {
    let db = Database::create().await;
    let id = db.add(job("a")).await.id;
    db.claim(&["a"], 1, HOUR).await;
    let mut tx = db.begin().await;
    let state = fail(&mut tx, id, 1, "bad\0thing", AfterFailure::RetryAfter(HOUR)).await.unwrap();
    tx.commit().await.unwrap();
    assert_eq!(state, JobState::Available);
    assert_eq!(db.claim(&["a"], 1, HOUR).await, [], "it isn't due yet");
    let read = read_job(&mut *db.begin().await, id).await.unwrap();
    assert_eq!(read.last_error.as_deref(), Some("bad\u{fffd}thing"));
    let wait: f64 =
        sqlx::query_scalar("select extract(epoch from run_at - now())::float8 from tenure.job where id = $1")
            .bind(id)
            .fetch_one(&db.pool)
            .await
            .unwrap();
    assert!((3000.0..=3600.0).contains(&wait), "{wait}");
}

#[tokio::test]
async fn a_job_whose_last_attempt_fails_is_discarded_and_so_is_one_that_can_not_succeed() {
    let db = Database::create().await;
    let last = db.add(NewJob { max_attempts: 1, ..job("a") }).await.id;
    let hopeless = db.add(job("a")).await.id;
    assert_eq!(ids(&db.claim(&["a"], 2, HOUR).await), [last, hopeless]);
    let mut tx = db.begin().await;
    let soon = AfterFailure::RetryAfter(Duration::ZERO);
    assert_eq!(fail(&mut tx, last, 1, "x", soon).await.unwrap(), JobState::Discarded);
    assert_eq!(fail(&mut tx, hopeless, 1, "x", AfterFailure::Discard).await.unwrap(), JobState::Discarded);
    tx.commit().await.unwrap();
    assert_eq!(outcomes(&db, last).await, [(1, Some("failed".to_owned()))]);
    assert_eq!(outcomes(&db, hopeless).await, [(1, Some("discarded".to_owned()))]);
}
