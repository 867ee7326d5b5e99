//! The lease protocol.

mod reason;
mod trust;

pub use reason::EndReason;
pub(crate) use trust::Trust;
