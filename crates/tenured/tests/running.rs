//! The binary at work: real processes, a real server, real poolers.
#![cfg(feature = "full")]

use serde_json::Value;
use sqlx::{PgPool, Row as _};
use std::{collections::BTreeMap, time::Duration};
use tenure_testkit::{PgBouncer, Replica, Signal, TestServer, eventually, free_port};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    process::Command,
};

const LONG: Duration = Duration::from_secs(60);
const ROLES: [&str; 3] = ["poller", "scheduler", "reconciler"];
const ON: [(&str, &str); 4] = [
    ("TENURE_POLLER_ENABLED", "true"),
    ("TENURE_SCHEDULER_ENABLED", "1"),
    ("TENURE_RECONCILER_ENABLED", "on"),
    ("TENURE_LOG__FORMAT", "json"),
];

fn run(args: &[&str], envs: &[(&str, &str)]) -> Replica {
    let mut all: Vec<(&str, &str)> = ON.to_vec();
    all.extend_from_slice(envs);
    if !envs.iter().any(|(name, _)| *name == "TENURE_HTTP__LISTEN") {
        all.push(("TENURE_HTTP__LISTEN", "off"));
    }
    let mut words = vec!["run"];
    words.extend_from_slice(args);
    Replica::spawn(env!("CARGO_BIN_EXE_tenured"), &words, &all)
}

/// Runs a one-shot command to its end.
async fn command(args: &[&str], envs: &[(&str, &str)]) -> (i32, String, String) {
    let mut process = Replica::spawn(env!("CARGO_BIN_EXE_tenured"), args, envs);
    let status = process.wait_exit().await;
    (status.code().unwrap_or(-1), process.stdout(), process.raw_log())
}

async fn get(port: u16, path: &str) -> Result<(u16, String), std::io::Error> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).await?;
    stream
        .write_all(format!("GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").as_bytes())
        .await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    let code = answer.split(' ').nth(1).and_then(|code| code.parse().ok()).unwrap_or(0);
    Ok((code, answer.split_once("\r\n\r\n").map(|(_, body)| body.to_owned()).unwrap_or_default()))
}

async fn advisory_locks(pool: &PgPool) -> i64 {
    sqlx::query_scalar("select count(*) from pg_locks where locktype = 'advisory'")
        .fetch_one(pool)
        .await
        .unwrap()
}

#[tokio::test]
async fn three_replicas_lead_each_role_once_and_hand_over_when_killed() {
    let server = TestServer::start();
    let url = server.url();
    let mut replicas: Vec<Replica> = (0..3).map(|_| run(&[], &[("DATABASE_URL", &url)])).collect();
    for role in ROLES {
        for replica in &mut replicas {
            replica.wait_for("lease.standby", role).await;
        }
        eventually(LONG, || async {
            let acquired = replicas.iter().flat_map(|r| r.events_named("lease.acquired"));
            let count = acquired.filter(|event| event.role() == role).count();
            if count == 1 { Ok(()) } else { Err(count) }
        })
        .await;
    }
    let gates: Vec<String> =
        replicas[0].events_named("worker.gate").iter().map(|e| e.text("outcome").to_owned()).collect();
    assert_eq!(gates, ["runs", "runs", "runs"]);
    let victim = replicas
        .iter()
        .position(|replica| replica.events_named("lease.acquired").iter().any(|e| e.role() == "poller"))
        .unwrap();
    let mut dead = replicas.remove(victim);
    let epoch = dead.wait_for("lease.acquired", "poller").await.epoch();
    dead.signal(Signal::KILL);
    dead.wait_exit().await;
    eventually(LONG, || async {
        let events = replicas.iter().flat_map(|r| r.events_named("lease.acquired")).collect::<Vec<_>>();
        if events.iter().any(|e| e.role() == "poller" && e.epoch() > epoch) { Ok(()) } else { Err(events) }
    })
    .await;
    for replica in &mut replicas {
        replica.signal(Signal::TERM);
        assert_eq!(replica.wait_exit().await.code(), Some(0));
    }
    assert_eq!(advisory_locks(&server.pool().await).await, 0);
}

