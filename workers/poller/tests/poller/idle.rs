use crate::{
    support::{Database, job},
    wire::{Counts, Relay},
};
use serde_json::json;
use tenure_jobs::{JobState, NewJob};
use tenure_poller::{PassReport, Poller};

#[tokio::test]
async fn an_idle_poll_is_exactly_one_statement_without_parameters() {
    let db = Database::create().await;
    // None of these can be run: a kind without a route, a later time, a turn that hasn't come.
    let unknown = db.add(job("unknown")).await;
    db.add(NewJob { run_at: Some("2100-01-01T00:00:00Z".parse().unwrap()), ..job("sql") }).await;
    db.add(NewJob { ordering_key: Some("k".to_owned()), ..job("unknown") }).await;
    db.add(NewJob { ordering_key: Some("k".to_owned()), ..job("sql") }).await;

    let relay = Relay::to(format!("127.0.0.1:{}", db.server.port())).await;
    let relayed = db.server.url().replace(&format!(":{}/", db.server.port()), &format!(":{}/", relay.port));
    let pool = tenure_jobs::work_pool(&relayed, 1).unwrap();
    let config = json!({"routes": {"sql": {"type": "sql", "statement": "select 1"}}});
    let poller = Poller::new(pool, serde_json::from_value(config).unwrap()).unwrap();
    let (term, _control) = db.term().await;

    assert_eq!(poller.pass(&term).await.unwrap(), PassReport::default());
    relay.take();
    for _ in 0..10 {
        assert_eq!(poller.pass(&term).await.unwrap(), PassReport::default());
    }
    let mut sent = relay.take();
    // A sync is how the pool sees that its connection is alive. It is no statement.
    sent.remove(&'S');
    assert_eq!(sent, Counts::from([('Q', 10)]));
    assert_eq!(db.job(unknown).await.state, JobState::Available, "it waits, and never ends");
}
