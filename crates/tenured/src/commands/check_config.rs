//! `tenured check-config`: the effective configuration, with each value's source.

use crate::{config::Loaded, exit::Failure};
use serde_json::Value;

/// Prints one line for each key. Passwords are masked by the settings' own types.
pub(crate) fn show(loaded: &Loaded) -> Result<(), Failure> {
    crate::run::gates()?;
    let settings =
        serde_json::to_value(&loaded.settings).map_err(|error| Failure::Other(error.to_string()))?;
    let mut lines = Vec::new();
    flatten(&settings, String::new(), &mut lines);
    for (key, value) in lines {
        say!("{key} = {value}  # {}", loaded.source(&key));
    }
    if loaded.settings.database.url.is_some() {
        loaded.settings.databases()?;
    } else {
        say!("# database.url is not set: commands that need a database will refuse to start");
    }
    Ok(())
}

fn flatten(value: &Value, key: String, lines: &mut Vec<(String, String)>) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                let key = if key.is_empty() { name.clone() } else { format!("{key}.{name}") };
                flatten(value, key, lines);
            }
        }
        Value::Null => lines.push((key, "(not set)".to_owned())),
        value => lines.push((key, value.to_string())),
    }
}
