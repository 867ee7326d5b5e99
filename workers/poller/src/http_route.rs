//! Webhooks: the payload is sent to a URL.

use crate::{
    config::HttpUrl,
    retry_after,
    route::{Again, Failure},
};
use reqwest::{Client, Response, header, redirect};
use std::time::Duration;
use tenure::Epoch;
use tenure_jobs::ClaimedJob;

/// Limits how long an unreachable receiver holds one of the poller's slots.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

pub(crate) struct HttpRoute {
    pub(crate) client: Client,
    pub(crate) url: HttpUrl,
    pub(crate) timeout: Duration,
    pub(crate) retry_after_max: Duration,
}

/// The client of all routes.
pub(crate) fn client() -> Result<Client, reqwest::Error> {
    // Somebody else may have chosen a provider already: then that one is used.
    let _already_chosen = rustls::crypto::ring::default_provider().install_default();
    Client::builder()
        .redirect(redirect::Policy::none())
        .connect_timeout(CONNECT_TIMEOUT)
        .user_agent(concat!("tenure/", env!("CARGO_PKG_VERSION")))
        .build()
}

/// What a status means for the job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Meaning {
    Success,
    Retry,
    Discard,
}

/// Only 2xx is success. 410 says that the receiver is gone for good. Everything else may change: a 404
/// during a deploy, a 401 while a secret is rotated, and above all a 429.
fn meaning(status: u16) -> Meaning {
    match status {
        200..=299 => Meaning::Success,
        410 => Meaning::Discard,
        _ => Meaning::Retry,
    }
}

impl HttpRoute {
    /// Sends the payload once.
    pub(crate) async fn deliver(&self, job: &ClaimedJob, epoch: Epoch) -> Result<(), Failure> {
        let request = self
            .client
            .post(self.url.full())
            .timeout(self.timeout)
            .header("webhook-id", job.delivery_key.to_string())
            .header("webhook-timestamp", job.claimed_at.timestamp())
            .header("tenure-epoch", epoch.0)
            .header("tenure-attempt", job.attempt)
            .json(&job.payload);
        match request.send().await {
            Ok(response) => self.judge(job, &response),
            Err(error) => Err(Failure::retry(format!("POST {}: {}", self.url, explain(error)))),
        }
    }

    fn judge(&self, job: &ClaimedJob, response: &Response) -> Result<(), Failure> {
        let status = response.status();
        let reason = format!("POST {}: answered {status}", self.url);
        match meaning(status.as_u16()) {
            Meaning::Success => Ok(()),
            Meaning::Discard => Err(Failure::discard(reason)),
            Meaning::Retry => Err(match self.asked_to_wait(job, response) {
                Some(wait) => Failure { reason, again: Again::NotBefore(wait) },
                None => Failure::retry(reason),
            }),
        }
    }

    /// A date is seen from the receiver's own clock, which its answer tells, so that no other clock has
    /// to agree with it. Without that it is seen from the attempt's begin.
    fn asked_to_wait(&self, job: &ClaimedJob, response: &Response) -> Option<Duration> {
        let text = |name| response.headers().get(name).and_then(|value| value.to_str().ok());
        let now = text(header::DATE).and_then(retry_after::parse_date).unwrap_or(job.claimed_at);
        retry_after::parse(text(header::RETRY_AFTER)?, now, self.retry_after_max)
    }
}

/// The error and its causes, without the URL that reqwest puts into it.
fn explain(error: reqwest::Error) -> String {
    let error = error.without_url();
    let mut text = error.to_string();
    let mut source = std::error::Error::source(&error);
    while let Some(cause) = source {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_2xx_is_success_and_only_410_is_final() {
        for status in [200, 201, 202, 204, 299] {
            assert_eq!(meaning(status), Meaning::Success, "{status}");
        }
        for status in [199, 300, 301, 304, 307, 308, 400, 401, 403, 404, 409, 422, 429, 500, 502, 503, 504] {
            assert_eq!(meaning(status), Meaning::Retry, "{status}");
        }
        assert_eq!(meaning(410), Meaning::Discard);
    }

    #[test]
    fn a_client_is_made_whether_or_not_a_provider_was_chosen() {
        client().unwrap();
        client().unwrap();
    }
}
