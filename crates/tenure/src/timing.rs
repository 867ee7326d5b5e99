//! The intervals and bounds of the lease, in the only order that is safe.
//!
//! ```text
//! last successful heartbeat sent
//! │  heartbeat_interval   statement_timeout
//! ├──────────────┬───────────────┐
//! │              next heartbeat  must have failed by here
//! ├────────────────────────────────────┐ trust: the leader stops acting by itself
//! ├──────────────────────────────────────────┐ hard stop: the watchdog has ended the process
//! ├───────────────────────────────────────────────┐ ttl: the server ends the session
//! ```

use std::time::Duration;
use thiserror::Error;

/// Intervals as an operator writes them, not yet checked.
///
/// The defaults are those of the configuration reference.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimingConfig {
    /// How long a stand-by waits between two tries.
    pub retry_interval: Duration,
    /// How long a leader waits between two proofs.
    pub heartbeat_interval: Duration,
    /// After this long without a statement, the server ends the lease session.
    pub ttl: Duration,
    /// Trust ends this long before `ttl`.
    pub safety_margin: Duration,
    /// Limit for every statement on the lease session, kept by the client and by the server.
    pub statement_timeout: Duration,
    /// How long a planned stop waits for the work to end by itself.
    pub drain_timeout: Duration,
}

impl Default for TimingConfig {
    fn default() -> Self {
        Self {
            retry_interval: Duration::from_millis(500),
            heartbeat_interval: Duration::from_secs(5),
            ttl: Duration::from_secs(15),
            safety_margin: Duration::from_secs(3),
            statement_timeout: Duration::from_secs(3),
            drain_timeout: Duration::from_secs(30),
        }
    }
}

/// Intervals in a safe order. There is no way to hold a bad one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Timing(TimingConfig);

/// An inequality that the configured intervals violate.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum TimingError {
    /// An interval is below the millisecond that `PostgreSQL`'s settings count in.
    #[error("{name} is {value:?}, but has to be at least {least:?}")]
    TooShort {
        /// The configuration key.
        name: &'static str,
        /// What was given.
        value: Duration,
        /// The least that is taken.
        least: Duration,
    },
    /// An interval is longer than the days that `PostgreSQL`'s settings can hold.
    #[error("{name} is {value:?}, but can be at most {most:?}")]
    TooLong {
        /// The configuration key.
        name: &'static str,
        /// What was given.
        value: Duration,
        /// The most that is taken.
        most: Duration,
    },
    /// A leader would lose trust before a failing heartbeat is noticed.
    #[error(
        "heartbeat_interval ({heartbeat:?}) plus statement_timeout ({statement:?}) has to be less than \
         ttl minus safety_margin ({trust:?}): raise ttl, or lower one of the others"
    )]
    HeartbeatBeyondTrust {
        /// The heartbeat interval.
        heartbeat: Duration,
        /// The statement timeout.
        statement: Duration,
        /// The trust that results.
        trust: Duration,
    },
    /// No time is left between the end of trust and the server's bound.
    #[error("safety_margin ({margin:?}) has to be less than ttl ({ttl:?})")]
    MarginBeyondTtl {
        /// The safety margin.
        margin: Duration,
        /// The bound.
        ttl: Duration,
    },
}

impl Timing {
    const LEAST: Duration = Duration::from_millis(10);
    const MOST: Duration = Duration::from_hours(576);

    /// Checks the order of the intervals. One error for each violated inequality.
    ///
    /// ```
    /// use tenure::{Timing, TimingConfig};
    /// let bad = TimingConfig { ttl: std::time::Duration::from_secs(6), ..TimingConfig::default() };
    /// assert_eq!(Timing::new(bad).unwrap_err().len(), 1);
    /// ```
    pub fn new(config: TimingConfig) -> Result<Self, Vec<TimingError>> {
        let mut errors = Vec::new();
        for (name, value) in [
            ("retry_interval", config.retry_interval),
            ("heartbeat_interval", config.heartbeat_interval),
            ("ttl", config.ttl),
            ("safety_margin", config.safety_margin),
            ("statement_timeout", config.statement_timeout),
        ] {
            if value < Self::LEAST {
                errors.push(TimingError::TooShort { name, value, least: Self::LEAST });
            }
        }
        for (name, value) in [
            ("retry_interval", config.retry_interval),
            ("heartbeat_interval", config.heartbeat_interval),
            ("ttl", config.ttl),
            ("statement_timeout", config.statement_timeout),
            ("drain_timeout", config.drain_timeout),
        ] {
            if value > Self::MOST {
                errors.push(TimingError::TooLong { name, value, most: Self::MOST });
            }
        }
        let trust = config.ttl.saturating_sub(config.safety_margin);
        if trust.is_zero() {
            errors.push(TimingError::MarginBeyondTtl { margin: config.safety_margin, ttl: config.ttl });
        } else if config.heartbeat_interval.saturating_add(config.statement_timeout) >= trust {
            errors.push(TimingError::HeartbeatBeyondTrust {
                heartbeat: config.heartbeat_interval,
                statement: config.statement_timeout,
                trust,
            });
        }
        if errors.is_empty() { Ok(Self(config)) } else { Err(errors) }
    }

