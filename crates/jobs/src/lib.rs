//! The job store that Tenure's three workers share.
//!
//! A job is a row in `tenure.job`. It waits as *available* until it is due by the database's clock, is
//! *running* while an attempt is under way, and ends as *completed*, *discarded* (the dead letters) or
//! *cancelled*. [`enqueue`] adds one inside any transaction, so that a job exists exactly if the change
//! that it belongs to was committed.
//!
//! What the store promises, and where:
//!
//! * An attempt is counted when it is claimed, so a job that kills its process runs out of attempts
//!   ([`claim`]).
//! * Only kinds that the caller has routes for are claimed; other kinds wait, and never stand in front
//!   of those ([`claim`]).
//! * An attempt number is never used twice, and an end is recorded only for the attempt that is under
//!   way ([`complete`], [`fail`]).
//! * An attempt lives as long as somebody moves its deadline forward ([`extend`]); a dead one goes back
//!   to the queue, or to the dead letters when it was the last ([`release_dead`]).
//! * Jobs of one ordering key run one at a time, by id; a unique index holds that against everything.
//!
//! Every function takes a connection and leaves transactions to its caller. Statements with parameters
//! need an explicit transaction around them when the connection goes through a transaction pooler; see
//! [`work_pool`].

mod backlog;
mod claim;
mod due;
mod enqueue;
mod error;
mod extend;
mod finish;
mod limit;
mod list;
mod new_job;
mod operate;
mod patience;
mod pool;
mod release;
pub mod schedule;
mod state;
mod storable;
pub mod sweep;
mod wakeup;

pub use backlog::{Backlog, QueueBacklog, count_backlog};
pub use claim::{Claim, ClaimedJob, claim};
pub use due::{Due, DueProbe};
pub use enqueue::{EnqueueError, Enqueued, enqueue};
pub use error::JobsError;
pub use extend::{AttemptId, extend};
pub use finish::{AfterFailure, complete, fail, hold_attempt};
pub use limit::{STATEMENT_LIMIT, limit_transaction};
pub use list::{JobFilter, JobSummary, list_jobs, read_job};
pub use new_job::{InvalidJob, MAX_PAYLOAD_BYTES, NewJob};
pub use operate::{cancel_job, retry_job};
pub use patience::Patience;
pub use pool::{query, work_connect_options, work_pool};
pub use release::{ReleasedJob, release_dead};
pub use state::{JobState, UnknownState};
pub use storable::storable;
pub use wakeup::CHANNEL;

use tenure::schema::Migration;

/// The job store's migrations, to be applied after [`tenure::schema::MIGRATIONS`].
pub const MIGRATIONS: &[Migration] = &[
    Migration {
        component: "jobs",
        version: 1,
        name: "job and job_attempt",
        sql: include_str!("../migrations/0001_jobs.sql"),
    },
    Migration {
        component: "jobs",
        version: 2,
        name: "schedule and tick",
        sql: include_str!("../migrations/0002_schedule.sql"),
    },
    Migration {
        component: "jobs",
        version: 3,
        name: "sweep_run",
        sql: include_str!("../migrations/0003_sweep.sql"),
    },
];
