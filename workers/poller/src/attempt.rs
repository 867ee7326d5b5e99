//! One attempt at one job, from the claim to its recorded end.

use crate::{
    Poller, backoff, fenced,
    route::{Again, Failure, Route},
    telemetry,
    trouble::{self, PollerError},
};
use futures_util::FutureExt as _;
use std::{panic::AssertUnwindSafe, time::Duration};
use tenure::{
    Term,
    clock::{BootClock, Clock as _},
};
use tenure_jobs::{AfterFailure, ClaimedJob, JobState, JobsError, complete, fail};

/// How an attempt ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Outcome {
    /// The job is completed.
    Completed,
    /// It failed, and the job will be tried again.
    Failed,
    /// It failed, and the job is discarded.
    Discarded,
    /// It was taken for dead before its end could be recorded: nothing was recorded.
    Gone,
    /// Its end could not be recorded: it will be taken for dead.
    Unrecorded,
}

/// How often recording an end is tried. Together they fit into the attempt's lease.
const TRIES: u32 = 5;

/// An end to be recorded.
enum End {
    Success,
    Failure(Failure),
}

impl Poller {
    /// Runs one attempt and records its end.
    ///
    /// # Errors
    ///
    /// Only when the term is over.
    pub(crate) async fn attempt(&self, term: &Term, job: &ClaimedJob) -> Result<Outcome, PollerError> {
        let begun = BootClock.now();
        let (outcome, reason) = self.run_route(term, job).await?;
        telemetry::attempt_ended(term, job, outcome, reason.as_deref(), BootClock.now().since(begun));
        Ok(outcome)
    }

    async fn run_route(
        &self,
        term: &Term,
        job: &ClaimedJob,
    ) -> Result<(Outcome, Option<String>), PollerError> {
        let end = match self.routes.get(&job.kind) {
            Some(Route::Sql(route)) => {
                let mut tries = Tries::default();
                loop {
                    match route.run(term, &self.pool, job).await {
                        Ok(Ok(())) => return Ok((Outcome::Completed, None)),
                        Ok(Err(failure)) => break End::Failure(failure),
                        Err(error) => {
                            if let Some(outcome) = tries.next(term, job, error).await? {
                                return Ok((outcome, None));
                            }
                        }
                    }
                }
            }
            Some(Route::Http(route)) => end(self.limited(route.deliver(job, term.epoch())).await),
            Some(Route::Handler(handler)) => {
                let work = AssertUnwindSafe(handler.handle(job, term)).catch_unwind();
                let work =
                    work.map(|result| result.unwrap_or_else(|_| Err(Failure::retry("the handler panicked"))));
                end(self.limited(work).await)
            }
            // Only kinds with routes are claimed.
            None => End::Failure(Failure::retry("there is no route for this kind")),
        };
        self.record(term, job, end).await
    }

    async fn limited(&self, work: impl Future<Output = Result<(), Failure>>) -> Result<(), Failure> {
        let limit = self.config.attempt_timeout;
        match tokio::time::timeout(limit, work).await {
            Ok(result) => result,
            Err(_elapsed) => Err(Failure::retry(format!("the attempt took longer than {limit:?}"))),
        }
    }

    /// Records an end, again if the database fails meanwhile: a webhook that was delivered isn't to be
    /// delivered once more because of a lost connection.
    async fn record(
        &self,
        term: &Term,
        job: &ClaimedJob,
        end: End,
    ) -> Result<(Outcome, Option<String>), PollerError> {
        let mut tries = Tries::default();
        let outcome = loop {
            match self.record_once(term, job, &end).await {
                Ok(outcome) => break outcome,
                Err(error) => {
                    if let Some(outcome) = tries.next(term, job, error).await? {
                        break outcome;
                    }
                }
            }
        };
        let reason = match end {
            End::Success => None,
            End::Failure(failure) => Some(failure.reason),
        };
        Ok((outcome, reason))
    }

    async fn record_once(&self, term: &Term, job: &ClaimedJob, end: &End) -> Result<Outcome, PollerError> {
        let mut tx = fenced::begin(term, &self.pool, fenced::OWN_STATEMENTS).await?;
        let state = match end {
            End::Success => {
                complete(&mut tx, job.id, job.attempt).await?;
                JobState::Completed
            }
            End::Failure(failure) => {
                let then = self.after(job, failure);
                fail(&mut tx, job.id, job.attempt, &failure.reason, then).await?
            }
        };
        tx.commit().await?;
        Ok(outcome_of(state))
    }

    fn after(&self, job: &ClaimedJob, failure: &Failure) -> AfterFailure {
        let usual = backoff::wait(&self.config.backoff, job.attempt, rand::random());
        match failure.again {
            Again::Backoff => AfterFailure::RetryAfter(usual),
            Again::NotBefore(asked) => AfterFailure::RetryAfter(usual.max(asked)),
            Again::Never => AfterFailure::Discard,
        }
    }
}

fn end(result: Result<(), Failure>) -> End {
    match result {
        Ok(()) => End::Success,
        Err(failure) => End::Failure(failure),
    }
}

/// What an attempt's recorded end left the job in.
fn outcome_of(state: JobState) -> Outcome {
    match state {
        JobState::Completed => Outcome::Completed,
        JobState::Discarded => Outcome::Discarded,
        JobState::Available => Outcome::Failed,
        JobState::Running | JobState::Cancelled => Outcome::Gone,
    }
}

/// Tries at one database transaction of an attempt.
#[derive(Default)]
struct Tries {
    failed: u32,
    unknown: bool,
}

impl Tries {
    /// After a failed try: the outcome that makes more of them pointless, or `None` for another one.
    async fn next(
        &mut self,
        term: &Term,
        job: &ClaimedJob,
        error: PollerError,
    ) -> Result<Option<Outcome>, PollerError> {
        if error.is_fenced() {
            return Err(error);
        }
        if let PollerError::Jobs(JobsError::AttemptGone { state, current, .. }) = error {
            // The answer to an earlier commit was lost, but it had happened: that end is ours.
            let ours = self.unknown && current == job.attempt;
            return Ok(Some(if ours { outcome_of(state) } else { Outcome::Gone }));
        }
        if matches!(error, PollerError::Jobs(JobsError::NotFound { .. })) {
            return Ok(Some(Outcome::Gone));
        }
        self.unknown |= error.is_unknown();
        self.failed += 1;
        telemetry::database_trouble(term, "recording the end of an attempt", &error);
        if self.failed >= TRIES {
            return Ok(Some(Outcome::Unrecorded));
        }
        // A planned stop doesn't shorten this: the end has to be recorded first.
        let wait: Duration = trouble::wait(self.failed);
        tokio::time::sleep(wait).await;
        Ok(None)
    }
}
