//! The hint that a job is due now.
//!
//! `NOTIFY` takes a lock of the whole server from just before its transaction commits until after, so
//! transactions that notify commit one after the other. An insert-heavy service would feel that, and a
//! hint that was given a moment ago says all there is to say. So a process gives at most one hint for
//! each [`INTERVAL`], only for jobs that are due at once, and never puts anything of the job in it: a
//! payload over 8000 bytes would abort the insert. A missed hint costs at most one poll interval, because
//! pollers never rely on it.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};
use tenure::clock::{BootClock, Clock as _, Moment};

/// The channel of the hint. Its payload is always empty.
pub const CHANNEL: &str = "tenure_jobs";

/// At most one hint per process in this time.
const INTERVAL: Duration = Duration::from_millis(100);

static HINTS: Limiter = Limiter(AtomicU64::new(0));

/// Whether a transaction that adds a due job should give the hint.
pub(crate) fn hint_is_due() -> bool {
    HINTS.admit(BootClock.now())
}

/// Milliseconds since boot when a hint was last given; 0 for never.
struct Limiter(AtomicU64);

impl Limiter {
    fn admit(&self, now: Moment) -> bool {
        let now = u64::try_from(now.since_boot().as_millis()).unwrap_or(u64::MAX).max(1);
        let interval = u64::try_from(INTERVAL.as_millis()).unwrap_or(u64::MAX);
        self.0
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |last| {
                (last == 0 || now.saturating_sub(last) >= interval).then_some(now)
            })
            .is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn at_most_one_hint_is_given_per_interval() {
        let limiter = Limiter(AtomicU64::new(0));
        let at = |ms| Moment::from_boot(Duration::from_millis(ms));
        assert!(limiter.admit(at(0)), "the first");
        assert!(!limiter.admit(at(50)));
        assert!(!limiter.admit(at(100)));
        assert!(limiter.admit(at(101)));
        assert!(!limiter.admit(at(150)));
        assert!(limiter.admit(at(10_000)));
    }
}
