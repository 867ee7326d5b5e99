//! How long to wait after failures.

use std::time::Duration;

/// The first wait after a worker failed.
const FIRST: Duration = Duration::from_secs(1);
/// The longest wait.
const MOST: Duration = Duration::from_secs(60);
/// A term that lasted this long wasn't a failed start: counting begins anew.
pub(crate) const FORGIVEN_AFTER: Duration = Duration::from_secs(60);

/// How long a role rests after `failures` failed terms in a row: 1 s, doubled each time, at most a minute.
pub(crate) fn rest(failures: u32) -> Duration {
    FIRST.saturating_mul(2u32.saturating_pow(failures.saturating_sub(1))).min(MOST)
}

/// `interval`, shortened by up to a tenth so that instances drift apart. `random` is in 0..1.
pub(crate) fn jittered(interval: Duration, random: f64) -> Duration {
    interval.mul_f64(1.0 - 0.1 * random.clamp(0.0, 1.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rests_double_up_to_a_minute() {
        assert_eq!(rest(1), Duration::from_secs(1));
        assert_eq!(rest(2), Duration::from_secs(2));
        assert_eq!(rest(7), MOST);
        assert_eq!(rest(u32::MAX), MOST);
    }

    #[test]
    fn jitter_only_shortens() {
        let interval = Duration::from_millis(500);
        assert_eq!(jittered(interval, 0.0), interval);
        assert_eq!(jittered(interval, 1.0), Duration::from_millis(450));
    }
}
