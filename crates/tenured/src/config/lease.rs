//! The section `[lease]`.

use serde::{Deserialize, Serialize};
use std::time::Duration;
use tenure::{FrontDoor, Timing, TimingConfig, TimingError};

/// The intervals and bounds of the lease. [`TimingConfig`] says what each is for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct LeaseConfig {
    #[serde(with = "humantime_serde")]
    pub(crate) retry_interval: Duration,
    #[serde(with = "humantime_serde")]
    pub(crate) heartbeat_interval: Duration,
    #[serde(with = "humantime_serde")]
    pub(crate) ttl: Duration,
    #[serde(with = "humantime_serde")]
    pub(crate) safety_margin: Duration,
    #[serde(with = "humantime_serde")]
    pub(crate) statement_timeout: Duration,
    #[serde(with = "humantime_serde")]
    pub(crate) drain_timeout: Duration,
    /// What the operator declares to answer on the lease address.
    pub(crate) front_door: FrontDoor,
}

impl Default for LeaseConfig {
    fn default() -> Self {
        let TimingConfig {
            retry_interval,
            heartbeat_interval,
            ttl,
            safety_margin,
            statement_timeout,
            drain_timeout,
        } = TimingConfig::default();
        Self {
            retry_interval,
            heartbeat_interval,
            ttl,
            safety_margin,
            statement_timeout,
            drain_timeout,
            front_door: FrontDoor::default(),
        }
    }
}

impl LeaseConfig {
    /// The intervals, if they are in a safe order.
    pub(crate) fn timing(&self) -> Result<Timing, Vec<TimingError>> {
        Timing::new(TimingConfig {
            retry_interval: self.retry_interval,
            heartbeat_interval: self.heartbeat_interval,
            ttl: self.ttl,
            safety_margin: self.safety_margin,
            statement_timeout: self.statement_timeout,
            drain_timeout: self.drain_timeout,
        })
    }
}
