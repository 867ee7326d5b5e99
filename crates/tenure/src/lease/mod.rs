//! The lease protocol.

mod reason;
mod snapshot;
mod trust;

pub use reason::EndReason;
pub use snapshot::{RoleSnapshot, RoleState, SessionState, Snapshot};

/// NOTIFY channel that announces a released lease. The payload is the key.
pub const RELEASED_CHANNEL: &str = "tenure_released";
/// NOTIFY channel that asks the leader of a role to hand over. The payload is the role's name.
pub const RESIGN_CHANNEL: &str = "tenure_resign";
/// The lease session's `application_name` begins with this; the instance's UUID follows.
pub const APPLICATION_NAME_PREFIX: &str = "tenure lease ";
pub(crate) use trust::Trust;
