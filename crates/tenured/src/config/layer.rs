//! The layers of the configuration: files, then environment variables. Each value knows its layer.

use super::known::{is_below, leaves};
use figment::{
    Metadata, Profile, Provider,
    value::{Dict, Map, Value},
};
use std::{
    env, fmt, fs,
    path::{Path, PathBuf},
};

/// Keys that also have a variable of their own. The systematic name wins over the alias.
const ALIASES: [(&str, &str); 2] =
    [("DATABASE_URL", "database.url"), ("TENURE_LEASE_DATABASE_URL", "database.lease_url")];

/// Keys whose values are text, whatever they look like: a password may be a number.
const TEXT: [&str; 4] = ["database.url", "database.lease_url", "http", "log"];

/// Where a value comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Source {
    /// The code.
    Default,
    /// A TOML file.
    File(PathBuf),
    /// An environment variable.
    Variable(String),
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Source::Default => f.write_str("default"),
            Source::File(path) => write!(f, "{}", path.display()),
            Source::Variable(name) => write!(f, "environment variable {name}"),
        }
    }
}

/// Values from one source, as they were written: passwords too, so it has no `Debug`.
#[derive(Clone)]
pub(super) struct Layer {
    pub(super) source: Source,
    pub(super) values: Dict,
}

impl Provider for Layer {
    fn metadata(&self) -> Metadata {
        Metadata::named(self.source.to_string())
    }

    fn data(&self) -> Result<Map<Profile, Dict>, figment::Error> {
        Ok(Profile::Default.collect(self.values.clone()))
    }
}

impl Layer {
    /// Whether it sets the key at `path`, something below it, or a value in the place of its table.
    fn sets(&self, path: &str) -> bool {
        // Compared as text: the name of a route may have dots in it.
        leaves(&self.values).iter().any(|(set, _)| set == path || is_below(set, path) || is_below(path, set))
    }
}

/// Where the value at `path` comes from: the last layer that sets it.
pub(super) fn source(layers: &[Layer], path: &str) -> Source {
    let last = layers.iter().rev().find(|layer| layer.sets(path));
    last.map_or(Source::Default, |layer| layer.source.clone())
}

/// The files to read: those of the command line, or else those that `TENURE_CONFIG` names, separated by
/// colons or commas.
pub(super) fn files(given: &[PathBuf]) -> Vec<PathBuf> {
    if !given.is_empty() {
        return given.to_vec();
    }
    let named = env::var("TENURE_CONFIG").unwrap_or_default();
    named.split([':', ',']).map(str::trim).filter(|name| !name.is_empty()).map(PathBuf::from).collect()
}

/// Reads a file. A syntax error is told by its place: the parser's own text quotes the line, which may hold
/// a password.
pub(super) fn read(file: &Path) -> Result<Layer, String> {
    let place = file.display();
    let text = fs::read_to_string(file).map_err(|error| format!("{place}: {error}"))?;
    match toml::from_str(&text) {
        Ok(values) => Ok(Layer { source: Source::File(file.to_owned()), values }),
        Err(error) => {
            let before = error.span().map_or("", |span| text.get(..span.start).unwrap_or_default());
            let line = before.matches('\n').count() + 1;
            Err(format!("{place}: line {line} is not TOML: {}", error.message()))
        }
    }
}

/// One layer for each variable of the environment that is a setting: aliases first, so that the systematic
/// names win over them. An empty variable counts as unset, as an empty toggle does. Names of files and
/// toggles are no settings: they have no section.
pub(super) fn environment() -> Vec<Layer> {
    let mut variables: Vec<(String, String)> = env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.to_string_lossy().into_owned())))
        .filter(|(_, value)| !value.is_empty())
        .collect();
    variables.sort();
    let aliased = ALIASES.into_iter().filter_map(|(name, key)| {
        let (_, value) = variables.iter().find(|(given, _)| given == name)?;
        Some(variable(name, &key.split('.').collect::<Vec<_>>(), value))
    });
    let systematic = variables.iter().filter_map(|(name, value)| {
        let key = name.strip_prefix("TENURE_").filter(|rest| rest.contains("__"))?.to_lowercase();
        Some(variable(name, &key.split("__").collect::<Vec<_>>(), value))
    });
    aliased.chain(systematic).collect()
}

fn variable(name: &str, key: &[&str], value: &str) -> Layer {
    let path = key.join(".");
    let is_text = TEXT.iter().any(|text| path == *text || is_below(&path, text));
    let read = || value.parse().unwrap_or_else(|_| Value::from(value));
    let value = if is_text { Value::from(value) } else { read() };
    let nested = key.iter().rev().fold(value, |inner, part| {
        let mut dict = Dict::new();
        dict.insert((*part).to_owned(), inner);
        Value::from(dict)
    });
    let values = nested.into_dict().unwrap_or_default();
    Layer { source: Source::Variable(name.to_owned()), values }
}

/// Variables with one underscore where two belong, which would be overlooked: `TENURE_LEASE_TTL`.
pub(super) fn one_underscore<'a>(keys: impl Iterator<Item = &'a str>) -> Vec<String> {
    keys.map(|key| (key.to_uppercase(), key))
        .map(|(upper, key)| (format!("TENURE_{}", upper.replace('.', "_")), upper, key))
        .filter(|(name, ..)| env::var_os(name).is_some_and(|value| !value.is_empty()))
        .map(|(name, upper, key)| {
            let right = upper.replace('.', "__");
            format!("`{key}` (in environment variable {name}): two underscores go before the key; did you mean TENURE_{right}?")
        })
        .collect()
}