#[tokio::test]
async fn behind_an_idle_transaction_pooler_nothing_leads_and_it_says_why() {
    let server = TestServer::start();
    let pool = server.pool().await;
    let url = server.url();
    assert_eq!(command(&["migrate"], &[("DATABASE_URL", &url)]).await.0, 0);
    for size in [1, 10] {
        for ignore in ["", "extra_float_digits,options"] {
            let bouncer =
                PgBouncer::builder(&server).pool_size(size).ignore_startup_parameters(ignore).start().await;
            let through = bouncer.url();
            let (code, text, _) = command(&["doctor"], &[("DATABASE_URL", &through)]).await;
            assert_eq!(code, 3, "{text}");
            assert!(
                text.contains("REFUSED") && text.contains("pooler") && text.contains("lease_url"),
                "{text}"
            );
            let (code, text, _) = command(&["doctor", "--json"], &[("DATABASE_URL", &through)]).await;
            let document: Value = serde_json::from_str(&text).expect("one document");
            assert_eq!((code, &document["verdict"]), (3, &Value::from("refused")), "{document}");
            let port = free_port();
            let listen = format!("127.0.0.1:{port}");
            let mut replica = run(&[], &[("DATABASE_URL", &through), ("TENURE_HTTP__LISTEN", &listen)]);
            let refused = replica.wait_event("a refusal", |event| event.name() == "frontdoor.refused").await;
            assert!(refused.text("advice").contains("lease_url"), "{:?}", refused.fields);
            eventually(LONG, || async {
                match get(port, "/readyz").await {
                    Ok((503, body)) if body.contains("pooler") => Ok(()),
                    other => Err(other.map_err(|error| error.to_string())),
                }
            })
            .await;
            assert_eq!(get(port, "/healthz").await.unwrap().0, 200);
            assert_eq!(replica.events_named("lease.acquired").len(), 0);
            assert_eq!(advisory_locks(&pool).await, 0);
            replica.signal(Signal::TERM);
            assert_eq!(replica.wait_exit().await.code(), Some(0));
        }
    }
}

const JOBS: &str = r#"
[poller]
poll_interval = "200ms"
[poller.routes."test.note"]
type = "sql"
statement = "insert into public.note (job) values ($2 + 0 * length($1::text))"
[scheduler.schedules.each-second]
kind = "test.note"
cron = "* * * * * *"
[reconciler]
interval = "1s"
[reconciler.sweeps.old]
table = "public.old_row"
column = "at"
retention = "1d"
"#;

#[tokio::test]
async fn with_a_direct_lease_the_work_runs_through_a_stock_transaction_pooler() {
    let server = TestServer::start();
    let pool = server.pool().await;
    sqlx::raw_sql(
        "create table note (job bigint not null); create table old_row (at timestamptz); \
         insert into old_row select now() - interval '2 days' from generate_series(1, 700)",
    )
    .execute(&pool)
    .await
    .unwrap();
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("jobs.toml");
    std::fs::write(&config, JOBS).unwrap();
    let config = config.display().to_string();
    let bouncer = PgBouncer::builder(&server).pool_size(2).start().await;
    let (through, direct) = (bouncer.url(), server.url());
    let envs = [("DATABASE_URL", through.as_str()), ("TENURE_LEASE_DATABASE_URL", direct.as_str())];
    let mut replica = run(&["--config", &config], &envs);
    for role in ROLES {
        replica.wait_for("worker.started", role).await;
    }
    for n in 0..20 {
        let payload = format!("{{\"n\": {n}}}");
        let (code, _, log) = command(&["enqueue", "test.note", "--payload", &payload], &envs).await;
        assert_eq!(code, 0, "{log}");
    }
    eventually(LONG, || async {
        let row = sqlx::query(
            "select (select count(*) from note) as noted, \
                    (select count(*) from tenure.tick where outcome <> 'skipped') as ticks, \
                    (select count(*) from old_row) as old",
        )
        .fetch_one(&pool)
        .await
        .unwrap();
        let (noted, ticks, old): (i64, i64, i64) = (row.get("noted"), row.get("ticks"), row.get("old"));
        if noted >= 22 && ticks >= 2 && old == 0 { Ok(()) } else { Err((noted, ticks, old)) }
    })
    .await;
    replica.signal(Signal::TERM);
    assert_eq!(replica.wait_exit().await.code(), Some(0));
    let doubled: i64 =
        sqlx::query_scalar("select count(*) - count(distinct job) from note").fetch_one(&pool).await.unwrap();
    assert_eq!(doubled, 0);
    assert_eq!(advisory_locks(&pool).await, 0);
    for event in replica.events() {
        assert_ne!(event.text("level"), "ERROR", "{:?}", event.fields);
    }
}

