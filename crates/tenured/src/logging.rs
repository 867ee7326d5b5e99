//! Logs go to standard error: text for people, one JSON object per line for programs.

use crate::config::{LogConfig, LogFormat};
use json_subscriber::JsonLayer;
use std::io::{self, IsTerminal as _};
use tracing_subscriber::{
    EnvFilter, Layer as _, fmt::time::SystemTime, layer::SubscriberExt as _, util::SubscriberInitExt as _,
};
use uuid::Uuid;

/// Begins to log. `instance` is on every JSON line.
pub(crate) fn start(config: &LogConfig, instance: Uuid) -> Result<(), String> {
    let filter = match std::env::var("RUST_LOG") {
        Ok(directives) if !directives.is_empty() => directives,
        // sqlx logs statements, and those may hold data.
        _ if config.level.contains('=') => config.level.clone(),
        _ => format!("{},sqlx=warn,hyper=warn", config.level),
    };
    let filter = EnvFilter::try_new(&filter).map_err(|error| {
        format!("log.level {filter:?} is neither a level nor RUST_LOG directives: {error}")
    })?;
    let text = io::stderr().is_terminal();
    let format = config.format.unwrap_or(if text { LogFormat::Text } else { LogFormat::Json });
    match format {
        LogFormat::Text => {
            let lines =
                tracing_subscriber::fmt::layer().with_writer(io::stderr).with_ansi(text).with_target(false);
            tracing_subscriber::registry().with(lines.with_filter(filter)).init();
        }
        LogFormat::Json => {
            let mut lines = JsonLayer::stderr();
            // RFC 3339 in UTC with microseconds.
            lines.with_timer("timestamp", SystemTime);
            lines.with_level("level");
            lines.with_flattened_event();
            lines.add_static_field("instance", serde_json::Value::String(instance.to_string()));
            tracing_subscriber::registry().with(lines.with_filter(filter)).init();
        }
    }
    Ok(())
}
