//! Trouble with the database: what is tried again, and when the term is given up.

use std::time::Duration;
use tenure::FenceError;
use tenure_jobs::JobsError;
use thiserror::Error;

/// Why a step of the poller's failed.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum PollerError {
    /// A fenced transaction failed. [`PollerError::is_fenced`] tells whether the term is over.
    #[error(transparent)]
    Fence(#[from] FenceError),
    /// The job store failed.
    #[error(transparent)]
    Jobs(#[from] JobsError),
    /// The database failed again and again; another instance may have a better way to it.
    #[error("the poller gives up its term after {failures} failures in a row")]
    GivenUp {
        /// How many.
        failures: u32,
        /// The last one.
        #[source]
        last: Box<PollerError>,
    },
}

impl PollerError {
    /// Whether another term has begun, or this one has ended: the worker has to stop at once.
    pub fn is_fenced(&self) -> bool {
        matches!(self, PollerError::Fence(error) if error.is_fenced())
    }

    /// Whether a commit was sent and its answer was lost: it may have happened.
    pub(crate) fn is_unknown(&self) -> bool {
        matches!(self, PollerError::Fence(FenceError::CommitUnknown { .. }))
    }
}

/// After this many failures in a row, about a minute, the term is given up.
const GIVE_UP_AFTER: u32 = 10;
const FIRST_WAIT: Duration = Duration::from_millis(250);
const LONGEST_WAIT: Duration = Duration::from_secs(10);

/// Failures in a row.
#[derive(Debug, Default)]
pub(crate) struct Trouble(u32);

impl Trouble {
    /// Something worked.
    pub(crate) fn over(&mut self) {
        self.0 = 0;
    }

    /// Whether the last step failed.
    pub(crate) fn is_any(&self) -> bool {
        self.0 > 0
    }

    /// Something failed: how long to wait before the next try, or the end of the term.
    ///
    /// # Errors
    ///
    /// The error itself when the term is over, [`PollerError::GivenUp`] after too many.
    pub(crate) fn after(&mut self, error: PollerError) -> Result<(Duration, PollerError), PollerError> {
        if error.is_fenced() {
            return Err(error);
        }
        self.0 += 1;
        if self.0 >= GIVE_UP_AFTER {
            return Err(PollerError::GivenUp { failures: self.0, last: Box::new(error) });
        }
        Ok((wait(self.0), error))
    }
}

/// The wait after failure number `failures` in a row.
pub(crate) fn wait(failures: u32) -> Duration {
    let factor = 1_u32.checked_shl(failures.saturating_sub(1)).unwrap_or(u32::MAX);
    FIRST_WAIT.saturating_mul(factor).min(LONGEST_WAIT)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failure() -> PollerError {
        JobsError::TimedOut { step: "x", limit: Duration::ZERO }.into()
    }

    #[test]
    fn trouble_is_waited_out_and_given_up_only_after_many_failures_in_a_row() {
        let mut trouble = Trouble::default();
        for _ in 1..GIVE_UP_AFTER {
            trouble.after(failure()).unwrap();
        }
        trouble.over();
        for _ in 1..GIVE_UP_AFTER {
            trouble.after(failure()).unwrap();
        }
        assert!(matches!(trouble.after(failure()), Err(PollerError::GivenUp { .. })));
    }

    #[test]
    fn a_fenced_write_ends_the_term_at_once() {
        let fenced = FenceError::Fenced { role: crate::ROLE, epoch: tenure::Epoch(1) };
        assert!(Trouble::default().after(fenced.into()).unwrap_err().is_fenced());
    }

    #[test]
    fn waits_grow_to_the_longest() {
        assert_eq!(wait(1), FIRST_WAIT);
        assert_eq!(wait(2), FIRST_WAIT * 2);
        assert_eq!(wait(u32::MAX), LONGEST_WAIT);
    }
}
