//! Reads the layers, and says of every mistake what it is and where.
//!
//! In three steps: which keys there are, whether each value has the right type, whether the values fit each
//! other. What a step finds wrong is said at once. No error shows a value that may hold a password.

use super::{
    SecretUrl, Settings,
    known::KnownKeys,
    layer::{self, Layer, Source},
    secret::redact,
};
use crate::registry;
use figment::{
    Figment,
    error::Kind,
    providers::Serialized,
    value::{Dict, Value},
};
use std::{fmt, path::PathBuf};

/// Everything that is wrong with the configuration, one line each, without secrets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ConfigErrors(pub(crate) Vec<String>);

impl fmt::Display for ConfigErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.join("\n"))
    }
}

impl std::error::Error for ConfigErrors {}

/// Settings, and where each value came from. It has no `Debug`: its layers hold values as they were written.
pub(crate) struct Loaded {
    pub(crate) settings: Settings,
    layers: Vec<Layer>,
}

impl Loaded {
    /// Where the value of a key, such as `lease.ttl`, came from.
    pub(crate) fn source(&self, key: &str) -> String {
        layer::source(&self.layers, key).to_string()
    }

    /// Where a section was set, if it was.
    pub(crate) fn set_in(&self, section: &str) -> Option<String> {
        match layer::source(&self.layers, section) {
            Source::Default => None,
            source => Some(source.to_string()),
        }
    }
}

/// Reads defaults, files and environment. Without `files`, those that `TENURE_CONFIG` names.
pub(crate) fn load(files: &[PathBuf]) -> Result<Loaded, ConfigErrors> {
    read(files).map_err(|errors| ConfigErrors(errors.iter().map(|error| redact(error)).collect()))
}

fn read(given: &[PathBuf]) -> Result<Loaded, Vec<String>> {
    let mut errors = Vec::new();
    let mut layers = Vec::new();
    for file in layer::files(given) {
        match layer::read(&file) {
            Ok(layer) => layers.push(layer),
            Err(error) => errors.push(error),
        }
    }
    layers.extend(layer::environment());
    let known = KnownKeys::new(&defaults());
    for layer in &layers {
        let unknown = known.unknown(&layer.values).into_iter();
        errors.extend(unknown.map(|(key, what)| located(&key, &layer.source, &what)));
    }
    errors.extend(layer::one_underscore(known.values()));
    if !errors.is_empty() {
        return Err(errors);
    }
    let defaults = Figment::from(Serialized::defaults(Settings::default()));
    let figment = layers.iter().fold(defaults, |figment, layer| figment.merge(layer.clone()));
    let settings: Settings = figment
        .extract()
        .map_err(|errors| errors.into_iter().map(|error| explain(&error, &layers)).collect::<Vec<_>>())?;
    let errors = check(&settings, &layers);
    if errors.is_empty() { Ok(Loaded { settings, layers }) } else { Err(errors) }
}

/// Every key with its default.
fn defaults() -> Dict {
    Value::serialize(Settings::default()).ok().and_then(Value::into_dict).unwrap_or_default()
}

/// What the types can't hold against.
fn check(settings: &Settings, layers: &[Layer]) -> Vec<String> {
    let mut errors: Vec<String> = match settings.lease.timing() {
        Ok(_) => Vec::new(),
        Err(violated) => violated.iter().map(|error| format!("lease: {error}")).collect(),
    };
    let mut refuse = |key: &str, what: &str| errors.push(located(key, &layer::source(layers, key), what));
    for (key, url) in
        [("database.url", &settings.database.url), ("database.lease_url", &settings.database.lease_url)]
    {
        if let Some(problem) = url.as_ref().and_then(SecretUrl::problem) {
            refuse(key, &format!("is not a URL like postgres://user@host:5432/database: {problem}"));
        }
    }
    if let Err(problem) = crate::logging::filter(&settings.log.level) {
        refuse("log.level", &problem);
    }
    if settings.database.max_connections == 0 {
        refuse("database.max_connections", "is 0; it has to be at least 1");
    }
    errors.extend(registry::validate(settings));
    errors
}

fn explain(error: &figment::Error, layers: &[Layer]) -> String {
    let path = error.path.join(".");
    // A value in the wrong place may be a URL with a password: what was expected is told, not what is there.
    let (key, what) = match &error.kind {
        // Of a table that takes any name, such as a route: what may be in it depends on its type.
        Kind::UnknownField(name, known) => {
            let nearest = known
                .iter()
                .map(|candidate| (strsim::jaro_winkler(candidate, name), candidate))
                .max_by(|a, b| a.0.total_cmp(&b.0));
            let hint = match nearest {
                Some((likeness, candidate)) if likeness > 0.7 => format!("did you mean `{candidate}`?"),
                _ => format!("known are {}", known.join(", ")),
            };
            // The path ends with the key itself, or with the section that it was found in.
            let key = if error.path.last() == Some(name) { path } else { format!("{path}.{name}") };
            (key, format!("unknown key; {hint}"))
        }
        Kind::UnknownVariant(_, known) => (path, format!("has to be one of {}", known.join(", "))),
        Kind::InvalidType(_, expected) | Kind::InvalidValue(_, expected) => {
            (path, format!("has to be {}", in_words_of_toml(expected)))
        }
        kind => (path, kind.to_string()),
    };
    located(&key, &layer::source(layers, &key), &what)
}

/// serde names types of the code.
fn in_words_of_toml(expected: &str) -> &str {
    match expected {
        "u32" => "a whole number from 0 to 4294967295",
        "u64" => "a whole number, not negative",
        "a duration" => "a duration such as \"500ms\" or \"15s\"",
        of_code if of_code.starts_with("struct ") => "a table",
        other => other,
    }
}

fn located(key: &str, source: &Source, what: &str) -> String {
    format!("`{key}` (in {source}): {what}")
}
