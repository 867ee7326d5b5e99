//! A user's own service: a crate outside of this workspace, with a worker of its own behind both gates.

use sqlx::PgPool;
use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};
use tenure_testkit::{Replica, Signal, TestServer, eventually};

const LONG: Duration = Duration::from_secs(60);

/// Builds the service, with the versions that this workspace is built with.
fn build(features: &[&str]) -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the workspace's root");
    let manifest = root.join("tests/own-service/Cargo.toml");
    fs::copy(root.join("Cargo.lock"), manifest.with_file_name("Cargo.lock"))
        .expect("the lock file is copied");
    // What both have in common is compiled once; each set of features has a folder for its program.
    let target = root.join("target/own-service").join(if features.is_empty() { "bare" } else { "billing" });
    let built = Command::new(env!("CARGO"))
        .args(["build", "--offline", "--quiet", "--features", &features.join(",")])
        .arg("--manifest-path")
        .arg(&manifest)
        .arg("--target-dir")
        .arg(&target)
        .env("CARGO_BUILD_BUILD_DIR", root.join("target"))
        .output()
        .expect("cargo runs");
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    target.join("debug/own-service")
}

/// A server with a table for the invoices.
async fn database() -> (TestServer, PgPool) {
    let server = TestServer::start();
    let pool = server.pool().await;
    let table = "create table invoice (written_by uuid not null, epoch bigint not null,
        at timestamptz not null default clock_timestamp())";
    sqlx::raw_sql(table).execute(&pool).await.expect("the table is made");
    (server, pool)
}

/// Starts a replica of the service.
fn replica(program: &Path, server: &TestServer, toggle: Option<&str>) -> Replica {
    let url = server.url();
    let mut envs = vec![("DATABASE_URL", url.as_str())];
    envs.extend(toggle.map(|value| ("BILLING_ENABLED", value)));
    Replica::spawn::<&str>(program, &[], &envs)
}

/// The epochs of the terms that have written invoices, in the order of their first.
async fn writers(pool: &PgPool) -> Vec<i64> {
    sqlx::query_scalar("select epoch from invoice group by epoch, written_by order by min(at)")
        .fetch_all(pool)
        .await
        .expect("the invoices are read")
}

/// Waits until invoices were written in this many terms.
async fn wait_for_terms(pool: &PgPool, terms: usize) -> Vec<i64> {
    eventually(LONG, || async {
        let writers = writers(pool).await;
        if writers.len() >= terms { Ok(writers) } else { Err(writers) }
    })
    .await
}

/// Starts a replica that leads or stands by when this returns.
async fn replica_that_competes(program: &Path, server: &TestServer) -> Replica {
    let mut replica = replica(program, server, Some("true"));
    replica
        .wait_event("lease.standby or lease.acquired", |event| {
            event.is("lease.standby", "billing") || event.is("lease.acquired", "billing")
        })
        .await;
    replica
}

#[tokio::test]
async fn two_replicas_bill_once_and_a_kill_hands_over() {
    let program = build(&["billing"]);
    let (server, pool) = database().await;
    let first = replica_that_competes(&program, &server).await;
    let second = replica_that_competes(&program, &server).await;
    assert_eq!(wait_for_terms(&pool, 1).await.len(), 1, "one replica leads");

    let led = |replica: &Replica| !replica.events_named("lease.acquired").is_empty();
    let (mut leader, mut other) = if led(&first) { (first, second) } else { (second, first) };
    assert!(!led(&other), "the other one stands by");
    leader.signal(Signal::KILL);
    leader.wait_exit().await;
    other.wait_for("lease.acquired", "billing").await;
    let terms = wait_for_terms(&pool, 2).await;
    assert_eq!(terms.len(), 2, "one more term");
    assert!(terms.is_sorted(), "the older term wrote nothing once the newer one had begun: {terms:?}");

    other.signal(Signal::TERM);
    assert!(other.wait_exit().await.success(), "{}", other.raw_log());
    assert_eq!(other.events_named("lease.released").len(), 1, "the lease was handed over");
}

#[tokio::test]
async fn without_its_feature_or_its_toggle_nothing_runs() {
    let (server, pool) = database().await;
    let bare = build(&[]);
    let full = build(&["billing"]);
    let cases = [(&bare, Some("true"), "missing"), (&bare, None, "absent"), (&full, None, "off")];
    for (program, toggle, outcome) in cases {
        let mut replica = replica(program, &server, toggle);
        let gate = replica.wait_for("worker.gate", "billing").await;
        assert_eq!(gate.text("outcome"), outcome);
        replica.wait_event("service.started", |event| event.name() == "service.started").await;
        replica.signal(Signal::TERM);
        assert!(replica.wait_exit().await.success(), "{}", replica.raw_log());
        let acted = ["lease.standby", "lease.acquired", "worker.started"];
        let acts: Vec<_> =
            replica.events().into_iter().filter(|event| acted.contains(&event.name())).collect();
        assert!(acts.is_empty(), "{outcome}: {acts:?}");
    }
    assert!(writers(&pool).await.is_empty(), "no invoice was written");
}

#[tokio::test]
async fn a_toggle_that_is_neither_on_nor_off_refuses_the_start() {
    let program = build(&["billing"]);
    let (server, pool) = database().await;
    let mut replica = replica(&program, &server, Some("maybe"));
    assert!(!replica.wait_exit().await.success());
    let said = replica.raw_log();
    assert!(said.contains("BILLING_ENABLED") && said.contains("maybe"), "{said}");
    assert!(writers(&pool).await.is_empty(), "no invoice was written");
}

#[test]
fn the_readme_shows_this_service() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the workspace's root");
    let read =
        |path: &str| fs::read_to_string(root.join(path)).unwrap_or_else(|error| panic!("{path}: {error}"));
    let (main, billing) = (read("tests/own-service/src/main.rs"), read("tests/own-service/src/billing.rs"));
    let code: Vec<&str> = main.lines().chain(billing.lines()).map(str::trim).collect();
    let mut in_rust = false;
    for line in read("README.md").lines().map(str::trim) {
        match line {
            "```rust" => in_rust = true,
            "```" => in_rust = false,
            // A heading of the README's own.
            _ if line.starts_with("// in main") => {}
            _ if in_rust => assert!(code.contains(&line), "the README has a line of its own: {line}"),
            _ => {}
        }
    }
}