    /// How long a stand-by waits between two tries, before jitter. Jitter only shortens it.
    pub fn retry_interval(&self) -> Duration {
        self.0.retry_interval
    }

    /// How long a leader waits between two proofs.
    pub fn heartbeat_interval(&self) -> Duration {
        self.0.heartbeat_interval
    }

    /// After this long without a statement, the server ends the lease session.
    pub fn ttl(&self) -> Duration {
        self.0.ttl
    }

    /// Limit for every statement on the lease session.
    pub fn statement_timeout(&self) -> Duration {
        self.0.statement_timeout
    }

    /// How long a planned stop waits for the work to end by itself.
    pub fn drain_timeout(&self) -> Duration {
        self.0.drain_timeout
    }

    /// How long after a successful heartbeat was *sent* a leader may act: `ttl` minus the margin.
    pub fn trust(&self) -> Duration {
        self.0.ttl.checked_sub(self.0.safety_margin).unwrap()
    }

    /// How long after a successful heartbeat was sent the watchdog ends a process whose work is still
    /// running: [`trust`](Self::trust) plus [`stop_grace`](Self::stop_grace).
    pub fn hard_stop(&self) -> Duration {
        self.trust() + self.stop_grace()
    }

    /// How long a fenced transaction may stay idle before the server ends it.
    ///
    /// Short enough that a frozen ex-leader's row lock is gone before its lease is: its last heartbeat
    /// was at most an interval and a statement earlier than the freeze.
    pub fn fence_idle_limit(&self) -> Duration {
        self.0.ttl.checked_sub(self.0.heartbeat_interval).unwrap() - self.0.statement_timeout
    }

    /// The short time that work which was told to stop gets before the watchdog ends the process.
    ///
    /// A third of the margin, at most a second: the rest of the margin stays for the exit itself.
    pub fn stop_grace(&self) -> Duration {
        (self.0.safety_margin / 3).min(Duration::from_secs(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const fn ms(n: u64) -> Duration {
        Duration::from_millis(n)
    }

    #[test]
    fn the_defaults_are_in_order() {
        assert_eq!(Timing::new(TimingConfig::default()), Ok(Timing::default()));
    }

    #[test]
    fn each_violated_inequality_is_its_own_error() {
        let config = TimingConfig {
            retry_interval: ms(0),
            heartbeat_interval: ms(5000),
            ttl: ms(6000),
            ..TimingConfig::default()
        };
        let errors = Timing::new(config).unwrap_err();
        assert!(matches!(errors[0], TimingError::TooShort { name: "retry_interval", .. }));
        assert!(matches!(errors[1], TimingError::HeartbeatBeyondTrust { .. }));
        assert_eq!(errors.len(), 2);
        let config = TimingConfig { safety_margin: ms(15_000), ..TimingConfig::default() };
        assert!(matches!(Timing::new(config).unwrap_err()[..], [TimingError::MarginBeyondTtl { .. }]));
    }

    proptest! {
        #[test]
        fn whatever_is_accepted_is_in_order(
            retry in 0u64..4000, heartbeat in 0u64..20_000, ttl in 0u64..40_000,
            margin in 0u64..20_000, statement in 0u64..10_000,
        ) {
            let config = TimingConfig {
                retry_interval: ms(retry), heartbeat_interval: ms(heartbeat), ttl: ms(ttl),
                safety_margin: ms(margin), statement_timeout: ms(statement), drain_timeout: ms(0),
            };
            if let Ok(t) = Timing::new(config) {
                prop_assert!(t.heartbeat_interval() + t.statement_timeout() < t.trust());
                prop_assert!(t.trust() < t.hard_stop());
                prop_assert!(t.hard_stop() < t.ttl());
            }
        }
    }
}
