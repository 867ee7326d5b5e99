use crate::support::{Database, HOUR, job};
use serde_json::json;
use sqlx::postgres::PgListener;
use tenure_jobs::{
    EnqueueError, JobFilter, MAX_PAYLOAD_BYTES, NewJob, complete, enqueue, list_jobs, read_job,
};

#[tokio::test]
async fn a_job_exists_exactly_if_its_transaction_commits() {
    let db = Database::create().await;
    let mut tx = db.begin().await;
    enqueue(&mut tx, &job("a")).await.unwrap();
    tx.rollback().await.unwrap();
    let kept = db.add(job("a")).await;
    let listed = list_jobs(&mut *db.begin().await, &JobFilter::default()).await.unwrap();
    assert_eq!(listed.iter().map(|job| job.id).collect::<Vec<_>>(), [kept.id]);
    assert!(kept.inserted);
}

#[tokio::test]
async fn every_field_is_stored_as_given() {
    let db = Database::create().await;
    let run_at = "2030-01-02T03:04:05Z".parse().unwrap();
    let new = NewJob {
        queue: "mail".to_owned(),
        priority: -3,
        run_at: Some(run_at),
        max_attempts: 4,
        unique_key: Some("u".to_owned()),
        ordering_key: Some("o".to_owned()),
        ..NewJob::new("a", json!({"x": [1, "ü"]}))
    };
    let added = db.add(new.clone()).await;
    let read = read_job(&mut *db.begin().await, added.id).await.unwrap();
    assert_eq!((read.kind, read.queue, read.payload), (new.kind, new.queue, new.payload));
    assert_eq!((read.priority, read.run_at, read.max_attempts), (-3, run_at, 4));
    assert_eq!((read.unique_key, read.ordering_key), (new.unique_key, new.ordering_key));
    assert_eq!((read.attempt, read.finished_at, read.attempt_deadline), (0, None, None));
}

#[tokio::test]
async fn a_unique_key_returns_the_unfinished_job_that_has_it() {
    let db = Database::create().await;
    let unique = || NewJob { unique_key: Some("k".to_owned()), ..job("a") };
    let first = db.add(unique()).await;
    let second = db.add(unique()).await;
    assert_eq!((second.id, second.inserted), (first.id, false));

    let claimed = db.claim(&["a"], 1, HOUR).await;
    assert_eq!(db.add(unique()).await.id, first.id, "a running job keeps its key");
    let mut tx = db.begin().await;
    complete(&mut tx, claimed[0].id, claimed[0].attempt).await.unwrap();
    tx.commit().await.unwrap();
    let third = db.add(unique()).await;
    assert!(third.inserted && third.id != first.id, "a finished job gives its key up");
}

#[tokio::test]
async fn of_many_at_once_one_gets_the_unique_key() {
    let db = Database::create().await;
    let unique = || NewJob { unique_key: Some("k".to_owned()), ..job("a") };
    let adds = (0..8).map(|_| db.add(unique()));
    let added = futures_util::future::join_all(adds).await;
    assert_eq!(added.iter().filter(|enqueued| enqueued.inserted).count(), 1);
    assert!(added.iter().all(|enqueued| enqueued.id == added[0].id));
}

#[tokio::test]
async fn a_nul_is_refused_and_the_transaction_stays_usable() {
    let db = Database::create().await;
    let mut tx = db.begin().await;
    let refused = enqueue(&mut tx, &NewJob::new("a", json!({"text": "a\0b"}))).await.unwrap_err();
    assert!(matches!(refused, EnqueueError::Invalid(_)));
    assert!(refused.to_string().contains("$.text"), "{refused}");
    let escaped = enqueue(&mut tx, &NewJob::new("a", json!(r"\u0000"))).await.unwrap();
    tx.commit().await.unwrap();
    let read = read_job(&mut *db.begin().await, escaped.id).await.unwrap();
    assert_eq!(read.payload, json!(r"\u0000"), "an escaped backslash is left alone");
}

#[tokio::test]
async fn the_hint_carries_nothing_of_even_the_largest_payload() {
    let db = Database::create().await;
    let mut listener = PgListener::connect_with(&db.pool).await.unwrap();
    listener.listen(tenure_jobs::CHANNEL).await.unwrap();
    let large = json!("x".repeat(MAX_PAYLOAD_BYTES - 2));
    // Other tests of this process may just have given the hint.
    let hint = loop {
        assert!(db.add(NewJob::new("a", large.clone())).await.inserted);
        let heard = tokio::time::timeout(std::time::Duration::from_millis(100), listener.recv()).await;
        if let Ok(hint) = heard {
            break hint.unwrap();
        }
    };
    assert_eq!(hint.payload(), "");
}

#[tokio::test]
async fn the_printed_script_can_be_run_twice_and_comments_every_column() {
    let db = Database::create().await;
    let all = [tenure::schema::MIGRATIONS, tenure_jobs::MIGRATIONS].concat();
    db.execute(&tenure::schema::script(&all)).await;
    let bare: Vec<String> = sqlx::query_scalar(
        "select attrelid::regclass::text || '.' || attname from pg_attribute \
         where attrelid in ('tenure.job'::regclass, 'tenure.job_attempt'::regclass) and attnum > 0 \
         and not attisdropped and col_description(attrelid, attnum) is null",
    )
    .fetch_all(&db.pool)
    .await
    .unwrap();
    assert_eq!(bare, Vec::<String>::new());
}
