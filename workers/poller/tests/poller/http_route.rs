use crate::support::{Database, job};
use axum::{
    Router,
    extract::Request,
    http::{HeaderMap, StatusCode, header},
    response::{IntoResponse, Response},
};
use serde_json::{Value, json};
use std::sync::{Arc, Mutex};
use tenure_jobs::{JobState, NewJob};
use tokio::{net::TcpListener, task::JoinHandle};

/// What a receiver was sent.
struct Received {
    path: String,
    headers: HeaderMap,
    body: Value,
}

/// A receiver of webhooks that always gives the same answer.
struct Receiver {
    url: String,
    received: Arc<Mutex<Vec<Received>>>,
    server: JoinHandle<()>,
}

impl Receiver {
    async fn answering(answer: impl Fn() -> Response + Clone + Send + Sync + 'static) -> Self {
        let received: Arc<Mutex<Vec<Received>>> = Arc::default();
        let record = Arc::clone(&received);
        let app = Router::new().fallback(move |request: Request| async move {
            let (parts, body) = request.into_parts();
            let body = axum::body::to_bytes(body, usize::MAX).await.unwrap();
            record.lock().unwrap().push(Received {
                path: parts.uri.to_string(),
                headers: parts.headers,
                body: serde_json::from_slice(&body).unwrap(),
            });
            answer()
        });
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/hook", listener.local_addr().unwrap());
        let server = tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
        Self { url, received, server }
    }

    fn route(&self) -> Value {
        json!({"backoff": {"base": "1s", "max": "1s"}, "routes": {"hook": {"type": "http", "url": self.url}}})
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.server.abort();
    }
}

/// Seconds until the job's next try, by the database's clock.
async fn wait_of(db: &Database, id: i64) -> i64 {
    db.number(&format!("select extract(epoch from run_at - now())::bigint from tenure.job where id = {id}"))
        .await
}

#[tokio::test]
async fn a_webhook_gets_the_payload_with_a_key_that_stays_the_same_for_every_attempt() {
    let db = Database::create().await;
    let receiver = Receiver::answering(|| StatusCode::INTERNAL_SERVER_ERROR.into_response()).await;
    let id = db.add(NewJob::new("hook", json!({"x": 1}))).await;
    let (term, _control) = db.term().await;
    let poller = db.poller(receiver.route());
    assert_eq!(poller.pass(&term).await.unwrap().failed, 1);
    db.execute("update tenure.job set run_at = now()").await;
    assert_eq!(poller.pass(&term).await.unwrap().failed, 1);
    let key = db.job(id).await.delivery_key.to_string();
    let deliveries = receiver.received.lock().unwrap();
    assert_eq!(deliveries.len(), 2);
    for (attempt, received) in ["1", "2"].into_iter().zip(deliveries.iter()) {
        assert_eq!(received.path, "/hook");
        assert_eq!(received.body, json!({"x": 1}));
        assert_eq!(received.headers["webhook-id"], key);
        assert_eq!(received.headers["tenure-attempt"], attempt);
        assert_eq!(received.headers["tenure-epoch"], term.epoch().to_string());
        assert_eq!(received.headers[header::CONTENT_TYPE], "application/json");
        let timestamp: i64 = received.headers["webhook-timestamp"].to_str().unwrap().parse().unwrap();
        assert!(timestamp > 1_700_000_000);
    }
}

#[tokio::test]
async fn success_completes_gone_discards_and_every_other_status_is_tried_again() {
    let db = Database::create().await;
    let (term, _control) = db.term().await;
    for (status, state) in [
        (200, JobState::Completed),
        (204, JobState::Completed),
        (400, JobState::Available),
        (404, JobState::Available),
        (410, JobState::Discarded),
        (429, JobState::Available),
        (500, JobState::Available),
        (503, JobState::Available),
    ] {
        let answer = move || StatusCode::from_u16(status).unwrap().into_response();
        let receiver = Receiver::answering(answer).await;
        let id = db.add(job("hook")).await;
        db.poller(receiver.route()).pass(&term).await.unwrap();
        let job = db.job(id).await;
        assert_eq!((job.state, job.attempt), (state, 1), "{status}");
        if state != JobState::Completed {
            assert!(job.last_error.as_deref().is_some_and(|e| e.contains(&status.to_string())), "{job:?}");
        }
        // Out of the way of the next one.
        db.execute("update tenure.job set run_at = now() + interval '1 day' where state = 'available'").await;
    }
}

