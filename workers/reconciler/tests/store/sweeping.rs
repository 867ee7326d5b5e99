//! Tables past their retention.

use crate::database::{Database, log_sweep, parse, targets};
use std::time::Duration;
use tenure::Singleton as _;
use tenure_reconciler::{
    Outcome, Reconciler, ReconcilerConfig,
    pass::{Memory, run_pass},
};
use tenure_testkit::{PgBouncer, eventually};

#[tokio::test]
async fn rows_past_their_retention_are_deleted_in_batches_and_the_others_stay() {
    let db = Database::with_log(1_000, 7).await;
    let (term, _control) = db.term().await;
    let report = db.pass(&term, &log_sweep("batch_size = 100")).await.expect("a pass");
    let log = report.sweep("log").expect("a report");
    assert_eq!((log.deleted, log.debt, log.outcome), (1_000, Some(0), Outcome::Done));
    assert!(log.batches >= 2 && log.batch_size > 100, "fast batches grow: {log:?}");
    assert_eq!(db.log_rows().await, 7);
    let run = "select deleted from tenure.sweep_run where sweep = 'log' and outcome = 'done' and debt = 0";
    assert_eq!(db.number(run).await, 1_000);
}

#[tokio::test]
async fn the_oldest_rows_go_first_and_the_budget_of_rows_is_kept() {
    let db = Database::with_log(1_000, 0).await;
    let (term, _control) = db.term().await;
    let targets = log_sweep("batch_size = 100\nmax_rows = 250");
    let report = db.pass(&term, &targets).await.expect("a pass");
    let log = report.sweep("log").expect("a report");
    assert_eq!((log.deleted, log.debt, log.outcome), (250, Some(750), Outcome::Budget));
    assert_eq!(db.number("select min(id) from public.log").await, 251);
}

#[tokio::test]
async fn an_idle_pass_writes_nothing() {
    let db = Database::with_log(0, 5).await;
    let (term, _control) = db.term().await;
    let before = db.next_transaction().await;
    let mut memory = Memory::default();
    for _ in 0..3 {
        let report = run_pass(&term, &db.pool, &log_sweep(""), Duration::from_secs(60), &mut memory).await;
        assert!(report.expect("a pass").sweeps.iter().all(|sweep| !sweep.recorded));
    }
    assert_eq!(db.next_transaction().await, before, "no transaction wrote");
    assert_eq!(db.sweep_runs().await, 0);
}

#[tokio::test]
async fn a_batch_that_meets_the_statement_timeout_shrinks_and_the_sweep_gets_ahead() {
    let db = Database::with_log(40, 0).await;
    // 20 ms a row: ten rows fit in 200 ms, and the first batch of forty does not.
    db.run(
        "create function slow() returns trigger language plpgsql as
            $$ begin perform pg_sleep(0.02); return old; end $$;
         create trigger slow before delete on public.log for each row execute function slow();",
    )
    .await;
    let (term, _control) = db.term().await;
    let targets = log_sweep("batch_size = 40\nstatement_timeout = \"200ms\"");
    let report = db.pass(&term, &targets).await.expect("a pass");
    let log = report.sweep("log").expect("a report");
    assert_eq!((log.deleted, log.debt, log.outcome), (40, Some(0), Outcome::Done), "{log:?}");
    assert!(log.batches >= 4, "{log:?}");
}

#[tokio::test]
async fn a_sweep_that_can_not_delete_one_row_says_so_and_keeps_its_debt_in_sight() {
    let db = Database::with_log(3, 0).await;
    db.run(
        "create function stuck() returns trigger language plpgsql as
            $$ begin perform pg_sleep(60); return old; end $$;
         create trigger stuck before delete on public.log for each row execute function stuck();",
    )
    .await;
    let (term, _control) = db.term().await;
    let targets = log_sweep("batch_size = 4\nstatement_timeout = \"150ms\"");
    let mut memory = Memory::default();
    let mut pass = async || {
        let report = run_pass(&term, &db.pool, &targets, Duration::from_secs(60), &mut memory).await;
        report.expect("a pass").sweep("log").expect("a report").clone()
    };
    let first = pass().await;
    assert_eq!((first.deleted, first.debt, first.outcome), (0, Some(3), Outcome::Slow));
    assert!(first.is_stuck() && first.recorded);
    let second = pass().await;
    assert!(second.is_stuck() && !second.recorded, "the same is not written down in each pass");
    assert_eq!(db.sweep_runs().await, 1);
}

