//! The section `[poller]` of the configuration.

use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, fmt, time::Duration};
use thiserror::Error;

/// The section `[poller]`. Every key has a default; there are no routes unless they are declared.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PollerConfig {
    /// How often an idle poller asks for due jobs; from 100ms. After work it asks again at once.
    #[serde(with = "humantime_serde")]
    pub poll_interval: Duration,
    /// How many jobs are claimed at most in one transaction.
    pub batch_size: u32,
    /// How many attempts run at the same time. Each needs a connection of the work pool now and then, and
    /// the poller needs two more: keep it below `database.max_connections`.
    pub max_concurrency: u32,
    /// How long one attempt may take, whatever its route allows.
    #[serde(with = "humantime_serde")]
    pub attempt_timeout: Duration,
    /// How soon an attempt counts as dead after its process has gone silent; from 1s. A living attempt is
    /// extended three times as often, however long it takes.
    #[serde(with = "humantime_serde")]
    pub attempt_lease: Duration,
    /// The longest wait that a receiver may ask for with `Retry-After`; longer ones are shortened.
    #[serde(with = "humantime_serde")]
    pub retry_after_max: Duration,
    /// How long a job waits after a failed attempt.
    pub backoff: BackoffConfig,
    /// What runs the jobs of each kind. A kind without a route waits.
    pub routes: BTreeMap<String, RouteConfig>,
}

impl Default for PollerConfig {
    fn default() -> Self {
        Self {
            poll_interval: Duration::from_secs(2),
            batch_size: 32,
            max_concurrency: 8,
            attempt_timeout: Duration::from_mins(5),
            attempt_lease: Duration::from_mins(1),
            retry_after_max: Duration::from_hours(1),
            backoff: BackoffConfig::default(),
            routes: BTreeMap::new(),
        }
    }
}

/// The section `[poller.backoff]`: exponential, with jitter.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct BackoffConfig {
    /// The wait after the first failed attempt. It doubles with each one after.
    #[serde(with = "humantime_serde")]
    pub base: Duration,
    /// The longest wait.
    #[serde(with = "humantime_serde")]
    pub max: Duration,
    /// Up to this share of a wait is taken off at random, from 0 to 1, so that jobs that failed together
    /// aren't tried together.
    pub jitter: f64,
}

impl Default for BackoffConfig {
    fn default() -> Self {
        Self { base: Duration::from_secs(2), max: Duration::from_hours(1), jitter: 0.25 }
    }
}

/// A section `[poller.routes.KIND]`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
#[non_exhaustive]
pub enum RouteConfig {
    /// One SQL statement, in the same fenced transaction as the job's completion: its effect is there
    /// exactly once, with the job completed, or not at all.
    Sql {
        /// The statement. `$1` is the payload (`jsonb`), `$2` the job's id (`bigint`).
        statement: String,
        /// How long it may take. A new leader may have to wait for a statement that is under way.
        #[serde(with = "humantime_serde", default = "default_sql_timeout")]
        timeout: Duration,
    },
    /// A POST of the payload to a URL: at least once, with an idempotency key.
    Http {
        /// Where to. What is secret in it, user information and query, is never logged.
        url: HttpUrl,
        /// How long the receiver may take to answer.
        #[serde(with = "humantime_serde", default = "default_http_timeout")]
        timeout: Duration,
    },
}

const fn default_sql_timeout() -> Duration {
    Duration::from_secs(30)
}

const fn default_http_timeout() -> Duration {
    Duration::from_secs(30)
}

/// An `http` or `https` URL that shows no secrets: `Display`, `Debug` and `Serialize` leave out user
/// information, query and fragment.
#[derive(Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct HttpUrl(reqwest::Url);

impl HttpUrl {
    /// The URL with everything in it, for sending.
    pub(crate) fn full(&self) -> reqwest::Url {
        self.0.clone()
    }
}

impl TryFrom<String> for HttpUrl {
    type Error = BadUrl;

