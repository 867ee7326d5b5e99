//! Several instances.

use super::fake::{Bench, FakeDatabase, Then, Trouble, scribe};
use crate::{
    Role, Timing, Worker,
    clock::Clock as _,
    lease::{Command, EndReason},
};
use proptest::prelude::*;
use std::{collections::BTreeSet, sync::Arc, time::Duration};

const A: Role = Role::new("a", 1);

#[tokio::test(start_paused = true)]
async fn a_planned_hand_over_needs_no_retry_interval() {
    let timing = Timing::default();
    let database = FakeDatabase::new(&timing);
    let mut first = Bench::start(&database, timing, vec![scribe(&database, A, Then::Heed)]);
    first.leads(1).await;
    let mut second = Bench::start(&database, timing, vec![scribe(&database, A, Then::Heed)]);
    tokio::time::sleep(Duration::from_secs(5)).await;
    let begun = tokio::time::Instant::now();
    first.commands.send(Command::Drain).unwrap();
    second.leads(1).await;
    assert!(begun.elapsed() < Duration::from_millis(10), "{:?}", begun.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_leader_whose_session_was_ended_hears_of_its_successor() {
    let timing = Timing::default();
    let database = FakeDatabase::new(&timing);
    let mut first = Bench::start(&database, timing, vec![scribe(&database, A, Then::Ignore)]);
    first.leads(1).await;
    let mut second = Bench::start(&database, timing, vec![scribe(&database, A, Then::Ignore)]);
    tokio::time::sleep(Duration::from_secs(1)).await;
    database.terminate(1);
    second.leads(1).await;
    let begun = tokio::time::Instant::now();
    database.until("a 1 ends").await;
    assert!(begun.elapsed() < Duration::from_millis(10), "{:?}", begun.elapsed());
}

#[tokio::test(start_paused = true)]
async fn whoever_resigns_leaves_the_role_to_the_other() {
    let timing = Timing::default();
    let database = FakeDatabase::new(&timing);
    let mut first = Bench::start(&database, timing, vec![scribe(&database, A, Then::Heed)]);
    first.leads(1).await;
    let mut second = Bench::start(&database, timing, vec![scribe(&database, A, Then::Heed)]);
    tokio::time::sleep(Duration::from_secs(5)).await;
    first.commands.send(Command::Resign(A.key())).unwrap();
    second.leads(1).await;
    first.leads(0).await;
}

#[tokio::test(start_paused = true)]
async fn the_only_instance_leads_again_after_it_resigned() {
    let timing = Timing::default();
    let database = FakeDatabase::new(&timing);
    let mut only = Bench::start(&database, timing, vec![scribe(&database, A, Then::Heed)]);
    only.leads(1).await;
    only.commands.send(Command::Resign(A.key())).unwrap();
    only.leads(0).await;
    only.leads(1).await;
}

#[tokio::test(start_paused = true)]
async fn roles_spread_over_instances_that_start_together() {
    let timing = Timing::default();
    let database = FakeDatabase::new(&timing);
    let workers = || -> Vec<Arc<dyn Worker>> {
        (0..30)
            .map(|n: i64| {
                let name = Box::leak(format!("r{n}").into_boxed_str());
                scribe(&database, Role::new(name, n), Then::Heed)
            })
            .collect()
    };
    let benches: Vec<Bench> = (0..3).map(|_| Bench::start(&database, timing, workers())).collect();
    tokio::time::sleep(Duration::from_secs(10)).await;
    let led: Vec<usize> = benches.iter().map(|bench| bench.snapshot.borrow().led().count()).collect();
    assert_eq!(led.iter().sum::<usize>(), 30, "{led:?}");
    assert!(led.iter().all(|count| *count >= 4), "{led:?}");
}

/// What may go wrong with one statement.
fn trouble() -> impl Strategy<Value = Trouble> {
    prop_oneof![
        4 => (0u64..2000).prop_map(|ms| Trouble::Late(Duration::from_millis(ms))),
        2 => (2000u64..40_000).prop_map(|ms| Trouble::Late(Duration::from_millis(ms))),
        1 => Just(Trouble::Lost(EndReason::ConnectionLost)),
        1 => Just(Trouble::Failed),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    /// Whatever the statements do and however long the instances sleep: work of two terms never overlaps.
    #[test]
    fn work_of_two_terms_never_overlaps(
        troubles in proptest::collection::vec(trouble(), 0..60),
        sleeps in proptest::collection::vec((0usize..3, 0u64..30, any::<bool>()), 0..6),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build()?;
        let history = runtime.block_on(async {
            let timing = Timing::default();
            let database = FakeDatabase::new(&timing);
            for trouble in troubles {
                database.trouble(trouble);
            }
            let benches: Vec<Bench> = (0..3)
                .map(|_| Bench::start(&database, timing, vec![scribe(&database, A, Then::Ignore)]))
                .collect();
            for (who, seconds, watchdog_first) in sleeps {
                tokio::time::sleep(Duration::from_secs(10)).await;
                let Bench { clock, board, .. } = &benches[who];
                clock.skip(Duration::from_secs(seconds));
                // After a sleep either may wake first.
                if watchdog_first && !board.trust().holds(clock.now()) {
                    board.revoke_all(EndReason::TrustExpired);
                }
            }
            tokio::time::sleep(Duration::from_secs(300)).await;
            let leading: usize = benches.iter().map(|bench| bench.snapshot.borrow().led().count()).sum();
            prop_assert_eq!(leading, 1, "somebody leads in the end");
            Ok(database.history())
        })?;
        let mut active = BTreeSet::new();
        for line in &history {
            if let Some(term) = line.strip_suffix(" begins") {
                prop_assert!(active.is_empty(), "{:?} while {:?}\n{:#?}", term, active, history);
                active.insert(term.to_owned());
            } else if let Some(term) = line.strip_suffix(" ends") {
                active.remove(term);
            }
        }
    }
}
