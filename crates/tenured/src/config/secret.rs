//! Keeping passwords out of everything that is shown.

use serde::{Deserialize, Serialize, Serializer};
use std::fmt;
use url::Url;

/// What stands where a password was.
const MASK: &str = "***";

/// A database URL. `Display`, `Debug` and `Serialize` show it without its password.
#[derive(Clone, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub(crate) struct SecretUrl(String);

impl SecretUrl {
    /// The URL with everything in it, for connecting.
    pub(crate) fn expose(&self) -> &str {
        &self.0
    }

    /// What is wrong with it, without any part of it.
    pub(crate) fn problem(&self) -> Option<&'static str> {
        if !self.0.starts_with("postgres://") && !self.0.starts_with("postgresql://") {
            return Some("it has to begin with postgres:// or postgresql://");
        }
        match Url::parse(&self.0) {
            Err(_) => {
                Some("it can't be parsed; percent-encode reserved characters such as @ : / # in a password")
            }
            Ok(url) if is_torn(&url) => Some(
                "there is an @ after the host; percent-encode reserved characters such as @ / ? # in a password",
            ),
            Ok(_) => None,
        }
    }
}

/// An unescaped `/`, `?` or `#` in a password ends the authority early: what follows is the password's rest.
fn is_torn(url: &Url) -> bool {
    [Some(url.path()), url.query(), url.fragment()].into_iter().flatten().any(|part| part.contains('@'))
}

impl fmt::Display for SecretUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Ok(url) = Url::parse(&self.0) else { return f.write_str("(not a URL, not shown)") };
        if self.problem().is_some() || url.cannot_be_a_base() {
            return f.write_str("(not a URL, not shown)");
        }
        write!(f, "{}://", url.scheme())?;
        if !url.username().is_empty() || url.password().is_some() {
            f.write_str(url.username())?;
            if url.password().is_some() {
                write!(f, ":{MASK}")?;
            }
            f.write_str("@")?;
        }
        f.write_str(url.host_str().unwrap_or_default())?;
        if let Some(port) = url.port() {
            write!(f, ":{port}")?;
        }
        f.write_str(url.path())?;
        for (i, (name, value)) in url.query_pairs().enumerate() {
            let separator = if i == 0 { '?' } else { '&' };
            let value = if name.contains("pass") { MASK } else { &value };
            write!(f, "{separator}{name}={value}")?;
        }
        Ok(())
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

/// Masks what looks like a password in text that comes from elsewhere, such as a mistake that quotes a value.
///
/// The last line of defense: a URL may stand where nobody expects one.
pub(crate) fn redact(text: &str) -> String {
    text.split_inclusive(char::is_whitespace).map(redact_word).collect()
}

fn redact_word(word: &str) -> String {
    let mut word = word.to_owned();
    if let Some(at) = word.rfind('@') {
        let begin = word.find("://").map_or(0, |scheme| scheme + 3);
        if let Some(colon) = word.get(begin..at).and_then(|user| user.find(':')) {
            word.replace_range(begin + colon + 1..at, MASK);
        }
    }
    if let Some(begin) = word.find("password=").map(|at| at + "password=".len()) {
        let end = word[begin..].find(['&', '"', '\'', '`']).map_or(word.trim_end().len(), |end| begin + end);
        word.replace_range(begin..end, MASK);
    }
    word
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_is_shown_without_its_password_wherever_it_is() {
        for url in [
            "postgres://me:hunter2@db:5432/app",
            "postgres://me@db/app?password=hunter2&sslmode=require",
            "postgres://me:p@hunter2@db/app",
            "postgres:me:hunter2@db",
            "me:hunter2@db",
            "postgres://me:1/hunter2@db/app",
            "postgres://me:hunter2#@db/app",
            "postgres://me:hunter2@[db",
        ] {
            let secret = SecretUrl(url.to_owned());
            let shown = format!("{secret} {secret:?} {}", serde_json::to_string(&secret).unwrap());
            assert!(!shown.contains("hunter2"), "{shown}");
        }
    }

    #[test]
    fn the_rest_of_a_url_stays_readable() {
        let secret = SecretUrl("postgres://me:hunter2@db:5433/app?sslmode=require".to_owned());
        assert_eq!(secret.to_string(), "postgres://me:***@db:5433/app?sslmode=require");
    }

    #[test]
    fn a_password_that_tears_its_url_is_a_problem() {
        for url in ["postgres://me:1/x@db/app", "postgres://me:1?x@db/app", "mysql://db/app", "postgres://["]
        {
            assert!(SecretUrl(url.to_owned()).problem().is_some(), "{url}");
        }
        assert_eq!(SecretUrl("postgresql://db/app".to_owned()).problem(), None);
        assert_eq!(SecretUrl("postgres:///app?host=/run/postgresql".to_owned()).problem(), None);
    }

    #[test]
    fn text_of_others_loses_its_passwords() {
        let text = redact("bad \"postgres://me:hunter2@db/app\" or me:hunter2@db, password=hunter2 or so");
        assert!(!text.contains("hunter2"), "{text}");
        assert!(text.contains("postgres://me:***@db/app") && text.ends_with(" or so"), "{text}");
    }
}