#[tokio::test]
async fn rows_that_others_have_locked_are_passed_over_and_found_later() {
    let db = Database::with_log(100, 0).await;
    let mut application = db.pool.begin().await.expect("a transaction");
    sqlx::raw_sql("select from public.log where id <= 10 for update")
        .execute(&mut *application)
        .await
        .expect("locks");
    let (term, _control) = db.term().await;
    let mut memory = Memory::default();
    let targets = log_sweep("batch_size = 20");
    let mut pass = async || {
        let report = run_pass(&term, &db.pool, &targets, Duration::from_secs(60), &mut memory).await;
        report.expect("a pass").sweep("log").expect("a report").clone()
    };
    let first = pass().await;
    assert_eq!((first.deleted, first.debt, first.outcome), (90, Some(10), Outcome::Done));
    let second = pass().await;
    assert_eq!((second.deleted, second.debt), (0, Some(10)));
    assert!(second.is_stuck());
    application.rollback().await.expect("a rollback");
    assert_eq!(pass().await.deleted, 10);
}

#[tokio::test]
async fn a_locked_table_is_left_for_the_next_pass_and_others_are_swept() {
    let db = Database::with_log(100, 0).await;
    db.run("create table public.other (at timestamptz); insert into public.other values ('2001-01-01')")
        .await;
    let mut migration = db.pool.begin().await.expect("a transaction");
    sqlx::raw_sql("lock table public.log in share mode").execute(&mut *migration).await.expect("a lock");
    let mut sweeps = log_sweep("lock_timeout = \"50ms\"");
    sweeps.extend(targets(
        "[reconciler.sweeps.other]\ntable = \"public.other\"\ncolumn = \"at\"\nretention = \"1d\"",
    ));
    let (term, _control) = db.term().await;
    let report = db.pass(&term, &sweeps).await.expect("a pass");
    let log = report.sweep("log").expect("a report");
    assert_eq!((log.deleted, log.debt, log.outcome), (0, Some(100), Outcome::Locked));
    assert_eq!(report.sweep("other").expect("a report").deleted, 1);
}

#[tokio::test]
async fn a_sweep_that_is_fenced_in_the_middle_stops_and_what_it_committed_stays() {
    let db = Database::with_log(5_000, 0).await;
    let (old, _old) = db.term().await;
    let mut targets = log_sweep("batch_size = 10");
    // Long enough for the new term to begin between two batches.
    targets.last_mut().expect("the sweep").pause = Duration::from_millis(500);
    let takeover = async {
        eventually(Duration::from_secs(20), || async {
            let left = db.log_rows().await;
            if left < 5_000 { Ok(()) } else { Err(left) }
        })
        .await;
        let new = db.term().await;
        (new, db.log_rows().await)
    };
    let (swept, ((_new, _control), left)) = tokio::join!(db.pass(&old, &targets), takeover);
    let error = swept.expect_err("the old term");
    assert!(error.is_fenced(), "{error}");
    assert!(left > 0, "it was in the middle");
    assert_eq!(db.log_rows().await, left, "nothing was deleted after the new term began");
    assert_eq!(db.sweep_runs().await, 0, "nor recorded");
}

#[tokio::test]
async fn a_drained_term_ends_the_sweep_between_two_batches_and_records_it() {
    let db = Database::with_log(5_000, 0).await;
    let (term, control) = db.term().await;
    let mut targets = log_sweep("batch_size = 10");
    targets.last_mut().expect("the sweep").pause = Duration::from_secs(600);
    let drain = async {
        eventually(Duration::from_secs(20), || async {
            let left = db.log_rows().await;
            if left < 5_000 { Ok(()) } else { Err(left) }
        })
        .await;
        control.drain();
    };
    let (report, ()) = tokio::join!(db.pass(&term, &targets), drain);
    let report = report.expect("a pass");
    let log = report.sweep("log").expect("a report");
    assert_eq!((log.outcome, log.deleted, log.recorded), (Outcome::Stopped, 10, true));
}

