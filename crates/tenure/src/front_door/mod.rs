//! The front door examination.

mod report;

pub use report::{Examination, Step, StepOutcome, StepReport, Verdict};

use crate::{LeaseAddress, Timing};

/// Examines what answers on the lease address. Changes nothing that lasts.
pub async fn examine(_address: &LeaseAddress, _timing: &Timing) -> Examination {
    unimplemented!()
}
