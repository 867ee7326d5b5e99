//! Terms across processes: exactly one leader per role, whatever ends the last one.

use rand::RngExt as _;
use std::{collections::BTreeMap, time::Duration};
use tenure_testkit::{Replica, Signal, eventually};
use tenure_tests::{
    acts::{self, overlaps},
    cluster::{Cluster, timing},
};

const LONG: Duration = Duration::from_secs(60);

/// Waits until one of the replicas logs an event for a role, and tells which.
async fn whoever(replicas: &[Replica], name: &str, role: &str, newer_than: i64) -> (usize, i64) {
    eventually(LONG, || async {
        for (index, replica) in replicas.iter().enumerate() {
            let events = replica.events();
            if let Some(event) = events.iter().find(|e| e.is(name, role) && e.epoch() > newer_than) {
                return Ok((index, event.epoch()));
            }
        }
        Err(format!("no {name} of {role} above epoch {newer_than}"))
    })
    .await
}

#[tokio::test]
async fn three_replicas_lead_each_of_three_roles_exactly_once() {
    let cluster = Cluster::start(&[]).await;
    let mut replicas: Vec<Replica> = (0..3).map(|_| cluster.witness(3, &[])).collect();
    for role in ["w0", "w1", "w2"] {
        whoever(&replicas, "worker.started", role, 0).await;
        for replica in &mut replicas {
            replica.wait_for("lease.standby", role).await;
        }
    }
    // Long enough for every replica to have tried again several times: wait for acts, not for time.
    let seen = acts::count(&cluster.pool).await;
    eventually(LONG, || async {
        let now = acts::count(&cluster.pool).await;
        if now > seen + 1000 { Ok(()) } else { Err(now) }
    })
    .await;
    let mut acquired: BTreeMap<String, usize> = BTreeMap::new();
    for replica in &replicas {
        for event in replica.events_named("lease.acquired") {
            *acquired.entry(event.role().to_owned()).or_default() += 1;
        }
    }
    assert_eq!(acquired, BTreeMap::from(["w0", "w1", "w2"].map(|role| (role.to_owned(), 1))));
    assert_eq!(overlaps(&cluster.pool).await, []);
    assert_eq!(cluster.locks().await, 3);
}

#[tokio::test]
async fn fifty_kills_at_random_moments_never_show_a_second_actor() {
    let cluster = Cluster::start(&[]).await;
    let mut replicas: Vec<Replica> = (0..3).map(|_| cluster.witness(3, &[])).collect();
    let mut newest: BTreeMap<&str, i64> = ["w0", "w1", "w2"].into_iter().map(|role| (role, 0)).collect();
    for (role, epoch) in &mut newest {
        *epoch = whoever(&replicas, "worker.started", role, 0).await.1;
    }
    let mut gaps = Vec::new();
    for kill in 0..50 {
        // A random moment of the leader's loop.
        tokio::time::sleep(Duration::from_micros(rand::rng().random_range(0..30_000))).await;
        let role = ["w0", "w1", "w2"][kill % 3];
        let leader = eventually(LONG, || async {
            let epoch = newest[role];
            replicas
                .iter()
                .position(|r| r.events().iter().any(|e| e.is("worker.started", role) && e.epoch() == epoch))
                .ok_or(epoch)
        })
        .await;
        let mut dead = std::mem::replace(&mut replicas[leader], cluster.witness(3, &[]));
        let led: Vec<&str> = newest
            .iter()
            .filter(|(role, epoch)| {
                dead.events().iter().any(|e| e.is("worker.started", role) && e.epoch() == **epoch)
            })
            .map(|(role, _)| *role)
            .collect();
        let killed = tokio::time::Instant::now();
        dead.signal(Signal::KILL);
        dead.wait_exit().await;
        for role in led {
            let (index, epoch) = whoever(&replicas, "lease.acquired", role, newest[role]).await;
            assert!(epoch > newest[role]);
            newest.insert(role, epoch);
            let event = replicas[index]
                .events()
                .into_iter()
                .find(|e| e.is("lease.acquired", role) && e.epoch() == epoch)
                .expect("just seen");
            gaps.push(event.at.saturating_duration_since(killed));
        }
    }
    assert_eq!(overlaps(&cluster.pool).await, []);
    gaps.sort();
    println!(
        "{} hand-overs by kill -9: median {:?}, worst {:?}",
        gaps.len(),
        gaps[gaps.len() / 2],
        gaps.last()
    );
}

