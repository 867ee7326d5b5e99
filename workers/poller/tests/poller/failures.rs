use crate::support::{Database, eventually, job};
use serde_json::json;
use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};
use tenure::{Singleton as _, Term, async_trait};
use tenure_jobs::{ClaimedJob, JobState};
use tenure_poller::{Failure, Handler, PassReport};
use tokio::sync::Notify;

/// A handler that a test lets go, and that tells how often it began, ended and was dropped.
#[derive(Clone, Default)]
pub(crate) struct Held {
    go: Arc<Notify>,
    pub(crate) begun: Arc<AtomicUsize>,
    dropped: Arc<AtomicUsize>,
}

impl Held {
    pub(crate) fn begun(&self) -> usize {
        self.begun.load(Ordering::SeqCst)
    }

    fn dropped(&self) -> usize {
        self.dropped.load(Ordering::SeqCst)
    }

    pub(crate) fn let_one_go(&self) {
        self.go.notify_one();
    }

    pub(crate) async fn until_begun(&self, times: usize) {
        eventually("the handler begins", async || (self.begun() == times).then_some(())).await;
    }
}

struct CountDrop(Arc<AtomicUsize>);

impl Drop for CountDrop {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

#[async_trait]
impl Handler for Held {
    async fn handle(&self, _job: &ClaimedJob, _term: &Term) -> Result<(), Failure> {
        let _count = CountDrop(Arc::clone(&self.dropped));
        self.begun.fetch_add(1, Ordering::SeqCst);
        self.go.notified().await;
        Ok(())
    }
}

struct Panics;

#[async_trait]
impl Handler for Panics {
    async fn handle(&self, _job: &ClaimedJob, _term: &Term) -> Result<(), Failure> {
        panic!("on purpose")
    }
}

#[tokio::test]
async fn a_completion_of_an_older_term_is_fenced() {
    let db = Database::create().await;
    let id = db.add(job("held")).await;
    let held = Held::default();
    let poller = db.poller(json!({})).with_handler("held", held.clone());
    let (older, _older_control) = db.term().await;
    let pass = poller.pass(&older);
    let takeover = async {
        held.until_begun(1).await;
        let newer = db.term().await;
        held.let_one_go();
        newer
    };
    let (fenced, (newer, _newer_control)) = tokio::join!(pass, takeover);
    assert!(fenced.unwrap_err().is_fenced());
    assert_eq!(db.job(id).await.state, JobState::Running, "nothing was written");

    db.expire_attempts().await;
    held.let_one_go();
    let report = poller.pass(&newer).await.unwrap();
    assert_eq!(report, PassReport { claimed: 1, completed: 1, released: 1, ..PassReport::default() });
    let job = db.job(id).await;
    assert_eq!((job.attempt, job.claimed_by), (2, Some(newer.epoch().0)));
}

#[tokio::test]
async fn a_panicking_handler_fails_its_attempt_and_nothing_else() {
    let db = Database::create().await;
    let (bad, good) = (db.add(job("panics")).await, db.add(job("sql")).await);
    let poller = db
        .poller(json!({"routes": {"sql": {"type": "sql", "statement": "select 1"}}}))
        .with_handler("panics", Panics);
    let (term, _control) = db.term().await;
    let report = poller.pass(&term).await.unwrap();
    assert_eq!(report, PassReport { claimed: 2, completed: 1, failed: 1, ..PassReport::default() });
    assert_eq!(db.job(bad).await.last_error.as_deref(), Some("the handler panicked"));
    assert_eq!(db.job(good).await.state, JobState::Completed);
}

#[tokio::test]
async fn an_attempt_that_takes_too_long_fails_and_is_dropped() {
    let db = Database::create().await;
    let id = db.add(job("held")).await;
    let held = Held::default();
    let poller = db.poller(json!({"attempt_timeout": "50ms"})).with_handler("held", held.clone());
    let (term, _control) = db.term().await;
    assert_eq!(poller.pass(&term).await.unwrap().failed, 1);
    assert_eq!(held.dropped(), 1);
    assert!(db.job(id).await.last_error.is_some_and(|reason| reason.contains("50ms")));
}

#[tokio::test]
async fn a_long_attempt_is_extended_while_it_lives() {
    let db = Database::create().await;
    let id = db.add(job("held")).await;
    let held = Held::default();
    let poller = db.poller(json!({"attempt_lease": "1s"})).with_handler("held", held.clone());
    let (term, _control) = db.term().await;
    let watch = async {
        held.until_begun(1).await;
        let first = db.job(id).await.attempt_deadline.unwrap();
        eventually("its deadline is far behind the first one", async || {
            let deadline = db.job(id).await.attempt_deadline.unwrap();
            (deadline - first > chrono::TimeDelta::seconds(1)).then_some(())
        })
        .await;
        held.let_one_go();
    };
    let (report, ()) = tokio::join!(poller.pass(&term), watch);
    assert_eq!(report.unwrap().completed, 1);
    assert_eq!((held.begun(), db.job(id).await.attempt), (1, 1), "it was run once");
}

#[tokio::test]
async fn an_attempt_that_was_taken_for_dead_is_dropped() {
    let db = Database::create().await;
    let id = db.add(job("held")).await;
    let held = Held::default();
    let poller = db.poller(json!({"attempt_lease": "1s"})).with_handler("held", held.clone());
    let (term, _control) = db.term().await;
    let release = async {
        held.until_begun(1).await;
        db.execute("update tenure.job set state = 'available', attempt_deadline = null").await;
    };
    let (report, ()) = tokio::join!(poller.pass(&term), release);
    assert_eq!(report.unwrap(), PassReport { claimed: 1, gone: 1, ..PassReport::default() });
    assert_eq!((held.dropped(), db.job(id).await.state), (1, JobState::Available));
}

#[tokio::test]
async fn when_the_term_ends_every_attempt_is_dropped_at_once() {
    let db = Database::create().await;
    for _ in 0..3 {
        db.add(job("held")).await;
    }
    let held = Held::default();
    let poller = db.poller(json!({"attempt_lease": "1h"})).with_handler("held", held.clone());
    let (term, control) = db.term().await;
    let revoke = async {
        held.until_begun(3).await;
        control.revoke();
    };
    // Far less than the time after which the next extension would be fenced.
    let run = tokio::time::timeout(Duration::from_secs(60), poller.run(term));
    let (ended, ()) = tokio::join!(run, revoke);
    assert!(ended.expect("it ends by itself").is_err());
    assert_eq!(held.dropped(), 3);
    assert_eq!(db.number("select count(*) from tenure.job where state = 'running'").await, 3);
}
