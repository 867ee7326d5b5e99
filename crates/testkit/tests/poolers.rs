//! That a pooler is one, and of the mode that was asked for.

use sqlx::{Connection as _, PgConnection, Row as _, postgres::PgConnectOptions};
use tenure_testkit::{PgBouncer, PoolMode, TestServer};

fn options(bouncer: &PgBouncer) -> PgConnectOptions {
    // A stock PgBouncer refuses this startup parameter of sqlx.
    bouncer.url().parse::<PgConnectOptions>().unwrap().extra_float_digits(None)
}

async fn backend(connection: &mut PgConnection) -> i32 {
    sqlx::raw_sql("select pg_backend_pid()").fetch_one(connection).await.unwrap().get(0)
}

/// The backends of two clients, the second asked while the first stays.
async fn two_backends(bouncer: &PgBouncer) -> (i32, i32) {
    let mut one = PgConnection::connect_with(&options(bouncer)).await.unwrap();
    let mut two = PgConnection::connect_with(&options(bouncer)).await.unwrap();
    (backend(&mut one).await, backend(&mut two).await)
}

#[tokio::test]
async fn a_session_pooler_gives_each_client_a_backend() {
    let server = TestServer::start();
    let bouncer = PgBouncer::builder(&server).mode(PoolMode::Session).pool_size(2).start().await;
    let (one, two) = two_backends(&bouncer).await;
    assert_ne!(one, two);
}

#[tokio::test]
async fn a_transaction_pooler_shares_a_backend() {
    let server = TestServer::start();
    let bouncer = PgBouncer::builder(&server).mode(PoolMode::Transaction).pool_size(1).start().await;
    let (one, two) = two_backends(&bouncer).await;
    assert_eq!(one, two);
}

#[tokio::test]
async fn a_statement_pooler_refuses_a_transaction() {
    let server = TestServer::start();
    let bouncer = PgBouncer::builder(&server).mode(PoolMode::Statement).start().await;
    let mut connection = PgConnection::connect_with(&options(&bouncer)).await.unwrap();
    backend(&mut connection).await;
    let refused = sqlx::raw_sql("begin; select 1").execute(&mut connection).await.unwrap_err();
    assert!(refused.to_string().contains("transaction"), "{refused}");
}

#[tokio::test]
async fn startup_options_pass_only_a_pooler_that_ignores_them() {
    let server = TestServer::start();
    let stock = PgBouncer::builder(&server).start().await;
    let with_options = |bouncer| options(bouncer).options([("work_mem", "5MB")]);
    let refused = PgConnection::connect_with(&with_options(&stock)).await.unwrap_err();
    assert!(refused.to_string().contains("unsupported startup parameter"), "{refused}");
    assert!(stock.log().contains("unsupported startup parameter"), "{}", stock.log());
    let lenient = PgBouncer::builder(&server).ignore_startup_parameters("options").start().await;
    PgConnection::connect_with(&with_options(&lenient)).await.unwrap();
}

#[tokio::test]
async fn a_pooler_by_turns_moves_a_lone_client_between_idle_backends() {
    let server = TestServer::start();
    let bouncer = PgBouncer::builder(&server).pool_size(2).round_robin(true).start().await;
    let mut one = PgConnection::connect_with(&options(&bouncer)).await.unwrap();
    let mut two = PgConnection::connect_with(&options(&bouncer)).await.unwrap();
    // Two open transactions at once make two backends.
    let mut transaction = one.begin().await.unwrap();
    let first = sqlx::raw_sql("select 1").execute(&mut *transaction).await;
    first.unwrap();
    backend(&mut two).await;
    transaction.rollback().await.unwrap();
    let seen = [backend(&mut two).await, backend(&mut two).await];
    assert_ne!(seen[0], seen[1]);
}
