//! A database URL that doesn't show its password.

use serde::{Deserialize, Serialize, Serializer};
use std::fmt;
use url::Url;

/// A URL whose password is left out wherever it is shown.
#[derive(Clone, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub(crate) struct SecretUrl(String);

impl SecretUrl {
    /// The URL with everything in it, for connecting.
    pub(crate) fn expose(&self) -> &str {
        &self.0
    }

    /// Whether it is a URL of PostgreSQL.
    pub(crate) fn is_postgres(&self) -> bool {
        Url::parse(&self.0).is_ok_and(|url| matches!(url.scheme(), "postgres" | "postgresql"))
    }
}

impl From<String> for SecretUrl {
    fn from(text: String) -> Self {
        Self(text)
    }
}

impl fmt::Display for SecretUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Of a text that is something else nothing is shown: a password could stand anywhere in it.
        if !self.is_postgres() {
            return f.write_str("(not a PostgreSQL URL)");
        }
        let Ok(mut url) = Url::parse(&self.0) else { return Err(fmt::Error) };
        if url.password().is_some() && url.set_password(Some("***")).is_err() {
            return f.write_str("(not shown)");
        }
        // sqlx takes a password here too.
        if url.query().is_some() {
            let kept: Vec<(String, String)> = url
                .query_pairs()
                .map(|(key, value)| {
                    let secret = key.to_lowercase().contains("password") || key.contains("key");
                    (key.into_owned(), if secret { "***".to_owned() } else { value.into_owned() })
                })
                .collect();
            url.query_pairs_mut().clear().extend_pairs(kept);
        }
        f.write_str(url.as_str())
    }
}

impl fmt::Debug for SecretUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SecretUrl({self})")
    }
}

impl Serialize for SecretUrl {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_never_shown_wherever_it_stands() {
        for text in [
            "postgres://me:hunter2@h/db",
            "postgres://me@h/db?password=hunter2&sslmode=disable",
            "postgres://me:hunter2@h:port/db",
            "me:hunter2@h",
        ] {
            let url = SecretUrl(text.to_owned());
            let shown = format!("{url} {url:?} {}", serde_json::to_string(&url).unwrap());
            assert!(!shown.contains("hunter2"), "{shown}");
        }
        assert_eq!(SecretUrl("postgres://me@h:5/db".to_owned()).to_string(), "postgres://me@h:5/db");
    }
}
