//! How long a worker waits after a failed pass, and when it gives its term up.

use std::time::Duration;

/// Counts passes that failed in a row.
#[derive(Debug, Default)]
pub struct Patience {
    failures: u32,
}

impl Patience {
    /// After so many failures in a row the term ends: another instance may reach the database.
    pub const LIMIT: u32 = 8;
    const LONGEST: Duration = Duration::from_secs(30);

    /// A pass succeeded.
    pub fn renew(&mut self) {
        self.failures = 0;
    }

    /// A pass failed: how long to wait before the next, or `None` to give up.
    pub fn wait(&mut self) -> Option<Duration> {
        self.failures += 1;
        let seconds = 1 << (self.failures - 1).min(16);
        (self.failures < Self::LIMIT).then(|| Duration::from_secs(seconds).min(Self::LONGEST))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_a_limit_and_then_the_term_is_given_up() {
        let mut patience = Patience::default();
        let waits: Vec<_> = std::iter::from_fn(|| patience.wait()).map(|wait| wait.as_secs()).collect();
        assert_eq!(waits, [1, 2, 4, 8, 16, 30, 30]);
    }

    #[test]
    fn a_success_renews_the_patience() {
        let mut patience = Patience::default();
        for _ in 1..Patience::LIMIT {
            assert!(patience.wait().is_some());
        }
        patience.renew();
        assert_eq!(patience.wait(), Some(Duration::from_secs(1)));
    }
}
