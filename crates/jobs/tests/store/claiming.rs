use crate::support::{Database, HOUR, claim_in, ids, job};
use chrono::{DateTime, TimeDelta, Utc};
use tenure_jobs::{Due, DueProbe, JobState, NewJob, complete, enqueue};

async fn due(db: &Database, kinds: &[&str]) -> Due {
    DueProbe::new(kinds.iter().copied()).ask(&db.pool).await.unwrap()
}

#[tokio::test]
async fn an_attempt_is_counted_when_it_is_claimed() {
    let db = Database::create().await;
    let added = db.add(job("a")).await;
    let claimed = db.claim(&["a"], 10, HOUR).await;
    assert_eq!((claimed[0].id, claimed[0].attempt), (added.id, 1));
    assert_eq!(db.state(added.id).await, JobState::Running);
    assert_eq!(db.claim(&["a"], 10, HOUR).await, [], "it is claimed once");
}

#[tokio::test]
async fn a_kind_without_a_route_waits_and_is_never_in_the_way() {
    let db = Database::create().await;
    db.execute("insert into tenure.job (kind, priority) select 'unknown', 9 from generate_series(1, 500)")
        .await;
    assert_eq!(due(&db, &["a"]).await, Due::default());
    let known = db.add(job("a")).await;
    assert!(due(&db, &["a"]).await.jobs);
    assert_eq!(ids(&db.claim(&["a"], 1, HOUR).await), [known.id]);
    let waiting: i64 =
        sqlx::query_scalar("select count(*) from tenure.job where kind = 'unknown' and state = 'available'")
            .fetch_one(&db.pool)
            .await
            .unwrap();
    assert_eq!(waiting, 500);
}

#[tokio::test]
async fn jobs_that_are_kept_waiting_never_starve_later_ones() {
    let db = Database::create().await;
    db.execute(
        "insert into tenure.job (kind, priority, ordering_key) select 'a', 9, 'k' from generate_series(1, 500)",
    )
    .await;
    let free = db.add(job("a")).await;
    let first = db.claim(&["a"], 1, HOUR).await;
    assert_ne!(first[0].id, free.id, "the first of the key has the higher priority");
    assert_eq!(ids(&db.claim(&["a"], 1, HOUR).await), [free.id]);
    assert!(!due(&db, &["a"]).await.jobs, "the others wait for their turn");
}

#[tokio::test]
async fn a_job_that_somebody_has_locked_is_passed_over() {
    let db = Database::create().await;
    let locked = db.add(NewJob { priority: 1, ..job("a") }).await;
    let free = db.add(job("a")).await;
    let mut holder = db.begin().await;
    sqlx::query("select from tenure.job where id = $1 for update")
        .bind(locked.id)
        .execute(&mut *holder)
        .await
        .unwrap();
    assert_eq!(ids(&db.claim(&["a"], 1, HOUR).await), [free.id]);
}

#[tokio::test]
async fn the_higher_priority_comes_first_and_then_the_longest_due_of_all_kinds() {
    let db = Database::create().await;
    let base: DateTime<Utc> = "2020-01-01T12:00:00Z".parse().unwrap();
    let at = |minutes| Some(base - TimeDelta::minutes(minutes));
    let late = db.add(NewJob { run_at: at(1), ..job("a") }).await.id;
    let early = db.add(NewJob { run_at: at(5), ..job("b") }).await.id;
    let middle = db.add(NewJob { run_at: at(3), ..job("a") }).await.id;
    let urgent = db.add(NewJob { priority: 1, ..job("b") }).await.id;
    let never = db.add(NewJob { priority: -1, run_at: at(9), ..job("a") }).await.id;
    assert_eq!(ids(&db.claim(&["a", "b"], 10, HOUR).await), [urgent, early, middle, late, never]);
}

/// Gives the database another clock: a function that is found before the built-in one.
async fn shift_clock(db: &Database, hours: i32) {
    db.execute(&format!(
        "create schema shifted;
         create function shifted.statement_timestamp() returns timestamptz stable language sql
             as 'select pg_catalog.statement_timestamp() + interval ''{hours} hours''';
         do $$ begin execute format('alter database %I set search_path = shifted, pg_catalog, public',
             current_database()); end $$",
    ))
    .await;
}

#[tokio::test]
async fn the_database_clock_decides_what_is_due() {
    let ahead = Database::create().await;
    let soon = ahead.add(NewJob { run_at: Some(ahead.now().await + TimeDelta::hours(1)), ..job("a") }).await;
    assert!(!due(&ahead, &["a"]).await.jobs);
    shift_clock(&ahead, 2).await;
    let ahead = ahead.reconnect().await;
    assert!(due(&ahead, &["a"]).await.jobs);
    assert_eq!(ids(&ahead.claim(&["a"], 1, HOUR).await), [soon.id]);

    let behind = Database::create().await;
    behind.add(NewJob { run_at: Some(behind.now().await - TimeDelta::hours(1)), ..job("a") }).await;
    shift_clock(&behind, -2).await;
    let behind = behind.reconnect().await;
    assert!(!due(&behind, &["a"]).await.jobs);
    assert_eq!(behind.claim(&["a"], 1, HOUR).await, []);
}

#[tokio::test]
async fn jobs_of_one_ordering_key_run_one_at_a_time_by_id() {
    let db = Database::create().await;
    let ordered = |priority| NewJob { priority, ordering_key: Some("k".to_owned()), ..job("a") };
    let first = db.add(ordered(0)).await.id;
    let second = db.add(ordered(9)).await.id;
    let claimed = db.claim(&["a"], 10, HOUR).await;
    assert_eq!(ids(&claimed), [first], "priority doesn't change the order of a key");
    assert_eq!(db.claim(&["a"], 10, HOUR).await, []);
    let mut tx = db.begin().await;
    complete(&mut tx, first, 1).await.unwrap();
    tx.commit().await.unwrap();
    assert_eq!(ids(&db.claim(&["a"], 10, HOUR).await), [second]);
}

#[tokio::test]
async fn a_lower_id_that_was_committed_late_waits_for_the_running_one() {
    let db = Database::create().await;
    let ordered = || NewJob { ordering_key: Some("k".to_owned()), ..job("a") };
    let mut slow = db.begin().await;
    let lower = enqueue(&mut slow, &ordered()).await.unwrap().id;
    let higher = db.add(ordered()).await.id;
    assert!(lower < higher);
    assert_eq!(ids(&db.claim(&["a"], 10, HOUR).await), [higher]);
    slow.commit().await.unwrap();
    assert_eq!(db.claim(&["a"], 10, HOUR).await, [], "one at a time");
    let mut tx = db.begin().await;
    complete(&mut tx, higher, 1).await.unwrap();
    tx.commit().await.unwrap();
    assert_eq!(ids(&db.claim(&["a"], 10, HOUR).await), [lower]);
}

#[tokio::test]
async fn claims_at_the_same_time_never_share_a_job() {
    let db = Database::create().await;
    let added: Vec<i64> = futures_util::future::join_all((0..10).map(|_| db.add(job("a"))))
        .await
        .iter()
        .map(|enqueued| enqueued.id)
        .collect();
    let mut one = db.begin().await;
    let mut two = db.begin().await;
    let first = claim_in(&mut one, &["a"], 5, HOUR).await;
    let second = claim_in(&mut two, &["a"], 10, HOUR).await;
    one.commit().await.unwrap();
    two.commit().await.unwrap();
    let mut all = [ids(&first), ids(&second)].concat();
    all.sort_unstable();
    let mut expected = added;
    expected.sort_unstable();
    assert_eq!((first.len(), second.len(), all), (5, 5, expected));
}
