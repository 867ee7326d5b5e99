//! The section `[log]`.

use serde::{Deserialize, Serialize};

/// What is logged, and how.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct LogConfig {
    /// Text on a terminal and JSON elsewhere, unless it is set.
    pub(crate) format: Option<LogFormat>,
    /// A level, or directives as in `RUST_LOG`, which comes before it.
    pub(crate) level: String,
}

/// How a line looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum LogFormat {
    /// For people.
    Text,
    /// One object per line, for programs.
    Json,
}

impl Default for LogConfig {
    fn default() -> Self {
        Self { format: None, level: "info".to_owned() }
    }
}
