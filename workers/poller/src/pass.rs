//! What one pass did.

use crate::{attempt::Outcome, shift::Poll};

/// What one pass did: one poll, and every attempt that came of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PassReport {
    /// Jobs that were claimed.
    pub claimed: usize,
    /// Of these: completed.
    pub completed: usize,
    /// Of these: failed, to be tried again.
    pub failed: usize,
    /// Of these: failed and discarded.
    pub discarded: usize,
    /// Of these: taken for dead before their end could be recorded.
    pub gone: usize,
    /// Of these: with an end that could not be recorded.
    pub unrecorded: usize,
    /// Dead attempts whose jobs went back to the queue.
    pub released: usize,
    /// Dead attempts whose jobs were discarded, because they were the last.
    pub died: usize,
}

impl PassReport {
    pub(crate) fn new(poll: &Poll, outcomes: &[Outcome]) -> Self {
        let count = |wanted| outcomes.iter().filter(|outcome| **outcome == wanted).count();
        Self {
            claimed: outcomes.len(),
            completed: count(Outcome::Completed),
            failed: count(Outcome::Failed),
            discarded: count(Outcome::Discarded),
            gone: count(Outcome::Gone),
            unrecorded: count(Outcome::Unrecorded),
            released: poll.released,
            died: poll.discarded,
        }
    }
}
