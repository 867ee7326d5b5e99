//! One line of a process's JSON log.

use serde_json::Value;
use tokio::time::Instant;

/// One line of a process's JSON log.
#[derive(Debug, Clone)]
pub struct Event {
    /// When it was read here.
    pub at: Instant,
    /// All of its fields.
    pub fields: Value,
}

impl Event {
    /// The field `event`.
    pub fn name(&self) -> &str {
        self.text("event")
    }

    /// A text field; empty when it isn't there.
    pub fn text(&self, field: &str) -> &str {
        self.fields[field].as_str().unwrap_or_default()
    }

    /// The field `role`.
    pub fn role(&self) -> &str {
        self.text("role")
    }

    /// The field `epoch`; 0 when it isn't there.
    pub fn epoch(&self) -> i64 {
        self.fields["epoch"].as_i64().unwrap_or(0)
    }

    /// The field `instance`: which incarnation of a process logged it.
    pub fn instance(&self) -> &str {
        self.text("instance")
    }

    /// Whether it is this event of this role.
    pub fn is(&self, name: &str, role: &str) -> bool {
        self.name() == name && self.role() == role
    }
}
