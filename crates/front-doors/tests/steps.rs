//! Each step of the examination is needed: there is a door that only this step refuses.

use std::collections::BTreeSet;
use tenure::{
    FrontDoor, LeaseAddress, Timing,
    front_door::{Step, examine},
};
use tenure_front_doors::matrix::{Door, Expected, Lane, rows};

#[tokio::test]
async fn for_each_step_there_is_a_door_that_is_accepted_without_it() {
    let lane = Lane::start();
    let mut shown = BTreeSet::new();
    for row in rows() {
        let Some(step) = row.only else { continue };
        let with = row.run(&lane).await;
        assert_eq!((with.verdict, &*with.decided), (Expected::Refused, step.as_str()), "{}", row.title());
        let without = row.run_without(&lane, Some(step)).await;
        assert_eq!(without.verdict, Expected::Accepted, "{} without {step}: {without:?}", row.title());
        shown.insert(step);
    }
    // Without a connection there is nothing to be wrong about.
    let expected: BTreeSet<Step> = Step::ALL.into_iter().filter(|step| *step != Step::Connect).collect();
    assert_eq!(shown, expected);
}

#[tokio::test]
async fn a_primary_that_hides_its_log_is_accepted_without_a_timeline() {
    let lane = Lane::start();
    let open = Door::HiddenLog.open(&lane).await;
    let address = LeaseAddress::parse(&open.url, FrontDoor::Direct).unwrap();
    let examination = examine(&address, &Timing::default()).await;
    assert!(examination.accepted(), "{examination:#?}");
    let role = examination.steps.last().unwrap();
    assert!(role.evidence.contains("timeline not shown"), "{role:?}");
}
