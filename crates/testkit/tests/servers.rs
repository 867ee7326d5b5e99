//! What a test asks of its server.

use sqlx::{PgPool, Row as _};
use std::time::Duration;
use tenure_testkit::{StopMode, TestServer, eventually};

async fn text(pool: &PgPool, sql: &'static str) -> String {
    sqlx::query(sql).fetch_one(pool).await.unwrap().get(0)
}

#[tokio::test]
async fn a_stopped_server_starts_again_with_its_data() {
    let mut server = TestServer::start();
    sqlx::raw_sql("create table kept (n int)").execute(&server.pool().await).await.unwrap();
    server.stop(StopMode::Immediate);
    server.start_again();
    sqlx::raw_sql("select n from kept").execute(&server.pool().await).await.unwrap();
    server.restart(StopMode::Fast);
    sqlx::raw_sql("select n from kept").execute(&server.pool().await).await.unwrap();
}

#[tokio::test]
async fn a_standby_follows_and_can_be_promoted() {
    let primary = TestServer::start_with(&[("max_connections", "120")]);
    let standby = primary.start_standby();
    let pool = standby.pool().await;
    assert_eq!(text(&pool, "select pg_is_in_recovery()::text").await, "true");
    sqlx::raw_sql("create table copied (n int)").execute(&primary.pool().await).await.unwrap();
    eventually(Duration::from_secs(30), || sqlx::raw_sql("select n from copied").execute(&pool)).await;
    standby.promote();
    sqlx::raw_sql("insert into copied values (1)").execute(&pool).await.unwrap();
}

#[tokio::test]
async fn parameters_reach_the_server_and_its_log_can_be_read() {
    let server = TestServer::start_with(&[("log_statement", "all")]);
    assert_eq!(text(&server.pool().await, "select 'needle'").await, "needle");
    assert!(server.log().contains("select 'needle'"), "{}", server.log());
}

#[tokio::test]
async fn an_ordinary_role_can_connect_and_is_no_superuser() {
    let server = TestServer::start();
    server.create_role("app", "secret").await;
    let pool = PgPool::connect(&server.url_as("app", "secret")).await.unwrap();
    assert_eq!(text(&pool, "select current_user::text").await, "app");
    assert_eq!(text(&pool, "select current_setting('is_superuser')").await, "off");
}

#[tokio::test]
async fn a_database_of_its_own_is_reached_by_its_url() {
    let server = TestServer::start();
    let pool = PgPool::connect(&server.create_database("own").await).await.unwrap();
    assert_eq!(text(&pool, "select current_database()::text").await, "own");
}

#[tokio::test]
async fn only_an_unrelated_server_has_another_system_identifier() {
    const SYSTEM: &str = "select system_identifier::text from pg_control_system()";
    let (one, two) = (TestServer::start(), TestServer::start());
    let system = text(&one.pool().await, SYSTEM).await;
    assert_eq!(text(&two.pool().await, SYSTEM).await, system);
    assert_ne!(text(&TestServer::start_unrelated().pool().await, SYSTEM).await, system);
}