#[tokio::test]
async fn three_idle_replicas_write_nothing_and_ask_at_most_three_times_a_second() {
    // A minute by hand: TENURE_TEST_IDLE_SECONDS=60.
    let seconds: u64 = std::env::var("TENURE_TEST_IDLE_SECONDS").map_or(15, |text| text.parse().unwrap());
    let server = TestServer::start_with(&[("log_statement", "all"), ("log_line_prefix", "app=%a pid=%p ")]);
    let pool = server.pool().await;
    let url = server.url();
    let mut replicas: Vec<Replica> = (0..3).map(|_| run(&[], &[("DATABASE_URL", &url)])).collect();
    for replica in &mut replicas {
        for role in ROLES {
            replica.wait_for("lease.standby", role).await;
        }
    }
    eventually(LONG, || async {
        let led: usize = replicas.iter().map(|r| r.events_named("worker.started").len()).sum();
        if led == 3 { Ok(()) } else { Err(led) }
    })
    .await;
    let writes = || async {
        sqlx::query_scalar::<_, i64>(
            "select coalesce(sum(n_tup_ins + n_tup_upd + n_tup_del), 0)::bigint from pg_stat_user_tables \
             where schemaname = 'tenure' and relname in ('lease', 'term')",
        )
        .fetch_one(&pool)
        .await
        .unwrap()
    };
    // Statistics come with a delay of a second or so.
    eventually(LONG, || async { if writes().await >= 6 { Ok(()) } else { Err(writes().await) } }).await;
    let (before, log_before) = (writes().await, server.log().len());
    tokio::time::sleep(Duration::from_secs(seconds)).await;
    let log = server.log();
    let mut asked: BTreeMap<String, u64> = BTreeMap::new();
    for line in
        log[log_before..].lines().filter(|l| l.contains("LOG:  statement:") || l.contains("LOG:  execute"))
    {
        let Some(app) = line.strip_prefix("app=").and_then(|rest| rest.split(" pid=").next()) else {
            continue;
        };
        *asked.entry(app.to_owned()).or_default() += 1;
    }
    assert_eq!(writes().await, before, "an idle cluster writes nothing");
    // Statements of the work pool belong to whoever leads: as if one instance led everything.
    let work: u64 = asked.iter().filter(|(app, _)| app.starts_with("tenured work")).map(|(_, n)| n).sum();
    let leases: Vec<u64> =
        asked.iter().filter(|(app, _)| app.starts_with("tenure lease")).map(|(_, n)| *n).collect();
    assert_eq!(leases.len(), 3, "{asked:?}");
    let most = leases.iter().max().copied().unwrap_or(0) + work;
    println!("in {seconds} s: lease sessions {leases:?}, work of all leaders {work}: {asked:?}");
    assert!(most <= 3 * seconds, "{most} statements in {seconds} s: {asked:?}");
}

#[tokio::test]
async fn status_resign_and_the_endpoints_tell_who_leads() {
    let server = TestServer::start();
    let url = server.url();
    let envs = [("DATABASE_URL", url.as_str())];
    let port = free_port();
    let listen = format!("127.0.0.1:{port}");
    let mut first = run(&[], &[("DATABASE_URL", &url), ("TENURE_HTTP__LISTEN", &listen)]);
    for role in ROLES {
        first.wait_for("worker.started", role).await;
    }
    let mut second = run(&[], &[("DATABASE_URL", &url)]);
    second.wait_for("lease.standby", "poller").await;
    let (code, text, _) = command(&["status", "--json"], &envs).await;
    let status: Value = serde_json::from_str(&text).expect("one document");
    assert_eq!(code, 0);
    let leaders = |status: &Value| -> Vec<(String, bool)> {
        let roles = status["roles"].as_array().expect("roles");
        roles
            .iter()
            .map(|r| (r["role"].as_str().unwrap_or_default().to_owned(), r["leader"].is_object()))
            .collect()
    };
    assert_eq!(
        leaders(&status),
        [("poller".to_owned(), true), ("reconciler".to_owned(), true), ("scheduler".to_owned(), true)]
    );
    assert_eq!(status["standbys"].as_array().map(Vec::len), Some(1), "{status}");
    let (code, metrics) = get(port, "/metrics").await.unwrap();
    assert_eq!(code, 200);
    for line in
        ["tenure_leader{role=\"poller\"} 1", "tenure_frontdoor_accepted 1", "tenure_trust_remaining_seconds"]
    {
        assert!(metrics.contains(line), "no {line} in\n{metrics}");
    }
    assert_eq!(get(port, "/readyz").await.unwrap().0, 200);
    let (code, text, log) = command(&["resign", "poller"], &envs).await;
    assert_eq!(code, 0, "{log}");
    let heir = second.wait_for("worker.started", "poller").await;
    assert!(text.contains(&heir.epoch().to_string()), "{text}");
    assert_eq!(first.wait_for("lease.released", "poller").await.text("reason"), "resigned");
    let (code, _, log) = command(&["resign", "nobody"], &envs).await;
    assert_eq!(code, 1);
    assert!(log.contains("nobody leads"), "{log}");
}

