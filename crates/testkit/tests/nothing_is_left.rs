//! The kit itself: what it starts is real, and nothing of it is left.

use rustix::process::{Pid, test_kill_process};
use std::{path::Path, time::Duration};
use tenure_testkit::{PgBouncer, Replica, Signal, TestServer, eventually};

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
    let folder = Path::new(event.text("folder"));
    // It is another's while its owner lives, whoever starts servers meanwhile.
    let _other = TestServer::start();
    assert!(runs(pid) && folder.exists());
    owner.signal(Signal::KILL);
    owner.wait_exit().await;
    eventually(Duration::from_secs(30), || async { if runs(pid) { Err("still running") } else { Ok(()) } })
        .await;
    // Nobody was left to remove its folder; a next start does. Not surely the first: a sibling test may be
    // looking at the same folder at that moment.
    eventually(Duration::from_secs(30), || async {
        let _next = TestServer::start();
        if folder.exists() { Err("still there") } else { Ok(()) }
    })
    .await;
}

#[tokio::test]
async fn a_dropped_pooler_and_a_dropped_replica_leave_no_process() {
    let server = TestServer::start();
    let bouncer = PgBouncer::builder(&server).start().await;
    let replica = Replica::spawn("/bin/sleep", &["600"], &[]);
    let pids = [bouncer.pid(), u32::try_from(replica.pid()).unwrap()];
    assert!(pids.iter().all(|pid| runs(*pid)));
    drop((bouncer, replica));
    // The runtime reaps a dropped child when it gets to it.
    eventually(Duration::from_secs(30), || async {
        if pids.iter().any(|pid| runs(*pid)) { Err("still running") } else { Ok(()) }
    })
    .await;
}
