//! The section `[database]`.

use super::SecretUrl;
use serde::{Deserialize, Serialize};

/// Where the work's data and the leases are.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct DatabaseConfig {
    /// Where the work's data is; may go through a transaction pooler.
    pub(crate) url: Option<SecretUrl>,
    /// Where the leases are; has to be the server itself. The same as `url` unless it is set.
    pub(crate) lease_url: Option<SecretUrl>,
    /// Connections of the work pool.
    pub(crate) max_connections: u32,
}

impl Default for DatabaseConfig {
    fn default() -> Self {
        Self { url: None, lease_url: None, max_connections: 10 }
    }
}
