//! Ticks on a real server: each fires once, whoever leads.

use crate::database::Database;
use chrono::Duration;
use std::time::Duration as StdDuration;
use tenure::Singleton as _;
use tenure_jobs::schedule::{NewTick, TickRecord, record_tick};
use tenure_scheduler::{Scheduler, SchedulerConfig, pass::run_pass};
use tenure_testkit::{PgBouncer, PoolMode, StopMode, eventually};

#[tokio::test]
async fn a_due_tick_and_its_job_are_committed_together() {
    let db = Database::start().await;
    db.due_once("one").await;
    let (term, _control) = db.term().await;
    let report = run_pass(&term, &db.pool).await.expect("a pass");
    assert_eq!(report.ticks.len(), 1, "{report:?}");
    assert_eq!(db.fired("one").await, [report.ticks[0].due_at]);
    assert_eq!(db.jobs().await, 1);
    assert!(report.next > Some(report.ticks[0].due_at), "the next tick is strictly later");
}

#[tokio::test]
async fn a_tick_fires_once_though_an_old_and_a_new_term_handle_the_same_second() {
    let db = Database::start().await;
    for round in 0..20 {
        let name = format!("round{round}");
        db.due_once(&name).await;
        let (old, _old) = db.term().await;
        let takeover = async {
            let (new, _new) = db.term().await;
            run_pass(&new, &db.pool).await
        };
        let (before, after) = tokio::join!(run_pass(&old, &db.pool), takeover);
        assert!(before.is_ok() || before.is_err_and(|error| error.is_fenced()), "it fired or was fenced");
        after.expect("the new term's pass");
        assert_eq!(db.fired(&name).await.len(), 1, "round {round}");
        assert_eq!(db.jobs().await, round + 1);
    }
}

#[tokio::test]
async fn a_tick_fires_once_though_two_passes_of_one_term_race() {
    let db = Database::start().await;
    for round in 0..20 {
        let name = format!("round{round}");
        db.due_once(&name).await;
        let (term, _control) = db.term().await;
        let (a, b) = tokio::join!(run_pass(&term, &db.pool), run_pass(&term, &db.pool));
        assert_eq!(a.expect("a pass").ticks.len() + b.expect("a pass").ticks.len(), 1);
        assert_eq!(db.jobs().await, round + 1);
    }
}

#[tokio::test]
async fn the_tick_of_a_former_leader_is_fenced() {
    let db = Database::start().await;
    db.due_once("one").await;
    let (old, _old) = db.term().await;
    let (new, _new) = db.term().await;
    let error = run_pass(&old, &db.pool).await.expect_err("the old term");
    assert!(error.is_fenced(), "{error}");
    assert_eq!((db.jobs().await, db.ledger("one").await.len()), (0, 0), "nothing was written");
    assert_eq!(run_pass(&new, &db.pool).await.expect("a pass").ticks.len(), 1);
}

#[tokio::test]
async fn a_worker_that_is_fenced_stops_at_once() {
    let db = Database::start().await;
    db.schedule("often", "* * * * * *", "clock_timestamp()").await;
    let (old, _old) = db.term().await;
    let (_new, _control) = db.term().await;
    let scheduler = Scheduler { pool: db.pool.clone(), config: SchedulerConfig::default() };
    let run = tokio::time::timeout(StdDuration::from_secs(10), scheduler.run(old)).await;
    let error = run.expect("it stops at its first due tick").expect_err("fenced").to_string();
    assert!(error.contains("fenced"), "{error}");
    assert_eq!(db.jobs().await, 0);
}

#[tokio::test]
async fn a_tick_on_record_never_fires_again_even_if_the_schedule_forgot_it() {
    let db = Database::start().await;
    db.due_once("one").await;
    let (term, _control) = db.term().await;
    let first = run_pass(&term, &db.pool).await.expect("a pass");
    db.run("update tenure.schedule set last_tick = null").await;
    let again = run_pass(&term, &db.pool).await.expect("a pass");
    assert!(again.ticks.iter().all(|tick| tick.due_at != first.ticks[0].due_at), "{again:?}");
    assert_eq!(db.number("select count(*) from tenure.tick where job_id is not null").await, db.jobs().await);
    let settled = db.number("select count(*) from tenure.schedule where last_tick is not null").await;
    assert_eq!(settled, 1, "it is settled again");
}

