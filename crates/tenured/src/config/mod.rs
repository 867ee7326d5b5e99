//! Configuration: defaults, then TOML files, then the environment, each value with its source.

mod database;
mod http;
mod known;
mod layer;
mod lease;
mod load;
mod log;
mod secret;

pub(crate) use database::DatabaseConfig;
pub(crate) use http::{HttpConfig, Listen};
pub(crate) use lease::LeaseConfig;
pub(crate) use load::{ConfigErrors, Loaded, load};
pub(crate) use log::{LogConfig, LogFormat};
pub(crate) use secret::SecretUrl;

use crate::registry::{PollerSection, ReconcilerSection, SchedulerSection};
use serde::{Deserialize, Serialize};
use tenure::{LeaseAddress, Timing};

/// Everything that can be configured.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Settings {
    pub(crate) database: DatabaseConfig,
    pub(crate) lease: LeaseConfig,
    pub(crate) http: HttpConfig,
    pub(crate) log: LogConfig,
    pub(crate) poller: PollerSection,
    pub(crate) scheduler: SchedulerSection,
    pub(crate) reconciler: ReconcilerSection,
}

/// The settings that need a database, checked.
#[derive(Debug, Clone)]
pub(crate) struct Databases {
    /// Where the work's data is.
    pub(crate) work: SecretUrl,
    /// The same address as the leases', for one-shot commands.
    pub(crate) lease_url: SecretUrl,
    /// Where the leases are.
    pub(crate) lease: LeaseAddress,
    /// The lease's intervals.
    pub(crate) timing: Timing,
}

impl Settings {
    /// The databases, for a command that needs them.
    pub(crate) fn databases(&self) -> Result<Databases, ConfigErrors> {
        let Some(work) = self.database.url.clone() else {
            return Err(ConfigErrors(vec![
                "database.url is not set: set it in a file given with --config, or in the environment as \
                 DATABASE_URL"
                    .to_owned(),
            ]));
        };
        let mut errors = Vec::new();
        let lease_url = self.database.lease_url.clone().unwrap_or_else(|| work.clone());
        let lease = LeaseAddress::parse(lease_url.expose(), self.lease.front_door)
            .map_err(|error| errors.push(format!("database.lease_url: {error}")));
        let timing = self
            .lease
            .timing()
            .map_err(|violated| errors.extend(violated.iter().map(|error| format!("lease: {error}"))));
        match (lease, timing) {
            (Ok(lease), Ok(timing)) if errors.is_empty() => Ok(Databases { work, lease_url, lease, timing }),
            _ => Err(ConfigErrors(errors)),
        }
    }
}