    fn try_from(text: String) -> Result<Self, BadUrl> {
        // The text itself stays out of the error: it may hold a password.
        let url = reqwest::Url::parse(&text).map_err(|error| BadUrl::Syntax(error.to_string()))?;
        if matches!(url.scheme(), "http" | "https") {
            Ok(Self(url))
        } else {
            Err(BadUrl::Scheme(url.scheme().to_owned()))
        }
    }
}

/// Why a text is no URL to send webhooks to.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum BadUrl {
    /// It can't be parsed.
    #[error("not a URL: {0}")]
    Syntax(String),
    /// It isn't HTTP.
    #[error("a route's URL begins with http:// or https://, not {0}:")]
    Scheme(String),
}

impl fmt::Display for HttpUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}", self.0.scheme(), self.0.host_str().unwrap_or_default())?;
        if let Some(port) = self.0.port() {
            write!(f, ":{port}")?;
        }
        f.write_str(self.0.path())
    }
}

impl fmt::Debug for HttpUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HttpUrl({self})")
    }
}

impl Serialize for HttpUrl {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// Why a configuration makes no poller. Each names the key.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// A duration is too short.
    #[error("poller.{key} is {value:?}; it must be at least {least:?}")]
    TooShort {
        /// The key.
        key: &'static str,
        /// Its value.
        value: Duration,
        /// The least.
        least: Duration,
    },
    /// A number is 0.
    #[error("poller.{key} is 0; it must be at least 1")]
    Zero {
        /// The key.
        key: &'static str,
    },
    /// `jitter` is no share.
    #[error("poller.backoff.jitter is {0}; it must be from 0 to 1")]
    Jitter(f64),
    /// The longest wait is shorter than the first.
    #[error("poller.backoff.max ({max:?}) is shorter than poller.backoff.base ({base:?})")]
    BackoffOrder {
        /// The first wait.
        base: Duration,
        /// The longest wait.
        max: Duration,
    },
    /// A route's statement would end the transaction that makes its effect exactly-once.
    #[error(
        "poller.routes.{kind}.statement begins with `{word}`, but it runs inside a transaction of the poller's"
    )]
    TransactionControl {
        /// The route.
        kind: String,
        /// The statement's first word.
        word: String,
    },
    /// A route has no kind, or no statement.
    #[error("poller.routes.{kind}: {what} is empty")]
    Empty {
        /// The route.
        kind: String,
        /// What is empty.
        what: &'static str,
    },
    /// The HTTP client can't be made.
    #[error("making the HTTP client of the poller's routes")]
    HttpClient(#[source] reqwest::Error),
}

/// Words that begin statements which end a transaction, or outlive it on a pooled connection.
const TRANSACTION_CONTROL: &[&str] = &[
    "abort",
    "begin",
    "commit",
    "end",
    "listen",
    "prepare",
    "release",
    "rollback",
    "savepoint",
    "set",
    "start",
];

impl PollerConfig {
    /// Checks what the types can't.
    ///
    /// # Errors
    ///
    /// The first key that is wrong.
    pub fn validate(&self) -> Result<(), ConfigError> {
        for (key, value, least) in [
            ("poll_interval", self.poll_interval, Duration::from_millis(100)),
            ("attempt_lease", self.attempt_lease, Duration::from_secs(1)),
            ("attempt_timeout", self.attempt_timeout, Duration::from_millis(1)),
        ] {
            if value < least {
                return Err(ConfigError::TooShort { key, value, least });
            }
        }
        for (key, value) in [("batch_size", self.batch_size), ("max_concurrency", self.max_concurrency)] {
            if value == 0 {
                return Err(ConfigError::Zero { key });
            }
        }
        let BackoffConfig { base, max, jitter } = self.backoff;
        if !(0.0..=1.0).contains(&jitter) {
            return Err(ConfigError::Jitter(jitter));
        }
        if max < base {
            return Err(ConfigError::BackoffOrder { base, max });
        }
        self.routes.iter().try_for_each(|(kind, route)| route.validate(kind))
    }
}

