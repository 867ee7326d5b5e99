//! Logs go to standard error: text for people, one JSON object per line for programs.

use crate::config::{LogConfig, LogFormat};
use json_subscriber::JsonLayer;
use std::io::{self, IsTerminal as _};
use tracing_subscriber::{
    EnvFilter, Layer as _, filter::LevelFilter, fmt::time::SystemTime, layer::SubscriberExt as _,
    util::SubscriberInitExt as _,
};
use uuid::Uuid;

/// Libraries speak up only when something is wrong: sqlx would log statements, and those may hold data.
const LIBRARIES: &str = "sqlx=warn,hyper=warn";

/// Reads a level or directives. A word that is neither is refused, although `RUST_LOG` would take it for a
/// target: a misspelled level would silence the log.
pub(crate) fn filter(directives: &str) -> Result<EnvFilter, String> {
    let unclear =
        directives.split(',').any(|word| !word.contains('=') && word.trim().parse::<LevelFilter>().is_err());
    if unclear {
        return Err(
            "has to be a level (off, error, warn, info, debug, trace), or target=level, separated by \
                    commas"
                .to_owned(),
        );
    }
    EnvFilter::try_new(format!("{LIBRARIES},{directives}")).map_err(|error| error.to_string())
}

/// Begins to log. `instance` is on every JSON line.
pub(crate) fn start(config: &LogConfig, instance: Uuid) -> Result<(), String> {
    let filter = match std::env::var("RUST_LOG") {
        Ok(directives) if !directives.is_empty() => EnvFilter::try_new(format!("{LIBRARIES},{directives}"))
            .map_err(|error| format!("RUST_LOG: {error}"))?,
        _ => filter(&config.level).map_err(|error| format!("log.level: {error}"))?,
    };
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
            // Lines of libraries have no event of ours; every line gets one, so that readers needn't ask.
            lines.add_dynamic_field("event", |event, _context| {
                event.metadata().fields().field("event").is_none().then_some("log")
            });
            lines.with_flattened_event();
            lines.add_static_field("instance", serde_json::Value::String(instance.to_string()));
            tracing_subscriber::registry().with(lines.with_filter(filter)).init();
        }
    }
    Ok(())
}