#[tokio::test]
async fn a_tick_that_is_not_due_by_the_clock_of_the_database_is_not_recorded() {
    let db = Database::start().await;
    let (term, _control) = db.term().await;
    let mut tx = term.begin_fenced(&db.pool).await.expect("a fenced transaction");
    let due_at =
        run_pass(&term, &db.pool).await.expect("a pass").now.expect("a time") + Duration::seconds(30);
    let tick = NewTick {
        schedule: "early",
        due_at,
        first_due_at: due_at,
        ticks: 1,
        outcome: "enqueued",
        reason: None,
        epoch: term.epoch(),
    };
    assert_eq!(record_tick(&mut tx, &tick).await.expect("a statement"), TickRecord::NotDue);
    tx.commit().await.expect("a commit");
    assert!(db.ledger("early").await.is_empty());
}

#[tokio::test]
async fn the_next_leader_catches_up_from_the_record_within_window_and_cap() {
    let db = Database::start().await;
    db.run(
        "insert into tenure.schedule (name, kind, expression, misfire, catch_up_window, catch_up_cap,
            active_from, last_tick)
         values ('hourly', 'work', '0 * * * *', 'catch_up', '6 hours', 4,
            now() - interval '1 year', date_trunc('hour', now()) - interval '10 hours')",
    )
    .await;
    let (term, _control) = db.term().await;
    run_pass(&term, &db.pool).await.expect("a pass");
    // Ten ticks were missed: six or seven are within six hours, and four of those may run.
    let ledger = db.ledger("hourly").await;
    let reasons: Vec<_> =
        ledger.iter().map(|(outcome, _, reason)| (outcome.as_str(), reason.as_deref())).collect();
    assert_eq!(
        reasons,
        [
            ("skipped", Some("older than the catch-up window")),
            ("skipped", Some("more missed ticks than the cap")),
            ("enqueued", None),
            ("enqueued", None),
            ("enqueued", None),
            ("enqueued", None),
        ]
    );
    assert_eq!(ledger.iter().map(|(_, ticks, _)| ticks).sum::<i32>(), 10, "every tick is accounted for");
    assert_eq!(db.jobs().await, 4);

    // The record, not memory, says what comes next: another term finds nothing to do.
    let (next, _control) = db.term().await;
    let report = run_pass(&next, &db.pool).await.expect("a pass");
    assert!(report.ticks.is_empty(), "{report:?}");
}

#[tokio::test]
async fn a_weekly_tick_is_not_lost_when_every_term_is_shorter_than_a_week() {
    let db = Database::start().await;
    db.schedule("weekly", "0 0 * * 1", "now() - interval '8 days'").await;
    let (term, _control) = db.term().await;
    run_pass(&term, &db.pool).await.expect("a pass");
    assert_eq!(db.fired("weekly").await.len(), 1);
}

#[tokio::test]
async fn a_schedule_that_this_binary_does_not_declare_goes_on() {
    let db = Database::start().await;
    db.schedule("by-hand", "* * * * * *", "clock_timestamp()").await;
    db.run(
        "insert into tenure.schedule (name, kind, expression, source, active_from)
         values ('by-another-binary', 'work', '* * * * * *', 'config', clock_timestamp())",
    )
    .await;
    let (term, control) = db.term().await;
    let scheduler = Scheduler { pool: db.pool.clone(), config: SchedulerConfig::default() };
    let running = tokio::spawn(async move { scheduler.run(term).await });
    for name in ["by-hand", "by-another-binary"] {
        eventually(StdDuration::from_secs(20), || async {
            let fired = db.fired(name).await.len();
            if fired >= 3 { Ok(()) } else { Err(fired) }
        })
        .await;
    }
    control.drain();
    running.await.expect("no panic").expect("a drained worker returns");
    for name in ["by-hand", "by-another-binary"] {
        let fired = db.fired(name).await;
        assert!(fired.windows(2).all(|pair| pair[1] - pair[0] == Duration::seconds(1)), "{name}: {fired:?}");
    }
}

#[tokio::test]
async fn a_schedule_that_can_not_be_understood_keeps_no_other_from_firing() {
    let db = Database::start().await;
    for name in ["a-bad", "b-zone", "c-good"] {
        db.due_once(name).await;
    }
    db.run("update tenure.schedule set expression = 'every day' where name = 'a-bad'").await;
    db.run("update tenure.schedule set time_zone = 'Europe/Atlantis' where name = 'b-zone'").await;
    let (term, _control) = db.term().await;
    let report = run_pass(&term, &db.pool).await.expect("a pass");
    let invalid: Vec<_> = report.invalid.keys().map(String::as_str).collect();
    assert_eq!(invalid, ["a-bad", "b-zone"]);
    assert!(report.invalid["b-zone"].contains("Europe/Atlantis"));
    assert_eq!(db.fired("c-good").await.len(), 1);
}

