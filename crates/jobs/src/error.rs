//! Why an operation on the store failed.

use crate::JobState;
use std::time::Duration;
use thiserror::Error;

/// Why an operation on the job store failed.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum JobsError {
    /// The database refused, or the connection failed.
    #[error("{step} failed")]
    Database {
        /// What was tried.
        step: &'static str,
        /// Why it failed.
        #[source]
        source: sqlx::Error,
    },
    /// The database didn't answer in time. The connection still waits for that answer: close it.
    #[error("{step} took longer than {limit:?}")]
    TimedOut {
        /// What was tried.
        step: &'static str,
        /// The limit.
        limit: Duration,
    },
    /// The attempt isn't the one under way any more: it was returned to the queue, ended, or followed
    /// by another attempt. Nothing was changed.
    #[error("attempt {attempt} of job {job} is not under way: the job is {state}, attempt {current}")]
    AttemptGone {
        /// The job.
        job: i64,
        /// The attempt that was to be ended.
        attempt: i32,
        /// The job's state now.
        state: JobState,
        /// The job's newest attempt.
        current: i32,
    },
    /// There is no such job.
    #[error("there is no job {job}")]
    NotFound {
        /// The job.
        job: i64,
    },
    /// The job's state doesn't allow this. Nothing was changed.
    #[error("job {job} is {state}: {step} is not possible")]
    WrongState {
        /// What was tried.
        step: &'static str,
        /// The job.
        job: i64,
        /// The job's state.
        state: JobState,
    },
    /// Another unfinished job has the same unique key. Nothing was changed.
    #[error("job {job} has the unique key of another unfinished job")]
    UniqueKeyTaken {
        /// The job.
        job: i64,
    },
}