#[tokio::test]
async fn a_terminated_leader_hands_over_after_its_worker_stopped() {
    let cluster = Cluster::start(&[]).await;
    let mut replicas: Vec<Replica> = (0..2).map(|_| cluster.witness(1, &[])).collect();
    let (mut leader, mut epoch) = whoever(&replicas, "worker.started", "w0", 0).await;
    let mut gaps = Vec::new();
    for _ in 0..20 {
        let standby = 1 - leader;
        replicas[standby].wait_for("lease.standby", "w0").await;
        replicas[leader].signal(Signal::TERM);
        let stopped = replicas[leader]
            .wait_event("worker.stopped", |e| e.is("worker.stopped", "w0") && e.epoch() == epoch)
            .await;
        let next = replicas[standby]
            .wait_event("lease.acquired", |e| e.is("lease.acquired", "w0") && e.epoch() > epoch)
            .await;
        let status = replicas[leader].wait_exit().await;
        assert_eq!(status.code(), Some(0));
        let released = replicas[leader].events_named("lease.released");
        assert_eq!(released.len(), 1, "{released:?}");
        gaps.push(next.at.saturating_duration_since(stopped.at));
        epoch = next.epoch();
        replicas[leader] = cluster.witness(1, &[]);
        leader = standby;
    }
    gaps.sort();
    println!("20 hand-overs by SIGTERM: median {:?}, worst {:?}", gaps[10], gaps[19]);
    assert_eq!(overlaps(&cluster.pool).await, []);
    let reasons: Vec<String> =
        sqlx::query_scalar("select distinct end_reason from tenure.term where ended_at is not null")
            .fetch_all(&cluster.pool)
            .await
            .unwrap();
    assert_eq!(reasons, ["shutdown"], "each term's own reason is on record");
}

#[tokio::test]
async fn a_frozen_leader_is_replaced_and_acts_no_more_when_it_wakes() {
    let cluster = Cluster::start(&[]).await;
    let mut old = cluster.witness(1, &[("WITNESS_MODE", "rogue")]);
    let first = old.wait_for("worker.started", "w0").await;
    let mut new = cluster.witness(1, &[]);
    new.wait_for("lease.standby", "w0").await;
    old.signal(Signal::STOP);
    let frozen = tokio::time::Instant::now();
    let next = new.wait_for("worker.started", "w0").await;
    assert!(next.epoch() > first.epoch());
    println!("led again {:?} after the freeze; ttl {:?}", next.at - frozen, timing().ttl());
    old.signal(Signal::CONT);
    let lost = old.wait_for("lease.lost", "w0").await;
    assert_eq!(lost.text("reason"), "trust_expired");
    // The task that it left behind is refused with the distinct error.
    old.wait_event("witness.refused", |e| e.name() == "witness.refused" && e.fields["fenced"] == true).await;
    let again = old.wait_event("a second stand-by", |e| e.is("lease.standby", "w0") && e.at > lost.at).await;
    assert!(again.at > lost.at);
    assert_eq!(overlaps(&cluster.pool).await, []);
}

#[tokio::test]
async fn a_session_ended_by_the_server_ends_the_term_within_a_heartbeat() {
    let cluster = Cluster::start(&[]).await;
    let mut replica = cluster.witness(2, &[]);
    let first = replica.wait_for("worker.started", "w0").await;
    replica.wait_for("worker.started", "w1").await;
    terminate_lease_sessions(&cluster).await;
    for role in ["w0", "w1"] {
        let lost = replica.wait_for("lease.lost", role).await;
        assert_eq!(lost.text("reason"), "session_terminated");
        let again = replica
            .wait_event("a second term", |e| e.is("worker.started", role) && e.epoch() > first.epoch())
            .await;
        assert!(again.at > lost.at);
    }
    assert_eq!(overlaps(&cluster.pool).await, []);
}

async fn terminate_lease_sessions(cluster: &Cluster) {
    let ended: Vec<bool> = sqlx::query_scalar(
        "select pg_terminate_backend(pid) from pg_stat_activity where application_name like 'tenure lease %'",
    )
    .fetch_all(&cluster.pool)
    .await
    .unwrap();
    assert_eq!(ended, [true]);
}

#[tokio::test]
async fn a_worker_that_blocks_its_thread_is_ended_with_its_process() {
    let cluster = Cluster::start(&[]).await;
    let mut blocked = cluster.witness(1, &[("WITNESS_MODE", "block")]);
    blocked.wait_event("the block", |e| e.name() == "witness.blocking").await;
    let mut next = cluster.witness(1, &[]);
    next.wait_for("lease.standby", "w0").await;
    let ended = tokio::time::Instant::now();
    terminate_lease_sessions_of_leader(&cluster).await;
    let status = blocked.wait_exit().await;
    let took = ended.elapsed();
    assert_eq!(status.code(), Some(tenure::lease::watchdog::EXIT_CODE));
    let log = blocked.raw_log();
    assert!(log.lines().last().is_some_and(|line| line.contains("watchdog.exit")), "{log}");
    assert!(took < timing().ttl(), "{took:?}");
    next.wait_for("worker.started", "w0").await;
    assert_eq!(overlaps(&cluster.pool).await, []);
}

async fn terminate_lease_sessions_of_leader(cluster: &Cluster) {
    let ended: Vec<bool> =
        sqlx::query_scalar("select pg_terminate_backend(backend_pid) from tenure.lease where role = 'w0'")
            .fetch_all(&cluster.pool)
            .await
            .unwrap();
    assert_eq!(ended, [true]);
}