#[tokio::test]
async fn a_schedule_that_the_database_refuses_keeps_no_other_from_firing() {
    let db = Database::start().await;
    for name in ["a-refused", "b-good"] {
        db.due_once(name).await;
    }
    db.run(
        "update tenure.schedule set kind = 'refused' where name = 'a-refused';
         alter table tenure.job add check (kind <> 'refused');",
    )
    .await;
    let (term, _control) = db.term().await;
    let report = run_pass(&term, &db.pool).await.expect("a pass");
    assert_eq!(report.failed.len(), 1, "{report:?}");
    assert_eq!(db.fired("b-good").await.len(), 1);
    assert!(db.ledger("a-refused").await.is_empty(), "without its job, the tick isn't settled");
}

#[tokio::test]
async fn a_job_that_can_not_be_stored_is_on_record_as_failed() {
    let db = Database::start().await;
    db.due_once("long").await;
    db.run("update tenure.schedule set queue = repeat('x', 300)").await;
    let (term, _control) = db.term().await;
    run_pass(&term, &db.pool).await.expect("a pass");
    let ledger = db.ledger("long").await;
    assert_eq!(ledger[0].0, "failed");
    assert!(ledger[0].2.as_deref().is_some_and(|reason| reason.contains("queue")), "{ledger:?}");
    assert!(run_pass(&term, &db.pool).await.expect("a pass").ticks.is_empty(), "it is settled");
}

#[tokio::test]
async fn with_overlap_skip_a_tick_is_skipped_while_an_earlier_job_is_unfinished() {
    let db = Database::start().await;
    db.due_once("slow").await;
    db.run("update tenure.schedule set overlap = 'skip'").await;
    let (term, _control) = db.term().await;
    run_pass(&term, &db.pool).await.expect("a pass");
    // The same again, one tick later: the first tick moves into the past.
    let earlier = "update tenure.tick set due_at = due_at - interval '5 minutes';
                   update tenure.schedule set last_tick = last_tick - interval '5 minutes'";
    db.run(earlier).await;
    run_pass(&term, &db.pool).await.expect("a pass");
    let ledger = db.ledger("slow").await;
    assert_eq!((ledger[0].0.as_str(), ledger[1].0.as_str()), ("enqueued", "skipped"), "{ledger:?}");

    db.run("update tenure.job set state = 'completed', finished_at = now()").await;
    db.run(earlier).await;
    run_pass(&term, &db.pool).await.expect("a pass");
    assert_eq!(db.ledger("slow").await[2].0, "enqueued");
}

#[tokio::test]
async fn an_idle_pass_writes_nothing() {
    let db = Database::start().await;
    db.schedule("yearly", "0 0 1 1 *", "now()").await;
    db.run("update tenure.schedule set active_from = '2999-01-01'").await;
    let (term, _control) = db.term().await;
    let before = db.next_transaction().await;
    for _ in 0..5 {
        assert!(run_pass(&term, &db.pool).await.expect("a pass").ticks.is_empty());
    }
    assert_eq!(db.next_transaction().await, before, "no transaction wrote");
}

#[tokio::test]
async fn ticks_fire_through_a_transaction_pooler() {
    let db = Database::start().await;
    let pooler = PgBouncer::builder(&db.server).mode(PoolMode::Transaction).start().await;
    let pool = tenure_jobs::work_pool(&pooler.url(), 4).expect("a pool");
    let (term, _control) = db.term().await;
    for round in 0..30 {
        db.due_once(&format!("round{round}")).await;
        let (a, b) = tokio::join!(run_pass(&term, &pool), run_pass(&term, &pool));
        assert_eq!(a.expect("a pass").ticks.len() + b.expect("a pass").ticks.len(), 1);
    }
    assert_eq!(db.jobs().await, 30);
}

#[tokio::test]
async fn a_server_that_restarts_does_not_end_the_term() {
    let mut db = Database::start().await;
    db.schedule("often", "* * * * * *", "clock_timestamp()").await;
    let (term, control) = db.term().await;
    let scheduler = Scheduler { pool: db.pool.clone(), config: SchedulerConfig::default() };
    let running = tokio::spawn(async move { scheduler.run(term).await });
    let first = eventually(StdDuration::from_secs(20), || async {
        db.fired("often").await.last().copied().ok_or("nothing fired")
    })
    .await;
    db.server.stop(StopMode::Immediate);
    db.server.start_again();
    eventually(StdDuration::from_secs(30), || async {
        let newest = sqlx::query_scalar::<_, Option<i64>>(
            "select count(*) from tenure.tick where outcome = 'enqueued' and due_at > $1::timestamptz + interval '3 s'",
        )
        .bind(first)
        .fetch_one(&db.pool)
        .await;
        if matches!(newest, Ok(Some(1..))) { Ok(()) } else { Err(newest) }
    })
    .await;
    control.drain();
    running.await.expect("no panic").expect("a drained worker returns");
}