#[tokio::test]
async fn a_redirect_is_not_followed() {
    let db = Database::create().await;
    let elsewhere = Receiver::answering(|| StatusCode::OK.into_response()).await;
    let location = elsewhere.url.clone();
    let answer =
        move || (StatusCode::TEMPORARY_REDIRECT, [(header::LOCATION, location.clone())]).into_response();
    let receiver = Receiver::answering(answer).await;
    let id = db.add(job("hook")).await;
    let (term, _control) = db.term().await;
    assert_eq!(db.poller(receiver.route()).pass(&term).await.unwrap().failed, 1);
    assert_eq!(db.job(id).await.state, JobState::Available);
    assert!(elsewhere.received.lock().unwrap().is_empty());
}

#[tokio::test]
async fn retry_after_is_honored_in_seconds_and_as_a_date_and_clamped() {
    let db = Database::create().await;
    let (term, _control) = db.term().await;
    for (status, date, retry_after, expected) in [
        (429, None, "120", 110..=120),
        // The receiver's own clock is years off: the date counts from what it says the time is.
        (503, Some("Sun, 06 Nov 1994 08:49:37 GMT"), "Sun, 06 Nov 1994 08:54:37 GMT", 290..=300),
        (502, None, "86400", 3590..=3600),
        (504, None, "nonsense", 0..=1),
        (429, None, "0", 0..=1),
    ] {
        let answer = move || {
            let mut response = StatusCode::from_u16(status).unwrap().into_response();
            response.headers_mut().insert(header::RETRY_AFTER, retry_after.parse().unwrap());
            if let Some(date) = date {
                response.headers_mut().insert(header::DATE, date.parse().unwrap());
            }
            response
        };
        let receiver = Receiver::answering(answer).await;
        let id = db.add(job("hook")).await;
        assert_eq!(db.poller(receiver.route()).pass(&term).await.unwrap().failed, 1);
        let wait = wait_of(&db, id).await;
        assert!(expected.contains(&wait), "{retry_after}: {wait}");
        db.execute("update tenure.job set run_at = now() + interval '1 day' where state = 'available'").await;
    }
}

#[tokio::test]
async fn an_unreachable_receiver_is_tried_again_and_its_secrets_stay_out_of_the_reason() {
    let db = Database::create().await;
    // Bound and never accepted from, then closed: nobody listens there.
    let port = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap().port();
    let url = format!("http://user:passw0rd@127.0.0.1:{port}/hook?token=s3cret");
    let id = db.add(job("hook")).await;
    let (term, _control) = db.term().await;
    let poller = db.poller(json!({"routes": {"hook": {"type": "http", "url": url}}}));
    assert_eq!(poller.pass(&term).await.unwrap().failed, 1);
    let reason = db.job(id).await.last_error.unwrap();
    assert!(reason.contains(&format!("http://127.0.0.1:{port}/hook")), "{reason}");
    assert!(!reason.contains("passw0rd") && !reason.contains("s3cret"), "{reason}");
}

#[tokio::test]
async fn a_receiver_that_never_answers_is_given_up_after_its_timeout() {
    let db = Database::create().await;
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", silent.local_addr().unwrap());
    let id = db.add(job("hook")).await;
    let (term, _control) = db.term().await;
    let poller = db.poller(json!({"routes": {"hook": {"type": "http", "url": url, "timeout": "100ms"}}}));
    assert_eq!(poller.pass(&term).await.unwrap().failed, 1);
    assert!(db.job(id).await.last_error.is_some());
}
