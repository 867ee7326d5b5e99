//! The front door examination: positive proof that a lease can be held through an address.
//!
//! The classical probe (read the pid, make a temporary table, read both back) is passed by an idle
//! transaction pooler, which hands out the same backend every time. So each step here proves one thing,
//! and only all of them together are enough; [`Step::proves`] says what. In order:
//!
//! 1. *Connect.* A pooler may refuse our startup packet right here, and says so in its own words.
//! 2. *Canary.* The startup packet carries a random value and the session's bounds; both read back.
//! 3. *Age.* On two connections in a row, the backend isn't older than our attempt to connect.
//! 4. *Stability.* Pid, stamp and a temporary table stay the same over several statements.
//! 5. *Exclusion.* While other connections are held in transactions, they have other backends, don't see
//!    our stamp, and are refused a random key that we hold; and we keep backend and stamp. This also
//!    catches databases whose advisory locks are stubs that always say yes.
//! 6. *Role.* Primary, and new enough.
//!
//! When the operator declares a session pooler, 2 and 3 are only shown: the bounds are then `SET`.
//!
//! It uses at most four connections and leaves nothing behind: the random key is locked only inside an
//! explicit transaction, which a pooler doesn't take apart, and unlocked in it.

mod advice;
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
    open(address, timing, Uuid::new_v4()).await.0
}
