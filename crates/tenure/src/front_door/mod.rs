//! The front door examination: positive proof that a lease can be held through an address.
//!
//! The classical probe (read the pid, make a temporary table, read both back) is passed by an idle
//! transaction pooler, which hands out the same backend every time. So each step here proves one thing,
//! and only all of them together are enough. [`Step`] says of each what it proves, what it can miss, whom
//! it refuses wrongly, and what it costs. In order:
//!
//! 1. *Connect.* Something answers and lets us in. A pooler may refuse our startup packet right here, and
//!    says so in its own words.
//! 2. *Canary.* The startup packet carries a random value and the session's bounds; both read back.
//! 3. *Age.* On two connections in a row, the backend isn't older than our attempt to connect.
//! 4. *Exclusion.* Up to three more connections, held in transactions, have backends of their own in the
//!    same database, and are refused a random key that the first one holds. This also catches databases
//!    whose advisory locks are stubs that always say yes.
//! 5. *Stability.* All the while, and afterwards, the first connection keeps its backend, and keeps from
//!    one transaction to the next what a session has: a setting, a temporary table, a lock. Its backend
//!    was handed to it without leftovers of somebody else.
//! 6. *Role.* Primary, writable, and new enough.
//!
//! # Why in this order
//!
//! What an examination puts into a session must not stay behind when the door turns out to be a pool, or
//! when the examination is cut off. Steps 1 to 3 only read. What step 4 does ends with the transactions in
//! which it is done, and poolers end those with their client. Only a door that has passed the first four
//! is a session of our own, and only there is something kept across transactions (step 5): it goes with
//! the session.
//!
//! # No answer
//!
//! A connection that gets no answer while others are in transactions may share their backends, or the
//! server may be slow. The examination lets the others go and waits again: an answer that comes now, and
//! not before, is the proof that they were in its way. No answer even now says nothing about the door, and
//! the verdict is *unreachable*.
//!
//! # A declared session pooler
//!
//! When the operator declares a pooler in session mode, its backends are older than our attempt and never
//! saw our startup packet: steps 2 and 3 are shown and don't decide. The bounds are then `SET` and read
//! back in step 5, which also looks whether the pooler cleans a backend before it hands it on: one that
//! doesn't would hand on our bounds, and the locks of a leader that died.
//!
//! It uses at most five connections. The verdicts on a matrix of real doors, and a page for each product,
//! are in `docs/front-doors`.

mod advice;
mod bounds;
mod company;
mod examination;
mod probe;
mod report;

pub use report::{Examination, Step, StepOutcome, StepReport, Verdict};

pub(crate) use examination::open;

use crate::{LeaseAddress, Timing};
use uuid::Uuid;

/// Examines what answers on the lease address. Changes nothing that lasts.
///
/// Every connection and statement is bounded by the statement timeout. Cancel-safe: a dropped future
/// closes its connections.
pub async fn examine(address: &LeaseAddress, timing: &Timing) -> Examination {
    open(address, timing, Uuid::new_v4(), None).await.0
}

/// Examines without one of the steps, to show what that step is for. Never a reason to trust the door.
#[cfg(feature = "testing")]
pub async fn examine_without(step: Step, address: &LeaseAddress, timing: &Timing) -> Examination {
    open(address, timing, Uuid::new_v4(), Some(step)).await.0
}
