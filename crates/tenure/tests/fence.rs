//! The fence, against a real server: a write of an older term never commits after the next term began.

use sqlx::{PgPool, Row as _};
use std::time::Duration;
use tenure::{FenceError, Role, Term, schema, testing::TermControl};
use tenure_testkit::{TestServer, eventually};

const ROLE: Role = Role::new("fenced", 4711);
const LONG: Duration = Duration::from_secs(30);

async fn set_up() -> (TestServer, PgPool) {
    let server = TestServer::start();
    let pool = server.pool().await;
    schema::migrate(&pool, schema::MIGRATIONS).await.unwrap();
    sqlx::raw_sql(
        "create table written (id bigint generated always as identity, epoch bigint not null, \
         committed_after_next boolean)",
    )
    .execute(&pool)
    .await
    .unwrap();
    (server, pool)
}

async fn write(pool: &PgPool, term: &Term, begin: &'static str) -> Result<(), FenceError> {
    let mut tx = term.begin_fenced_with(pool, begin).await?;
    sqlx::query("insert into written (epoch) values ($1)")
        .bind(term.epoch().0)
        .execute(&mut *tx)
        .await
        .map_err(|error| term.fence_error(error))?;
    tx.commit().await
}

async fn written(pool: &PgPool) -> i64 {
    sqlx::query_scalar("select count(*) from written").fetch_one(pool).await.unwrap()
}

const LEVELS: [&str; 3] = [
    "BEGIN ISOLATION LEVEL READ COMMITTED",
    "BEGIN ISOLATION LEVEL REPEATABLE READ",
    "BEGIN ISOLATION LEVEL SERIALIZABLE",
];

#[tokio::test]
async fn a_fenced_write_that_begins_after_the_next_term_is_refused_at_every_level() {
    let (_server, pool) = set_up().await;
    for level in LEVELS {
        let (old, _control) = TermControl::begin(&pool, ROLE).await.unwrap();
        write(&pool, &old, level).await.unwrap();
        let before = written(&pool).await;
        let (new, _new_control) = TermControl::begin(&pool, ROLE).await.unwrap();
        let error = write(&pool, &old, level).await.unwrap_err();
        assert!(error.is_fenced(), "{level}: {error:?}");
        assert_eq!(written(&pool).await, before, "{level}");
        write(&pool, &new, level).await.unwrap();
    }
}

#[tokio::test]
async fn the_next_term_cannot_begin_before_an_open_fenced_write_has_ended() {
    let (_server, pool) = set_up().await;
    for level in LEVELS {
        let (old, _control) = TermControl::begin(&pool, ROLE).await.unwrap();
        let mut tx = old.begin_fenced_with(&pool, level).await.unwrap();
        sqlx::query("insert into written (epoch) values ($1)")
            .bind(old.epoch().0)
            .execute(&mut *tx)
            .await
            .unwrap();
        let next = tokio::spawn({
            let pool = pool.clone();
            async move { TermControl::begin(&pool, ROLE).await.unwrap() }
        });
        // Event: the next term waits for our row lock, in the server.
        eventually(LONG, || async {
            let waiting: i64 = sqlx::query_scalar(
                "select count(*) from pg_stat_activity \
                 where wait_event_type = 'Lock' and query like 'insert into tenure.lease%'",
            )
            .fetch_one(&pool)
            .await
            .unwrap();
            if waiting == 1 { Ok(()) } else { Err(waiting) }
        })
        .await;
        assert!(!next.is_finished(), "{level}");
        tx.commit().await.unwrap();
        let (new, _new_control) = next.await.unwrap();
        assert!(new.epoch() > old.epoch());
        assert!(write(&pool, &old, level).await.unwrap_err().is_fenced());
    }
}