#[tokio::test]
async fn a_big_table_does_not_keep_a_small_one_waiting() {
    let db = Database::with_log(2_000, 0).await;
    db.run("create table public.small (at timestamptz); insert into public.small values ('2001-01-01')")
        .await;
    let toml = "[reconciler.sweeps.big]\ntable = \"public.log\"\ncolumn = \"at\"\nretention = \"1d\"
        batch_size = 1\npause = \"100ms\"
        [reconciler.sweeps.small]\ntable = \"public.small\"\ncolumn = \"at\"\nretention = \"1d\"";
    let (term, _control) = db.term().await;
    let mut memory = Memory::default();
    let report = run_pass(&term, &db.pool, &targets(toml), Duration::from_millis(400), &mut memory).await;
    let report = report.expect("a pass");
    assert_eq!(report.sweep("big").expect("a report").outcome, Outcome::Budget);
    assert_eq!(report.sweep("small").expect("a report").deleted, 1, "{report:?}");

    let again = run_pass(&term, &db.pool, &targets(toml), Duration::from_millis(1), &mut memory).await;
    assert_eq!(again.expect("a pass").sweeps[0].name, "tenure.tick", "another table begins");
}

#[tokio::test]
async fn odd_names_are_names_and_nothing_else() {
    let db = Database::start().await;
    db.run(
        r#"create schema "Odd ""S";
           create table "Odd ""S"."ta;ble'" ("when ""it"" was" timestamptz);
           insert into "Odd ""S"."ta;ble'" values ('2001-01-01'), (now()), (null);"#,
    )
    .await;
    let toml = r#"
        [reconciler.sweeps.odd]
        table = '''"Odd ""S"."ta;ble'"'''
        column = '''"when ""it"" was"'''
        retention = "1d"
    "#;
    let (term, _control) = db.term().await;
    let report = db.pass(&term, &targets(toml)).await.expect("a pass");
    assert_eq!(report.sweep("odd").expect("a report").deleted, 1);
    assert_eq!(db.number(r#"select count(*) from "Odd ""S"."ta;ble'""#).await, 2, "a null age is no age");
}

#[tokio::test]
async fn a_partitioned_table_is_swept_in_all_its_partitions() {
    let db = Database::start().await;
    db.run(
        "create table public.log (at timestamptz, n integer) partition by list (n);
         create table public.log_1 partition of public.log for values in (1);
         create table public.log_2 partition of public.log for values in (2);
         insert into public.log select now(), 2 from generate_series(1, 10) g;
         insert into public.log select '2001-01-01', 1 + g % 2 from generate_series(1, 100) g;",
    )
    .await;
    let (term, _control) = db.term().await;
    let report = db.pass(&term, &log_sweep("batch_size = 7")).await.expect("a pass");
    assert_eq!(report.sweep("log").expect("a report").deleted, 100);
    assert_eq!(db.log_rows().await, 10);
}

#[tokio::test]
async fn a_sweep_that_the_database_refuses_says_why_and_keeps_no_other_from_running() {
    let db = Database::with_log(10, 0).await;
    let mut sweeps =
        targets("[reconciler.sweeps.gone]\ntable = \"public.gone\"\ncolumn = \"at\"\nretention = \"1d\"");
    sweeps.extend(log_sweep("").into_iter().filter(|target| target.name == "log"));
    let (term, _control) = db.term().await;
    let report = db.pass(&term, &sweeps).await.expect("a pass");
    let gone = report.sweep("gone").expect("a report");
    assert_eq!((gone.outcome, gone.debt), (Outcome::Failed, None));
    assert!(gone.reason.as_deref().is_some_and(|reason| reason.contains("public.gone")), "{gone:?}");
    assert_eq!(report.sweep("log").expect("a report").deleted, 10);
}

#[tokio::test]
async fn a_trigger_that_keeps_rows_ends_the_sweep_instead_of_repeating_it() {
    let db = Database::with_log(10, 0).await;
    db.run(
        "create function keep() returns trigger language plpgsql as $$ begin return null; end $$;
         create trigger keep before delete on public.log for each row execute function keep();",
    )
    .await;
    let (term, _control) = db.term().await;
    let report = db.pass(&term, &log_sweep("batch_size = 5")).await.expect("a pass");
    assert_eq!(report.sweep("log").expect("a report").outcome, Outcome::Failed);
}

#[tokio::test]
async fn tenures_own_finished_records_are_kept_bounded_and_the_living_ones_stay() {
    let db = Database::start().await;
    db.run(
        "insert into tenure.job (kind, state, finished_at) values
            ('old', 'completed', now() - interval '8 days'), ('young', 'completed', now());
         insert into tenure.job (kind, created_at) values ('waiting', now() - interval '1 year');
         insert into tenure.job_attempt select id, 1, 1, gen_random_uuid(), now() from tenure.job;
         insert into tenure.tick (schedule, due_at, epoch, outcome, first_due_at, recorded_at)
            select 's', t, 1, 'skipped', t, t from (values (now() - interval '31 days'), (now())) v (t);
         insert into tenure.term (role, epoch, instance, host, acquired_at, ended_at) values
            ('r', 1, gen_random_uuid(), 'h', now() - interval '1 year', now() - interval '91 days'),
            ('r', 2, gen_random_uuid(), 'h', now() - interval '1 year', null);",
    )
    .await;
    let (term, _control) = db.term().await;
    let report = db.pass(&term, &targets("[reconciler]")).await.expect("a pass");
    let deleted: Vec<_> = report.sweeps.iter().map(|sweep| (sweep.name.as_str(), sweep.deleted)).collect();
    assert_eq!(deleted, [("tenure.job", 1), ("tenure.tick", 1), ("tenure.sweep_run", 0), ("tenure.term", 1)]);
    assert_eq!(db.number("select count(*) from tenure.job").await, 2);
    assert_eq!(db.number("select count(*) from tenure.job_attempt").await, 2, "attempts go with their job");
}

#[tokio::test]
async fn the_worker_sweeps_until_it_is_drained() {
    let db = Database::with_log(100, 0).await;
    let (term, control) = db.term().await;
    let config =
        parse("[reconciler.sweeps.log]\ntable = \"public.log\"\ncolumn = \"at\"\nretention = \"1d\"")
            .expect("a configuration");
    let worker = Reconciler { pool: db.pool.clone(), config };
    let running = tokio::spawn(async move { worker.run(term).await });
    eventually(Duration::from_secs(20), || async {
        let left = db.log_rows().await;
        if left == 0 { Ok(()) } else { Err(left) }
    })
    .await;
    control.drain();
    running.await.expect("no panic").expect("a drained worker returns");
}

#[tokio::test]
async fn a_bad_configuration_ends_the_term_with_an_error_that_names_the_key() {
    let db = Database::start().await;
    let (term, _control) = db.term().await;
    let config = ReconcilerConfig { interval: Duration::ZERO, ..ReconcilerConfig::default() };
    let error = Reconciler { pool: db.pool.clone(), config }.run(term).await.expect_err("refused");
    assert!(error.to_string().contains("reconciler.interval"), "{error}");
}

#[tokio::test]
async fn tables_are_swept_through_a_transaction_pooler_and_no_setting_stays_behind() {
    let db = Database::with_log(3_000, 5).await;
    let pooler = PgBouncer::builder(&db.server).start().await;
    let pool = tenure_jobs::work_pool(&pooler.url(), 4).expect("a pool");
    let (term, _control) = db.term().await;
    let targets = log_sweep("batch_size = 100");
    let report = run_pass(&term, &pool, &targets, Duration::from_secs(60), &mut Memory::default()).await;
    assert_eq!(report.expect("a pass").sweep("log").expect("a report").deleted, 3_000);
    let timeout = sqlx::raw_sql("show statement_timeout").fetch_one(&pool).await.expect("a setting");
    assert_eq!(sqlx::Row::get::<&str, _>(&timeout, 0), "0");
}