#[tokio::test]
async fn a_stranger_on_a_key_is_named_and_never_displaced() {
    let server = TestServer::start();
    let pool = server.pool().await;
    let url = server.url();
    let mut stranger = pool.acquire().await.unwrap();
    sqlx::query("select pg_advisory_lock(1840000001), set_config('application_name', 'backup', false)")
        .execute(&mut *stranger)
        .await
        .unwrap();
    let mut replica = run(&[], &[("DATABASE_URL", &url)]);
    replica.wait_for("worker.started", "scheduler").await;
    let said = replica.wait_for("lease.blocked", "poller").await;
    assert!(said.text("reason").contains("backup"), "{said:?}");
    assert!(said.text("advice").contains("pg_terminate_backend"), "{said:?}");
    for what in ["doctor", "status"] {
        let (_, text, _) = command(&[what], &[("DATABASE_URL", &url)]).await;
        assert!(text.contains("backup") && text.contains("not Tenure"), "{text}");
        assert!(text.contains("idle since") && text.contains("pg_terminate_backend"), "{text}");
    }
    assert!(replica.events_named("lease.acquired").iter().all(|event| event.role() != "poller"));
    sqlx::query("select pg_advisory_unlock(1840000001)").execute(&mut *stranger).await.unwrap();
    replica.wait_for("worker.started", "poller").await;
}

#[tokio::test]
async fn an_unreachable_database_is_waited_for() {
    let mut server = TestServer::start();
    let url = server.url();
    server.stop(tenure_testkit::StopMode::Fast);
    let port = free_port();
    let listen = format!("127.0.0.1:{port}");
    let mut replica = run(&[], &[("DATABASE_URL", &url), ("TENURE_HTTP__LISTEN", &listen)]);
    replica.wait_event("waiting", |event| event.name() == "schema.waiting").await;
    assert_eq!(get(port, "/readyz").await.unwrap().0, 503);
    assert_eq!(get(port, "/healthz").await.unwrap().0, 200);
    server.start_again();
    replica.wait_for("worker.started", "poller").await;
    eventually(LONG, || async {
        match get(port, "/readyz").await {
            Ok((200, _)) => Ok(()),
            other => Err(other.map_err(|error| error.to_string())),
        }
    })
    .await;
}

#[tokio::test]
async fn a_reader_of_the_log_that_leaves_does_not_stop_the_work() {
    let server = TestServer::start();
    let pool = server.pool().await;
    let url = server.url();
    let mut process = Command::new(env!("CARGO_BIN_EXE_tenured"))
        .arg("run")
        .env_clear()
        .envs(ON)
        .envs([("DATABASE_URL", url.as_str()), ("TENURE_HTTP__LISTEN", "off")])
        .stderr(std::process::Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    // Closed before its first line: every line that follows fails.
    drop(process.stderr.take());
    eventually(LONG, || async {
        let led: Result<i64, _> =
            sqlx::query_scalar("select count(*) from tenure.lease").fetch_one(&pool).await;
        match led {
            Ok(3) => Ok(()),
            other => Err(other.map_err(|error| error.to_string())),
        }
    })
    .await;
    assert!(process.try_wait().unwrap().is_none(), "it goes on");
}

#[tokio::test]
async fn leases_in_another_database_than_the_work_are_refused() {
    let server = TestServer::start();
    let other = server.create_database("other").await;
    let url = server.url();
    let envs = [("DATABASE_URL", url.as_str()), ("TENURE_LEASE_DATABASE_URL", other.as_str())];
    let mut replica = run(&[], &envs);
    assert_eq!(replica.wait_exit().await.code(), Some(2), "{}", replica.raw_log());
    assert!(replica.raw_log().contains("different databases"), "{}", replica.raw_log());
    let (code, _, log) = command(&["doctor"], &envs).await;
    assert_eq!(code, 2);
    assert!(log.contains("different databases"), "{log}");
}

#[tokio::test]
async fn with_every_toggle_off_it_stays_up_inert_and_ready() {
    let port = free_port();
    let listen = format!("127.0.0.1:{port}");
    let mut replica = Replica::spawn(
        env!("CARGO_BIN_EXE_tenured"),
        &["run"],
        &[("TENURE_HTTP__LISTEN", &listen), ("TENURE_LOG__FORMAT", "json")],
    );
    replica.wait_event("idle", |event| event.name() == "process.idle").await;
    assert_eq!(get(port, "/readyz").await.unwrap().0, 200);
    let gates: Vec<String> =
        replica.events_named("worker.gate").iter().map(|e| e.text("outcome").to_owned()).collect();
    assert_eq!(gates, ["off", "off", "off"]);
    replica.signal(Signal::TERM);
    assert_eq!(replica.wait_exit().await.code(), Some(0));
}
