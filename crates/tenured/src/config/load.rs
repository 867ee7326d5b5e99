//! Reads the layers, and says of every mistake what it is and where.

use super::{SecretUrl, Settings};
use crate::registry;
use figment::{
    Figment, Metadata, Source,
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
        self.figment
            .find_metadata(key)
            .map_or_else(|| "default".to_owned(), |metadata| describe(metadata, key))
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
    let urls = [("url", &settings.database.url), ("lease_url", &settings.database.lease_url)];
    for (key, url) in urls {
        if let Some(problem) = url.as_ref().and_then(SecretUrl::problem) {
            errors.push(format!(
                "database.{key} is not a URL like postgres://user@host:5432/database: {problem}"
            ));
        }
    }
    if let Err(problem) = crate::logging::filter(&settings.log.level) {
        errors.push(format!("log.level: {problem}"));
    }
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
    let path = error.path.join(".");
    let (key, what) = match &error.kind {
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
            let key = if error.path.last() == Some(name) { path } else { join(&path, name) };
            (key, format!("unknown key; {hint}"))
        }
        // A value in the wrong place may be a URL with a password: what was expected is told, not what is there.
        Kind::InvalidType(_, expected) | Kind::InvalidValue(_, expected) => {
            (path, format!("has to be {expected}"))
        }
        kind => (path, kind.to_string()),
    };
    let place = error.metadata.as_ref().map(|metadata| describe(metadata, &key)).unwrap_or_default();
    if place.is_empty() { format!("`{key}`: {what}") } else { format!("`{key}` (in {place}): {what}") }
}

fn join(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}

/// Where the value of `key` came from, in the words of whoever set it.
fn describe(metadata: &Metadata, key: &str) -> String {
    match &metadata.source {
        Some(Source::File(path)) => path.display().to_string(),
        Some(Source::Custom(text)) => text.clone(),
        _ if metadata.name.contains("TENURE_") => {
            format!("environment variable TENURE_{}", key.to_uppercase().replace('.', "__"))
        }
        _ if metadata.name.contains("environment") => match key {
            "database.lease_url" => "environment variable TENURE_LEASE_DATABASE_URL".to_owned(),
            _ => "environment variable DATABASE_URL".to_owned(),
        },
        _ => "default".to_owned(),
    }
}
