//! How long a job waits after a failed attempt.

use crate::config::BackoffConfig;
use std::time::Duration;

/// The wait after failed attempt number `attempt` (from 1): `base` doubled for each attempt before, at
/// most `max`, shortened by the share `jitter * roll`. `roll` is random, from 0 up to 1.
pub(crate) fn wait(config: &BackoffConfig, attempt: i32, roll: f64) -> Duration {
    let doublings = u32::try_from(attempt.saturating_sub(1)).unwrap_or(0);
    let factor = 1_u32.checked_shl(doublings).unwrap_or(u32::MAX);
    let full = config.base.saturating_mul(factor).min(config.max);
    full.mul_f64(1.0 - config.jitter * roll)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const CONFIG: BackoffConfig =
        BackoffConfig { base: Duration::from_secs(2), max: Duration::from_secs(60), jitter: 0.25 };

    #[test]
    fn waits_double_up_to_the_longest() {
        let waits: Vec<_> = (1..=8).map(|attempt| wait(&CONFIG, attempt, 0.0).as_secs()).collect();
        assert_eq!(waits, [2, 4, 8, 16, 32, 60, 60, 60]);
    }

    proptest! {
        #[test]
        fn no_wait_leaves_its_bounds(attempt in any::<i32>(), roll in 0.0..1.0) {
            let wait = wait(&CONFIG, attempt, roll);
            prop_assert!(wait <= CONFIG.max);
            prop_assert!(wait >= CONFIG.base.mul_f64(1.0 - CONFIG.jitter));
        }

        #[test]
        fn a_later_attempt_never_waits_less(attempt in 1..100_i32, roll in 0.0..1.0) {
            prop_assert!(wait(&CONFIG, attempt + 1, roll) >= wait(&CONFIG, attempt, roll));
        }
    }
}