impl RouteConfig {
    fn validate(&self, kind: &str) -> Result<(), ConfigError> {
        let empty = |what| Err(ConfigError::Empty { kind: kind.to_owned(), what });
        if kind.is_empty() {
            return empty("the kind");
        }
        let RouteConfig::Sql { statement, .. } = self else { return Ok(()) };
        let word: String = statement
            .trim_start()
            .chars()
            .take_while(char::is_ascii_alphabetic)
            .map(|c| c.to_ascii_lowercase())
            .collect();
        if statement.trim().is_empty() {
            return empty("the statement");
        }
        if TRANSACTION_CONTROL.contains(&word.as_str()) {
            return Err(ConfigError::TransactionControl { kind: kind.to_owned(), word });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn parse(value: serde_json::Value) -> Result<PollerConfig, serde_json::Error> {
        serde_json::from_value(value)
    }

    #[test]
    fn the_defaults_are_valid_and_an_empty_section_means_them() {
        let config = parse(json!({})).unwrap();
        assert_eq!(config, PollerConfig::default());
        config.validate().unwrap();
    }

    #[test]
    fn a_default_survives_being_written_and_read() {
        let written = serde_json::to_value(PollerConfig::default()).unwrap();
        assert_eq!(parse(written).unwrap(), PollerConfig::default());
    }

    #[test]
    fn an_unknown_key_is_refused_in_every_section() {
        for bad in [
            json!({"poll_intervall": "2s"}),
            json!({"backoff": {"bas": "2s"}}),
            json!({"routes": {"a": {"type": "sql", "statement": "select 1", "retries": 1}}}),
            json!({"routes": {"a": {"type": "http", "url": "http://h/", "statement": "select 1"}}}),
        ] {
            assert!(parse(bad.clone()).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_url_shows_no_secrets_and_neither_do_errors_about_it() {
        let url = HttpUrl::try_from("https://me:pass@host.example:8443/hook?token=t#f".to_owned()).unwrap();
        for shown in [url.to_string(), format!("{url:?}"), serde_json::to_string(&url).unwrap()] {
            assert!(shown.contains("https://host.example:8443/hook"), "{shown}");
            assert!(!shown.contains("pass") && !shown.contains("token") && !shown.contains("me:"), "{shown}");
        }
        let refused = HttpUrl::try_from("ftp://me:pass@host".to_owned()).unwrap_err().to_string();
        assert!(!refused.contains("pass"), "{refused}");
        let refused = HttpUrl::try_from("http://me:pass@host:port".to_owned()).unwrap_err().to_string();
        assert!(!refused.contains("pass"), "{refused}");
    }

    #[test]
    fn a_statement_that_would_end_its_transaction_is_refused() {
        for statement in ["commit", " COMMIT; ", "Rollback", "begin", "set role x"] {
            let config = parse(json!({"routes": {"a": {"type": "sql", "statement": statement}}})).unwrap();
            assert!(matches!(config.validate(), Err(ConfigError::TransactionControl { .. })), "{statement}");
        }
        let fine = json!({"routes": {"a": {"type": "sql", "statement": "select committed($1)"}}});
        parse(fine).unwrap().validate().unwrap();
    }

    #[test]
    fn values_that_make_no_sense_are_refused_by_name() {
        for (bad, key) in [
            (json!({"poll_interval": "1ms"}), "poll_interval"),
            (json!({"batch_size": 0}), "batch_size"),
            (json!({"backoff": {"jitter": 1.5}}), "jitter"),
            (json!({"backoff": {"base": "2h"}}), "backoff.max"),
        ] {
            let refused = parse(bad).unwrap().validate().unwrap_err().to_string();
            assert!(refused.contains(key), "{refused}");
        }
    }
}
