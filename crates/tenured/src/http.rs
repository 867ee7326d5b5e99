//! The HTTP endpoints: health, readiness, metrics, status.

use crate::exit::Failure;
use axum::{
    Json, Router,
    extract::State,
    http::{StatusCode, header},
    response::{Html, IntoResponse, Response},
    routing::get,
};
use metrics_exporter_prometheus::PrometheusHandle;
use serde_json::{Value, json};
use std::{
    fmt::Write as _,
    net::SocketAddr,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};
use tenure::{Gate, InstanceWatch, lease::SessionState};
use tokio::net::TcpListener;
use uuid::Uuid;

/// What the endpoints speak of.
#[derive(Debug)]
pub(crate) struct Health {
    id: Uuid,
    gates: Vec<Gate>,
    metrics: PrometheusHandle,
    stage: Mutex<Stage>,
}

/// How far the process has come.
#[derive(Debug, Clone)]
enum Stage {
    /// On its way, and why it isn't further.
    Starting(String),
    /// Nothing to compete for, by configuration.
    Inert,
    /// The instance runs.
    Running(InstanceWatch),
}

impl Health {
    pub(crate) fn new(id: Uuid, gates: Vec<Gate>, metrics: PrometheusHandle) -> Self {
        Self { id, gates, metrics, stage: Mutex::new(Stage::Starting("starting".to_owned())) }
    }

    /// Still on the way.
    pub(crate) fn not_ready(&self, reason: &str) {
        self.enter(Stage::Starting(reason.to_owned()));
    }

    /// Ready without an instance.
    pub(crate) fn ready(&self) {
        self.enter(Stage::Inert);
    }

    /// From now on the instance speaks for itself.
    pub(crate) fn watch(&self, watch: InstanceWatch) {
        self.enter(Stage::Running(watch));
    }

    fn enter(&self, stage: Stage) {
        *self.stage.lock().unwrap_or_else(PoisonError::into_inner) = stage;
    }

    fn stage(&self) -> Stage {
        self.stage.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn readiness(&self) -> Result<&'static str, String> {
        match self.stage() {
            Stage::Starting(reason) => Err(reason),
            Stage::Inert => Ok("ready: no worker is compiled in and switched on"),
            Stage::Running(watch) => {
                let snapshot = watch.snapshot();
                if snapshot.is_ready() {
                    return Ok("ready");
                }
                Err(match snapshot.session {
                    SessionState::Closed { verdict } => {
                        let told = serde_json::to_value(&verdict).unwrap_or_default();
                        let text = |key: &str| told[key].as_str().unwrap_or_default().to_owned();
                        format!("front door {}: {}; {}", text("verdict"), text("because"), text("advice"))
                    }
                    SessionState::Opening | SessionState::Open | SessionState::Idle => {
                        "the lease session is being opened".to_owned()
                    }
                })
            }
        }
    }

    /// Unhealthy only when it leads a role that it can't renew: then it should be ended.
    fn is_healthy(&self) -> bool {
        match self.stage() {
            Stage::Running(watch) => watch.snapshot().trust_remaining != Some(Duration::ZERO),
            Stage::Starting(_) | Stage::Inert => true,
        }
    }

    fn status(&self) -> Value {
        let gates: Vec<Value> = self.gates.iter().map(gate_json).collect();
        let (ready, reason) = match self.readiness() {
            Ok(text) => (true, text.to_owned()),
            Err(text) => (false, text),
        };
        let mut status = json!({
            "version": env!("CARGO_PKG_VERSION"),
            "instance": self.id,
            "ready": ready,
            "reason": reason,
            "workers": gates,
        });
        if let Stage::Running(watch) = self.stage() {
            let snapshot = watch.snapshot();
            status["session"] = json!(snapshot.session);
            status["trust_remaining_seconds"] =
                json!(snapshot.trust_remaining.map(|left| left.as_secs_f64()));
            status["roles"] = json!(snapshot.roles);
        }
        status
    }
}

/// A worker's gates, as `workers --json` and `/status` show them.
pub(crate) fn gate_json(gate: &Gate) -> Value {
    json!({
        "role": gate.role.name(),
        "key": gate.role.key(),
        "feature": gate.feature,
        "compiled": gate.compiled,
        "toggle": gate.toggle,
        "enabled": gate.enabled,
        "outcome": gate.outcome,
        "why": gate.explain(),
    })
}

/// Listens, and serves in the background.
pub(crate) async fn serve(address: SocketAddr, health: Arc<Health>) -> Result<(), Failure> {
    let listener = TcpListener::bind(address).await.map_err(|error| {
        Failure::Other(format!("http.listen {address}: {error}; choose another address, or \"off\""))
    })?;
    let bound = listener.local_addr().map_or_else(|_| address.to_string(), |bound| bound.to_string());
    tracing::info!(event = "http.listening", address = bound);
    let router = Router::new()
        .route("/healthz", get(healthz))
        .route("/readyz", get(readyz))
        .route("/metrics", get(metrics))
        .route("/status", get(status))
        .route("/", get(page))
        .with_state(health);
    tokio::spawn(async move {
        if let Err(error) = axum::serve(listener, router).await {
            tracing::error!(event = "http.failed", reason = %error);
        }
    });
    Ok(())
}

async fn healthz(State(health): State<Arc<Health>>) -> Response {
    if health.is_healthy() {
        (StatusCode::OK, "ok\n").into_response()
    } else {
        let text = "leads a role whose lease can't be renewed\n";
        (StatusCode::INTERNAL_SERVER_ERROR, text).into_response()
    }
}

async fn readyz(State(health): State<Arc<Health>>) -> Response {
    match health.readiness() {
        Ok(text) => (StatusCode::OK, format!("{text}\n")).into_response(),
        Err(reason) => (StatusCode::SERVICE_UNAVAILABLE, format!("{reason}\n")).into_response(),
    }
}

async fn metrics(State(health): State<Arc<Health>>) -> Response {
    if let Stage::Running(watch) = health.stage() {
        let left = watch.snapshot().trust_remaining.unwrap_or_default();
        metrics::gauge!("tenure_trust_remaining_seconds").set(left.as_secs_f64());
    }
    ([(header::CONTENT_TYPE, "text/plain; version=0.0.4")], health.metrics.render()).into_response()
}

async fn status(State(health): State<Arc<Health>>) -> Json<Value> {
    Json(health.status())
}

async fn page(State(health): State<Arc<Health>>) -> Html<String> {
    let mut page = "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><title>Tenure</title>\
                    <h1>Tenure</h1><pre>"
        .to_owned();
    let text = serde_json::to_string_pretty(&health.status()).unwrap_or_default();
    for c in text.chars() {
        match c {
            '<' => page.push_str("&lt;"),
            '>' => page.push_str("&gt;"),
            '&' => page.push_str("&amp;"),
            c => page.push(c),
        }
    }
    let _infallible = write!(page, "</pre></html>");
    Html(page)
}
