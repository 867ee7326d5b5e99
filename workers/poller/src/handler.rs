//! Routes that are Rust code.

use crate::route::Failure;
use tenure::{Term, async_trait};
use tenure_jobs::ClaimedJob;

/// Runs the jobs of one kind in this process. Register it with
/// [`Poller::with_handler`](crate::Poller::with_handler).
///
/// It runs at least once for each job: when the process dies before the completion is committed, the job
/// is tried again. Make its effects idempotent with [`ClaimedJob::delivery_key`], or write them in a
/// transaction of [`Term::begin_fenced`] together with a record of that key.
#[async_trait]
pub trait Handler: Send + Sync + 'static {
    /// Does the work of one attempt. The future is dropped when the attempt takes too long, when it was
    /// taken for dead, and when the term ends.
    ///
    /// # Errors
    ///
    /// [`Failure`] says whether the job is tried again. A panic counts as a failure that is.
    async fn handle(&self, job: &ClaimedJob, term: &Term) -> Result<(), Failure>;
}
