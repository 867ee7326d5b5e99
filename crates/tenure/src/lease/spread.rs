//! Spreading roles over instances: who leads more waits longer before it takes another.
//!
//! Instances don't talk to each other. Each one waits a little for every role that it leads already, so
//! one that leads fewer gets there first; and takes no more at once than it leads already, so that the
//! first of several that start together doesn't take everything.

use std::time::Duration;

/// The wait for each role that is led already. Longer than a round trip, far shorter than a retry.
const STEP: Duration = Duration::from_millis(5);

/// How long an instance that leads `led` roles waits after it saw another one free.
pub(crate) fn wait(led: usize, retry_interval: Duration) -> Duration {
    let led = u32::try_from(led).unwrap_or(u32::MAX);
    STEP.saturating_mul(led).min(retry_interval / 4)
}

/// How many roles an instance that leads `led` takes in one round.
pub(crate) fn share(led: usize) -> usize {
    led.max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    const RETRY: Duration = Duration::from_millis(500);

    #[test]
    fn an_instance_without_a_role_goes_first() {
        assert_eq!(wait(0, RETRY), Duration::ZERO);
        assert!(wait(1, RETRY) > wait(0, RETRY) && wait(2, RETRY) > wait(1, RETRY));
    }

    #[test]
    fn the_wait_stays_well_below_a_retry() {
        assert_eq!(wait(1_000_000, RETRY), RETRY / 4);
    }

    #[test]
    fn ten_thousand_roles_take_few_rounds() {
        let (mut led, mut rounds) = (0, 0);
        while led < 10_000 {
            led += share(led);
            rounds += 1;
        }
        assert!(rounds <= 15, "{rounds}");
    }
}
