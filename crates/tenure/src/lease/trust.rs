//! The trust deadline: the moment after which a leader must no longer act.

use crate::clock::Moment;
use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

/// The trust deadline of a lease session, shared by all its terms. It only moves forward.
#[derive(Debug, Default)]
pub(crate) struct Trust(AtomicU64);

impl Trust {
    /// Moves the deadline to `until`, if that is later.
    pub(crate) fn extend(&self, until: Moment) {
        self.0.fetch_max(nanos(until), Ordering::AcqRel);
    }

    /// Whether acting at `now` is still trusted.
    pub(crate) fn holds(&self, now: Moment) -> bool {
        nanos(now) < self.0.load(Ordering::Acquire)
    }

    /// The deadline.
    pub(crate) fn until(&self) -> Moment {
        Moment::from_boot(Duration::from_nanos(self.0.load(Ordering::Acquire)))
    }
}

/// 584 years of boot time fit.
fn nanos(moment: Moment) -> u64 {
    u64::try_from(moment.since_boot().as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(seconds: u64) -> Moment {
        Moment::from_boot(Duration::from_secs(seconds))
    }

    #[test]
    fn trust_ends_at_its_deadline_and_never_moves_back() {
        let trust = Trust::default();
        assert!(!trust.holds(at(0)), "no proof, no trust");
        trust.extend(at(12));
        trust.extend(at(10));
        assert!(trust.holds(Moment::from_boot(Duration::from_millis(11_999))));
        assert!(!trust.holds(at(12)));
        assert_eq!(trust.until(), at(12));
    }
}
