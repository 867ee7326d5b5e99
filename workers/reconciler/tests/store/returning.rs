//! Jobs whose attempt died.

use crate::database::{Database, targets};
use std::time::Duration;
use tenure_jobs::{Claim, JobState, NewJob, claim, enqueue};

impl Database {
    /// Enqueues `count` jobs and claims them in one poller's term, with deadlines `lease` from now.
    async fn claimed(&self, count: usize, max_attempts: u32, lease: Duration) -> Vec<i64> {
        let mut tx = self.pool.begin().await.expect("a transaction");
        for _ in 0..count {
            let job = NewJob { max_attempts, ..NewJob::new("work", serde_json::json!({})) };
            enqueue(&mut tx, &job).await.expect("a job");
        }
        tx.commit().await.expect("a commit");
        let (term, _control) = self.term().await;
        let kinds = ["work".to_owned()];
        let limit = u32::try_from(count).expect("few");
        let mut tx = self.pool.begin().await.expect("a transaction");
        let ask = Claim { kinds: &kinds, limit, epoch: term.epoch(), instance: term.instance(), lease };
        let jobs = claim(&mut tx, &ask).await.expect("a claim");
        tx.commit().await.expect("a commit");
        jobs.iter().map(|job| job.id).collect()
    }

    async fn deadlines_pass(&self) {
        self.run(
            "update tenure.job set attempt_deadline = now() - interval '1 second'
                  where state = 'running'",
        )
        .await;
    }
}

#[tokio::test]
async fn a_job_whose_attempt_died_goes_back_to_the_queue() {
    let db = Database::start().await;
    let jobs = db.claimed(1, 3, Duration::from_secs(60)).await;
    db.deadlines_pass().await;
    let (term, _control) = db.term().await;
    let report = db.pass(&term, &targets("[reconciler]")).await.expect("a pass");
    let returned: Vec<_> = report.returned.iter().map(|job| (job.id, job.state)).collect();
    assert_eq!(returned, [(jobs[0], JobState::Available)]);
    assert_eq!(
        db.number("select count(*) from tenure.job where state = 'available' and attempt = 1").await,
        1
    );
}

#[tokio::test]
async fn a_job_whose_last_attempt_died_is_discarded() {
    let db = Database::start().await;
    db.claimed(1, 1, Duration::from_secs(60)).await;
    db.deadlines_pass().await;
    let (term, _control) = db.term().await;
    let report = db.pass(&term, &targets("[reconciler]")).await.expect("a pass");
    assert_eq!(report.returned[0].state, JobState::Discarded);
}

#[tokio::test]
async fn an_attempt_before_its_deadline_is_left_alone_whoever_claimed_it() {
    let db = Database::start().await;
    db.claimed(1, 3, Duration::from_secs(60)).await;
    let (term, _control) = db.term().await;
    let report = db.pass(&term, &targets("[reconciler]")).await.expect("a pass");
    assert!(report.returned.is_empty());
    assert_eq!(db.number("select count(*) from tenure.job where state = 'running'").await, 1);
}

#[tokio::test]
async fn more_dead_attempts_than_one_transaction_takes_are_all_returned() {
    let db = Database::start().await;
    db.claimed(450, 3, Duration::from_secs(60)).await;
    db.deadlines_pass().await;
    let (term, _control) = db.term().await;
    let report = db.pass(&term, &targets("[reconciler]")).await.expect("a pass");
    assert_eq!(report.returned.len(), 450);
}

#[tokio::test]
async fn a_former_leader_returns_nothing() {
    let db = Database::start().await;
    db.claimed(1, 3, Duration::from_secs(60)).await;
    db.deadlines_pass().await;
    let (old, _old) = db.term().await;
    let (_new, _control) = db.term().await;
    let error = db.pass(&old, &targets("[reconciler]")).await.expect_err("fenced");
    assert!(error.is_fenced(), "{error}");
    assert_eq!(db.number("select count(*) from tenure.job where state = 'running'").await, 1);
}