/// Waits until the one lease session has spoken for longer than the server's bound, and is still the same.
async fn heartbeats_go_on(cluster: &Cluster) {
    let session = || async {
        sqlx::query_as::<_, (i32, chrono::DateTime<chrono::Utc>)>(
            "select pid, state_change from pg_stat_activity where application_name like 'tenure lease %'",
        )
        .fetch_one(&cluster.pool)
        .await
        .map_err(|error| error.to_string())
    };
    let (pid, begun) = session().await.unwrap();
    let bound = chrono::TimeDelta::from_std(timing().ttl() * 2).unwrap();
    eventually(LONG, || async {
        let (now, spoke) = session().await?;
        assert_eq!(now, pid, "the session was lost");
        if spoke - begun > bound { Ok(()) } else { Err(format!("{spoke}")) }
    })
    .await;
}

#[tokio::test]
async fn workers_that_block_every_thread_of_their_runtime_stop_no_heartbeat() {
    let cluster = Cluster::start(&[]).await;
    let mut replica = cluster.witness(3, &[("WITNESS_MODE", "block")]);
    // The witness has two threads for its workers.
    for role in ["w0", "w1"] {
        replica.wait_for("lease.acquired", role).await;
    }
    replica.wait_event("a block", |event| event.name() == "witness.blocking").await;
    heartbeats_go_on(&cluster).await;
    assert_eq!(replica.events_named("lease.lost").len(), 0);
}

#[tokio::test]
async fn an_exhausted_work_pool_stops_no_heartbeat() {
    let cluster = Cluster::start(&[]).await;
    let mut replica = cluster.witness(1, &[("WITNESS_MODE", "hog")]);
    replica.wait_event("the last connection", |event| event.fields["connections"] == 4).await;
    heartbeats_go_on(&cluster).await;
    assert_eq!(replica.events_named("lease.lost").len(), 0);
}

#[tokio::test]
async fn a_worker_that_ignores_its_drain_is_dropped_before_the_lock_is_let_go() {
    let cluster = Cluster::start(&[]).await;
    let mut old = cluster.witness(1, &[("WITNESS_MODE", "ignore-drain")]);
    old.wait_for("worker.started", "w0").await;
    let mut new = cluster.witness(1, &[]);
    new.wait_for("lease.standby", "w0").await;
    old.signal(Signal::TERM);
    old.wait_for("lease.draining", "w0").await;
    assert_eq!(old.wait_exit().await.code(), Some(0));
    let order: Vec<String> = old.events().iter().map(|e| e.name().to_owned()).collect();
    let stopped = order.iter().position(|name| name == "worker.stopped").unwrap();
    let released = order.iter().position(|name| name == "lease.released").unwrap();
    assert!(stopped < released, "{order:?}");
    new.wait_for("worker.started", "w0").await;
    assert_eq!(overlaps(&cluster.pool).await, []);
}

#[tokio::test]
async fn a_second_signal_stops_at_once() {
    let cluster = Cluster::start(&[]).await;
    let mut replica = cluster.witness(1, &[("WITNESS_MODE", "ignore-drain")]);
    replica.wait_for("worker.started", "w0").await;
    replica.signal(Signal::TERM);
    let draining = replica.wait_for("lease.draining", "w0").await;
    replica.signal(Signal::INT);
    let stopped = replica.wait_for("worker.stopped", "w0").await;
    assert!(stopped.at - draining.at < timing().drain_timeout());
    assert_eq!(replica.wait_exit().await.code(), Some(0));
    assert_eq!(cluster.locks().await, 0);
}

#[tokio::test]
async fn a_worker_that_fails_panics_or_returns_rests_before_its_next_term() {
    for (mode, outcome, reason) in [
        ("fail", "failed", "worker_failed"),
        ("panic", "panicked", "worker_panicked"),
        ("return", "returned", "worker_returned"),
    ] {
        let cluster = Cluster::start(&[]).await;
        let mut replica = cluster.witness(1, &[("WITNESS_MODE", mode)]);
        let stopped = replica.wait_for("worker.stopped", "w0").await;
        assert_eq!(stopped.text("outcome"), outcome);
        let released = replica.wait_for("lease.released", "w0").await;
        assert_eq!(released.text("reason"), reason);
        let again = replica
            .wait_event("a second term", |e| e.is("worker.started", "w0") && e.epoch() > stopped.epoch())
            .await;
        assert!(again.at - released.at > Duration::from_millis(500), "it rests");
    }
}

#[tokio::test]
async fn a_server_that_restarts_is_led_again_with_a_higher_epoch() {
    let mut cluster = Cluster::start(&[]).await;
    let mut replica = cluster.witness(1, &[]);
    let first = replica.wait_for("worker.started", "w0").await;
    cluster.server.stop(tenure_testkit::StopMode::Immediate);
    replica.wait_for("lease.lost", "w0").await;
    cluster.server.start_again();
    let again = replica
        .wait_event("a second term", |e| e.is("worker.started", "w0") && e.epoch() > first.epoch())
        .await;
    assert!(again.epoch() > first.epoch());
    assert_eq!(overlaps(&cluster.server.pool().await).await, []);
}
