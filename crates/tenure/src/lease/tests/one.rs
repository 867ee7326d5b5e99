//! One instance.

use super::fake::{Bench, FakeDatabase, Then, Trouble, scribe};
use crate::{
    Role, Timing,
    clock::Clock as _,
    lease::{Command, EndReason, RoleState, SessionState, Snapshot},
};
use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

const A: Role = Role::new("a", 1);
const B: Role = Role::new("b", 2);

fn position(history: &[String], text: &str) -> usize {
    history.iter().position(|line| line == text).unwrap_or_else(|| panic!("no {text:?} in {history:#?}"))
}

#[tokio::test(start_paused = true)]
async fn a_loss_stops_the_work_before_the_session_is_let_go() {
    let database = FakeDatabase::new(&Timing::default());
    let mut bench = Bench::start(&database, Timing::default(), vec![scribe(&database, A, Then::Ignore)]);
    bench.leads(1).await;
    database.trouble(Trouble::Lost(EndReason::SessionTerminated));
    database.until("a 2 begins").await;
    let history = database.history();
    assert!(position(&history, "a 1 ends") < position(&history, "session 1 dropped"), "{history:#?}");
    assert!(position(&history, "session 1 dropped") < position(&history, "session 2 opened"), "{history:#?}");
    assert!(!history.iter().any(|line| line.contains("unlocked")), "a lost session is asked for nothing");
}

#[tokio::test(start_paused = true)]
async fn a_statement_without_an_answer_loses_the_session_and_is_never_asked_again() {
    let database = FakeDatabase::new(&Timing::default());
    let mut bench = Bench::start(&database, Timing::default(), vec![scribe(&database, A, Then::Heed)]);
    bench.leads(1).await;
    database.trouble(Trouble::Late(Duration::from_secs(3600)));
    let before = database.pulses();
    database.until("a 1 ends").await;
    assert_eq!(database.pulses(), before + 1);
    database.until("session 2 opened").await;
}

