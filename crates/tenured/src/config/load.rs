//! Reads the layers, and says of every mistake what it is and where.

use super::Settings;
use crate::registry;
use figment::{
    Figment, Metadata,
    error::Kind,
    providers::{Env, Format as _, Serialized, Toml},
};
use std::{
    env, fmt, fs,
    path::{Path, PathBuf},
};

/// Everything that is wrong with the configuration, one line each, without secrets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ConfigErrors(pub(crate) Vec<String>);

impl fmt::Display for ConfigErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.join("\n"))
    }
}

impl std::error::Error for ConfigErrors {}

/// Settings, and where each value came from.
#[derive(Debug)]
pub(crate) struct Loaded {
    pub(crate) settings: Settings,
    figment: Figment,
}

impl Loaded {
    /// Where the value of a key, such as `lease.ttl`, came from.
    pub(crate) fn source(&self, key: &str) -> String {
        self.figment.find_metadata(key).map_or_else(|| "default".to_owned(), describe)
    }
}

/// Reads defaults, files and environment. Without `files`, those that `TENURE_CONFIG` names.
pub(crate) fn load(files: &[PathBuf]) -> Result<Loaded, ConfigErrors> {
    let named: Vec<PathBuf> = match env::var_os("TENURE_CONFIG") {
        Some(list) if files.is_empty() => env::split_paths(&list).collect(),
        _ => files.to_vec(),
    };
    let mut figment = Figment::from(Serialized::defaults(Settings::default()));
    for file in &named {
        check_file(file)?;
        figment = figment.merge(Toml::file_exact(file));
    }
    let figment = figment
        .merge(alias("DATABASE_URL", "database.url"))
        .merge(alias("TENURE_LEASE_DATABASE_URL", "database.lease_url"))
        // Toggles and the names of files are no settings: they have no section.
        .merge(Env::prefixed("TENURE_").filter(|key| key.as_str().contains("__")).split("__"));
    let settings: Settings = figment
        .extract()
        .map_err(|errors| ConfigErrors(errors.into_iter().map(|error| explain(&error)).collect()))?;
    let errors = check(&settings);
    if errors.is_empty() { Ok(Loaded { settings, figment }) } else { Err(ConfigErrors(errors)) }
}

fn alias(variable: &'static str, key: &'static str) -> Env {
    Env::raw().only(&[variable]).map(move |_| key.into())
}

/// What the types can't hold against.
fn check(settings: &Settings) -> Vec<String> {
    let mut errors: Vec<String> = match settings.lease.timing() {
        Ok(_) => Vec::new(),
        Err(violated) => violated.iter().map(|error| format!("lease: {error}")).collect(),
    };
    if settings.database.max_connections == 0 {
        errors.push("database.max_connections is 0; it has to be at least 1".to_owned());
    }
    errors.extend(registry::validate(settings));
    errors
}

/// A syntax error is told by its place. The parser's own text quotes the line, which may hold a password.
fn check_file(file: &Path) -> Result<(), ConfigErrors> {
    let refuse = |text: String| ConfigErrors(vec![format!("{}: {text}", file.display())]);
    let text = fs::read_to_string(file).map_err(|error| refuse(error.to_string()))?;
    match text.parse::<toml::Table>() {
        Ok(_) => Ok(()),
        Err(error) => {
            let before = error.span().map_or("", |span| text.get(..span.start).unwrap_or_default());
            let line = before.matches('\n').count() + 1;
            Err(refuse(format!("line {line} is not TOML: {}", error.message())))
        }
    }
}

fn explain(error: &figment::Error) -> String {
    let place = error.metadata.as_ref().map(describe).unwrap_or_default();
    let place = if place.is_empty() { String::new() } else { format!(" (in {place})") };
    let path = error.path.join(".");
    match &error.kind {
        Kind::UnknownField(name, known) => {
            let key = if path.ends_with(name.as_str()) || path.is_empty() {
                if path.is_empty() { name.clone() } else { path }
            } else {
                format!("{path}.{name}")
            };
            let nearest = known
                .iter()
                .map(|candidate| (strsim::jaro_winkler(candidate, name), candidate))
                .max_by(|a, b| a.0.total_cmp(&b.0));
            let hint = match nearest {
                Some((likeness, candidate)) if likeness > 0.7 => format!("; did you mean `{candidate}`?"),
                _ => format!("; known are {}", known.join(", ")),
            };
            format!("unknown key `{key}`{place}{hint}")
        }
        kind => format!("`{path}`{place}: {kind}"),
    }
}

fn describe(metadata: &Metadata) -> String {
    match (&metadata.source, metadata.name.as_ref()) {
        (Some(source), _) => source.to_string(),
        (None, name) if name.contains("environment") => format!("the {name}"),
        (None, _) => "default".to_owned(),
    }
}
