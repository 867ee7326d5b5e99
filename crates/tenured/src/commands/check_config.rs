//! `tenured check-config`: the effective configuration, with each value's source.

use crate::{config::Loaded, exit::Failure, registry::workers};
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
    for worker in workers().iter().filter(|worker| !worker.compiled()) {
        // Its keys mean nothing to this binary, which can't know which of them are secret.
        let section = worker.role.name();
        if let Some(source) = loaded.set_in(section) {
            say!("# [{section}] is not interpreted: the worker isn't compiled in  # {source}");
        }
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
        Value::String(text) => lines.push((key, format!("{:?}", plain(text)))),
        value => lines.push((key, value.to_string())),
    }
}

/// A duration in its largest whole unit, as people write it: `90d`, not `2months 29days 2h 52m 48s`.
fn plain(text: &str) -> String {
    let Ok(duration) = humantime::parse_duration(text) else { return text.to_owned() };
    let millis = duration.as_millis();
    for (unit, size) in [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1000), ("ms", 1)] {
        if millis >= size && millis.is_multiple_of(size) {
            return format!("{}{unit}", millis / size);
        }
    }
    text.to_owned()
}

#[cfg(test)]
mod tests {
    use super::plain;

    #[test]
    fn durations_are_shown_as_people_write_them() {
        for (text, shown) in [
            ("2months 29days 2h 52m 48s", "90d"),
            ("1m", "1m"),
            ("90s", "90s"),
            ("500ms", "500ms"),
            ("0s", "0s"),
            ("info", "info"),
        ] {
            assert_eq!(plain(text), shown);
        }
    }
}