#[tokio::test(start_paused = true)]
async fn a_slow_successful_heartbeat_does_not_extend_trust_beyond_what_it_proved() {
    let timing = Timing::default();
    let database = FakeDatabase::new(&timing);
    let mut bench = Bench::start(&database, timing, vec![scribe(&database, A, Then::Heed)]);
    bench.leads(1).await;
    let delay = timing.statement_timeout() - Duration::from_millis(1);
    database.trouble(Trouble::Late(delay));
    let pulses = database.pulses();
    while database.pulses() == pulses {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let sent = bench.clock.now();
    tokio::time::sleep(delay + Duration::from_millis(5)).await;
    // The poll above is a millisecond coarse.
    let until = bench.board.trust().until().since(sent);
    assert!(until <= timing.trust() && until > timing.trust() - Duration::from_millis(5), "{until:?}");
}

#[tokio::test(start_paused = true)]
async fn a_process_that_slept_past_its_trust_fences_itself_before_it_asks() {
    let timing = Timing::default();
    let database = FakeDatabase::new(&timing);
    let mut bench = Bench::start(&database, timing, vec![scribe(&database, A, Then::Ignore)]);
    bench.leads(1).await;
    let before = database.pulses();
    bench.clock.skip(timing.trust());
    database.until("a 1 ends").await;
    assert_eq!(database.pulses(), before, "nothing was asked");
}

#[tokio::test(start_paused = true)]
async fn an_actor_that_wakes_after_the_watchdog_ended_its_terms_goes_on() {
    let timing = Timing::default();
    let database = FakeDatabase::new(&timing);
    let mut bench = Bench::start(&database, timing, vec![scribe(&database, A, Then::Ignore)]);
    bench.leads(1).await;
    bench.clock.skip(timing.trust());
    // The watchdog's part. The first thing that the actor then hears of is that the work has stopped.
    bench.board.revoke_all(EndReason::TrustExpired);
    database.until("a 2 begins").await;
    let history = database.history();
    assert!(position(&history, "a 1 ends") < position(&history, "session 1 dropped"), "{history:#?}");
}

#[tokio::test(start_paused = true)]
async fn an_order_to_stop_is_heard_by_an_instance_that_wakes_too_late() {
    let timing = Timing::default();
    let database = FakeDatabase::new(&timing);
    let mut bench = Bench::start(&database, timing, vec![scribe(&database, A, Then::Ignore)]);
    bench.leads(1).await;
    bench.clock.skip(timing.trust());
    bench.commands.send(Command::Drain).unwrap();
    let idle = bench.snapshot.wait_for(|snapshot| snapshot.session == SessionState::Idle);
    drop(tokio::time::timeout(Duration::from_secs(600), idle).await.expect("it ends").expect("it runs"));
}

#[tokio::test(start_paused = true)]
async fn a_leader_asks_once_per_heartbeat_interval_and_a_stand_by_once_per_retry() {
    let timing = Timing::default();
    for (held, interval) in [(false, timing.heartbeat_interval()), (true, timing.retry_interval())] {
        let database = FakeDatabase::new(&timing);
        if held {
            database.hold_as_stranger(A.key());
        }
        let mut bench = Bench::start(&database, timing, vec![scribe(&database, A, Then::Heed)]);
        bench.leads(usize::from(!held)).await;
        tokio::time::sleep(Duration::from_secs(1)).await;
        let before = database.pulses();
        tokio::time::sleep(interval * 100).await;
        let asked = database.pulses() - before;
        assert!((100..=112).contains(&asked), "{asked} in 100 intervals of {interval:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_drain_that_is_ignored_ends_at_its_limit_and_the_lock_goes_last() {
    let timing = Timing::default();
    let database = FakeDatabase::new(&timing);
    let mut bench = Bench::start(&database, timing, vec![scribe(&database, A, Then::Ignore)]);
    bench.leads(1).await;
    let begun = tokio::time::Instant::now();
    bench.commands.send(Command::Drain).unwrap();
    bench.leads(0).await;
    let took = begun.elapsed();
    assert!(took >= timing.drain_timeout() && took < timing.drain_timeout() * 2, "{took:?}");
    let history = database.history();
    assert!(position(&history, "a 1 ends") < position(&history, "a 1 unlocked: shutdown"), "{history:#?}");
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_fails_ends_only_its_own_term_and_rests_longer_each_time() {
    let timing = Timing::default();
    let database = FakeDatabase::new(&timing);
    let workers = vec![scribe(&database, A, Then::Fail), scribe(&database, B, Then::Heed)];
    let _bench = Bench::start(&database, timing, workers);
    tokio::time::sleep(Duration::from_secs(20)).await;
    let history = database.history();
    let failures = history.iter().filter(|line| line.ends_with("unlocked: worker_failed")).count();
    // After 0, 1, 3, 7 and 15 seconds, and a retry each.
    assert!((4..=5).contains(&failures), "{history:#?}");
    assert!(!history.iter().any(|line| line.starts_with("b 1 ends")), "{history:#?}");
}

#[tokio::test(start_paused = true)]
async fn a_try_that_failed_is_not_taken_for_another_leader() {
    let database = FakeDatabase::new(&Timing::default());
    database.trouble(Trouble::Late(Duration::ZERO));
    database.trouble(Trouble::Failed);
    let mut bench = Bench::start(&database, Timing::default(), vec![scribe(&database, A, Then::Heed)]);
    bench.leads(1).await;
    assert_eq!(database.server.lock().unwrap().sessions, 1, "the session goes on");
    assert_eq!(bench.snapshot.borrow().roles[0].state, RoleState::Leading);
}

#[tokio::test(start_paused = true)]
async fn a_stranger_on_a_key_is_told_once_and_the_next_one_again() {
    let log = Log::default();
    let writer = log.clone();
    let subscriber = tracing_subscriber::fmt().with_writer(move || writer.clone()).finish();
    let _until_the_end = tracing::subscriber::set_default(subscriber);
    let database = FakeDatabase::new(&Timing::default());
    database.hold_as_stranger(A.key());
    let mut bench = Bench::start(&database, Timing::default(), vec![scribe(&database, A, Then::Heed)]);
    let blocked = |snapshot: &Snapshot| snapshot.roles.first().is_some_and(|role| role.stranger.is_some());
    drop(bench.snapshot.wait_for(blocked).await.unwrap());
    tokio::time::sleep(Duration::from_secs(600)).await;
    assert_eq!(log.count("lease.blocked"), 1);
    database.server.lock().unwrap().locks.clear();
    bench.leads(1).await;
    assert!(!blocked(&bench.snapshot.borrow()));
    // The server forgets the leader's session, and another stranger is faster than the next one.
    database.terminate(1);
    database.hold_as_stranger(A.key());
    drop(bench.snapshot.wait_for(blocked).await.unwrap());
    assert_eq!(log.count("lease.blocked"), 2);
}

/// What was logged.
#[derive(Debug, Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Log {
    fn count(&self, word: &str) -> usize {
        String::from_utf8_lossy(&self.0.lock().unwrap()).matches(word).count()
    }
}

impl std::io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}
