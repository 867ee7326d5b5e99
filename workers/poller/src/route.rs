//! What runs the jobs of a kind.

use crate::{
    config::{ConfigError, PollerConfig, RouteConfig},
    handler::Handler,
    http_route::{self, HttpRoute},
    sql_route::SqlRoute,
};
use std::{collections::BTreeMap, sync::Arc, time::Duration};

/// Why an attempt failed, and whether the job is tried again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// What happened, for people. It is stored with the job and logged: put no secrets in it.
    pub reason: String,
    /// Whether another attempt could help.
    pub again: Again,
}

/// Whether a failed job is tried again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Again {
    /// After the usual backoff.
    Backoff,
    /// After the usual backoff, but not before this time is over.
    NotBefore(Duration),
    /// No: it is discarded.
    Never,
}

impl Failure {
    /// A failure after which the job is tried again.
    pub fn retry(reason: impl Into<String>) -> Self {
        Self { reason: reason.into(), again: Again::Backoff }
    }

    /// A failure that no other attempt can mend: the job is discarded.
    pub fn discard(reason: impl Into<String>) -> Self {
        Self { reason: reason.into(), again: Again::Never }
    }
}

/// A route that can run jobs.
pub(crate) enum Route {
    Sql(SqlRoute),
    Http(HttpRoute),
    Handler(Arc<dyn Handler>),
}

/// The routes of a configuration, by kind.
pub(crate) fn build(config: &PollerConfig) -> Result<BTreeMap<String, Route>, ConfigError> {
    let client = http_route::client().map_err(ConfigError::HttpClient)?;
    let longest = config.attempt_timeout;
    let routes = config.routes.iter().map(|(kind, route)| {
        let route = match route {
            RouteConfig::Sql { statement, timeout } => {
                Route::Sql(SqlRoute { statement: statement.clone(), timeout: longest.min(*timeout) })
            }
            RouteConfig::Http { url, timeout } => Route::Http(HttpRoute {
                client: client.clone(),
                url: url.clone(),
                timeout: longest.min(*timeout),
                retry_after_max: config.retry_after_max,
            }),
        };
        (kind.clone(), route)
    });
    Ok(routes.collect())
}
