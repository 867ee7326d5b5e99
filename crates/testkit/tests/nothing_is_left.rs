//! The kit itself: what it starts is real, and nothing of it is left.

use rustix::process::{Pid, test_kill_process};
use sqlx::{Connection as _, PgConnection, postgres::PgConnectOptions};
use std::time::Duration;
use tenure_testkit::{PgBouncer, PoolMode, Replica, Signal, StopMode, TestServer, eventually};

fn runs(pid: u32) -> bool {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw).expect("a process id");
    test_kill_process(pid).is_ok()
}

#[tokio::test]
async fn a_dropped_server_leaves_no_process_and_no_folder() {
    let server = TestServer::start();
    let one: i32 = sqlx::query_scalar("select 1").fetch_one(&server.pool().await).await.unwrap();
    assert_eq!(one, 1);
    let (pid, folder) = (server.private().pid().unwrap(), server.private().folder().to_owned());
    assert!(runs(pid) && folder.exists());
    drop(server);
    assert!(!runs(pid) && !folder.exists());
}

#[tokio::test]
async fn a_server_dies_with_the_process_that_started_it() {
    let mut owner = Replica::spawn(env!("CARGO_BIN_EXE_testkit-server-owner"), &[] as &[&str], &[]);
    let event = owner.wait_event("the server's pid", |event| event.name() == "started").await;
    let pid = u32::try_from(event.fields["pid"].as_u64().unwrap()).unwrap();
    assert!(runs(pid));
    owner.signal(Signal::KILL);
    owner.wait_exit().await;
    eventually(Duration::from_secs(30), || async { if runs(pid) { Err("still running") } else { Ok(()) } })
        .await;
    std::fs::remove_dir_all(event.text("folder")).unwrap();
}

#[tokio::test]
async fn a_stopped_server_starts_again_with_its_data() {
    let mut server = TestServer::start();
    sqlx::raw_sql("create table kept (n int)").execute(&server.pool().await).await.unwrap();
    server.stop(StopMode::Immediate);
    server.start_again();
    sqlx::raw_sql("select n from kept").execute(&server.pool().await).await.unwrap();
}

#[tokio::test]
async fn a_standby_follows_and_can_be_promoted() {
    let primary = TestServer::start();
    let standby = primary.start_standby();
    let pool = standby.pool().await;
    let recovering = || sqlx::query_scalar::<_, bool>("select pg_is_in_recovery()");
    assert!(recovering().fetch_one(&pool).await.unwrap());
    standby.promote();
    assert!(!recovering().fetch_one(&pool).await.unwrap());
}

#[tokio::test]
async fn pgbouncer_answers_in_each_mode() {
    let server = TestServer::start();
    for mode in [PoolMode::Session, PoolMode::Transaction, PoolMode::Statement] {
        let bouncer = PgBouncer::builder(&server).mode(mode).pool_size(1).start().await;
        let options: PgConnectOptions = bouncer.url().parse().unwrap();
        let mut connection = PgConnection::connect_with(&options.extra_float_digits(None)).await.unwrap();
        sqlx::raw_sql("select 1").execute(&mut connection).await.unwrap();
    }
}