#[tokio::test]
async fn a_transaction_whose_snapshot_is_older_than_the_next_term_is_refused() {
    // The fence is the first statement, so the snapshot is its own. A term that begins while the fence
    // waits for the row shows as a serialization failure, and that has to read as fenced.
    let (_server, pool) = set_up().await;
    for level in LEVELS {
        let (old, _control) = TermControl::begin(&pool, ROLE).await.unwrap();
        let mut next = pool.begin().await.unwrap();
        sqlx::query("update tenure.lease set epoch = epoch + 1 where role = $1")
            .bind(ROLE.name())
            .execute(&mut *next)
            .await
            .unwrap();
        let pending = tokio::spawn({
            let pool = pool.clone();
            async move { write(&pool, &old, level).await }
        });
        eventually(LONG, || async {
            let waiting: i64 = sqlx::query_scalar(
                "select count(*) from pg_stat_activity \
                 where wait_event_type = 'Lock' and query like '%for share%'",
            )
            .fetch_one(&pool)
            .await
            .unwrap();
            if waiting == 1 { Ok(()) } else { Err(waiting) }
        })
        .await;
        next.commit().await.unwrap();
        let error = pending.await.unwrap().unwrap_err();
        assert!(error.is_fenced(), "{level}: {error:?}");
    }
    assert_eq!(written(&pool).await, 0);
}

#[tokio::test]
async fn a_fence_in_the_statement_itself_raises_its_own_error() {
    let (_server, pool) = set_up().await;
    let (old, _control) = TermControl::begin(&pool, ROLE).await.unwrap();
    let sql = "with fence as materialized (select tenure.fence($1, $2)) \
               insert into written (epoch) select $2 from fence";
    let write = |term: Term| {
        let pool = pool.clone();
        async move {
            sqlx::query(sql)
                .bind(ROLE.name())
                .bind(term.epoch().0)
                .execute(&pool)
                .await
                .map_err(|error| term.fence_error(error))
        }
    };
    assert_eq!(write(old.clone()).await.unwrap().rows_affected(), 1);
    let (_new, _new_control) = TermControl::begin(&pool, ROLE).await.unwrap();
    assert!(write(old).await.unwrap_err().is_fenced());
    assert_eq!(written(&pool).await, 1);
}

#[tokio::test]
async fn a_term_that_ended_here_is_refused_before_the_server_is_asked() {
    let (server, pool) = set_up().await;
    let (term, control) = TermControl::begin(&pool, ROLE).await.unwrap();
    let tx = term.begin_fenced(&pool).await.unwrap();
    control.revoke();
    assert!(tx.commit().await.unwrap_err().is_fenced());
    drop(server);
    assert!(term.begin_fenced(&pool).await.unwrap_err().is_fenced());
}

#[tokio::test]
async fn waiting_for_an_exhausted_pool_ends_with_the_term() {
    let (server, pool) = set_up().await;
    let (term, control) = TermControl::begin(&pool, ROLE).await.unwrap();
    let small = sqlx::postgres::PgPoolOptions::new().max_connections(1).connect(&server.url()).await.unwrap();
    let _taken = small.acquire().await.unwrap();
    let waiting = tokio::spawn({
        let term = term.clone();
        async move { term.begin_fenced(&small).await.map(drop) }
    });
    control.revoke();
    assert!(waiting.await.unwrap().unwrap_err().is_fenced());
}

#[tokio::test]
async fn a_frozen_fenced_transaction_is_ended_by_the_server() {
    let (_server, pool) = set_up().await;
    let (term, _control) = TermControl::begin(&pool, ROLE).await.unwrap();
    let mut tx = term.begin_fenced(&pool).await.unwrap();
    let limit: String =
        sqlx::query("show idle_in_transaction_session_timeout").fetch_one(&mut *tx).await.unwrap().get(0);
    assert_eq!(limit, "7s", "ttl 15 s, less a heartbeat interval of 5 s and a statement of 3 s");
    // Silence: the next term waits for the row until the server has ended this transaction.
    let (_new, _new_control) =
        tokio::time::timeout(LONG, TermControl::begin(&pool, ROLE)).await.unwrap().unwrap();
    let late = tx.commit().await;
    assert!(late.is_err(), "{late:?}");
}
