//! Names of tables and columns as they are written in SQL.
//!
//! A name in the configuration means what it means in `psql`: `audit_log` and `Audit_Log` are the same
//! table, `"Audit Log"` is another, and `""` within quotes is a quote. It is sent quoted, so no name can
//! be anything but a name.

use std::{fmt, str::FromStr};
use thiserror::Error;

/// One identifier, such as a column.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Identifier(String);

/// A table together with its schema.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TableName {
    /// The schema.
    pub schema: Identifier,
    /// The table.
    pub table: Identifier,
}

/// Why a text is no name.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum NameError {
    /// It has another number of parts, separated by dots outside quotes.
    #[error("{text:?} has {found} parts where {expected} needed; write {example}")]
    Parts {
        /// The text.
        text: String,
        /// How many parts it has.
        found: usize,
        /// How many are needed.
        expected: &'static str,
        /// How it is written.
        example: &'static str,
    },
    /// A part is empty, has a character that needs quotes, or its quotes don't match.
    #[error(
        "{text:?} is not a name as in SQL: put a part with other than letters, digits, _ and $ in double quotes"
    )]
    Malformed {
        /// The text.
        text: String,
    },
    /// `PostgreSQL` would shorten it and so mean another name.
    #[error(
        "{text:?} has a part of more than {} bytes, which PostgreSQL would shorten",
        Identifier::MAX_BYTES
    )]
    TooLong {
        /// The text.
        text: String,
    },
}

impl Identifier {
    /// `PostgreSQL`'s limit, unless it was compiled with another.
    pub const MAX_BYTES: usize = 63;

    /// The name itself, without quotes.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for Identifier {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, NameError> {
        match <[Identifier; 1]>::try_from(parse(text)?) {
            Ok([name]) => Ok(name),
            Err(parts) => Err(NameError::Parts {
                text: text.to_owned(),
                found: parts.len(),
                expected: "one is",
                example: "the column alone, such as created_at",
            }),
        }
    }
}

impl FromStr for TableName {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, NameError> {
        match <[Identifier; 2]>::try_from(parse(text)?) {
            Ok([schema, table]) => Ok(Self { schema, table }),
            Err(parts) => Err(NameError::Parts {
                text: text.to_owned(),
                found: parts.len(),
                expected: "two are",
                example: "the schema too, such as public.audit_log",
            }),
        }
    }
}

/// Quoted, as it is sent.
impl fmt::Display for Identifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\"", self.0.replace('"', "\"\""))
    }
}

/// Quoted, as it is sent.
impl fmt::Display for TableName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.schema, self.table)
    }
}

fn parse(text: &str) -> Result<Vec<Identifier>, NameError> {
    let malformed = || NameError::Malformed { text: text.to_owned() };
    let mut parts = Vec::new();
    let mut rest = text;
    loop {
        let (name, after) = match rest.strip_prefix('"') {
            Some(quoted) => take_quoted(quoted),
            None => take_plain(rest),
        }
        .ok_or_else(malformed)?;
        if name.len() > Identifier::MAX_BYTES {
            return Err(NameError::TooLong { text: text.to_owned() });
        }
        parts.push(Identifier(name));
        if after.is_empty() {
            return Ok(parts);
        }
        rest = after.strip_prefix('.').ok_or_else(malformed)?;
    }
}

/// The name up to its closing quote, and what follows that.
fn take_quoted(text: &str) -> Option<(String, &str)> {
    let mut name = String::new();
    let mut rest = text;
    loop {
        let (before, after) = rest.split_once('"')?;
        name.push_str(before);
        match after.strip_prefix('"') {
            Some(more) => {
                name.push('"');
                rest = more;
            }
            None => return (!name.is_empty() && !name.contains('\0')).then_some((name, after)),
        }
    }
}

fn take_plain(text: &str) -> Option<(String, &str)> {
    let end = text.find('.').unwrap_or(text.len());
    let (name, after) = text.split_at(end);
    let mut characters = name.chars();
    let starts = characters.next().is_some_and(|c| c.is_ascii_alphabetic() || c == '_');
    let goes_on = characters.all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '$'));
    (starts && goes_on).then(|| (name.to_ascii_lowercase(), after))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn table(text: &str) -> String {
        text.parse::<TableName>().map_or_else(|error| error.to_string(), |name| name.to_string())
    }

    #[test]
    fn a_name_means_what_it_means_in_sql() {
        assert_eq!(table("public.audit_log"), r#""public"."audit_log""#);
        assert_eq!(table("Public.Audit_Log"), r#""public"."audit_log""#);
        assert_eq!(table(r#""Public"."a ""b"".c""#), r#""Public"."a ""b"".c""#);
        assert_eq!("Created_At".parse::<Identifier>().expect("a column").as_str(), "created_at");
    }

    #[test]
    fn what_is_no_name_is_refused_with_advice() {
        assert!(table("audit_log").contains("write the schema too"));
        assert!(table("db.public.audit_log").contains("3 parts"));
        for text in ["", ".", "a.", ".b", "a.b; drop table c", "a.b c", "\"a.b", "a.\"b\"c", "a.\"\"", "a.1b"]
        {
            assert!(text.parse::<TableName>().is_err(), "{text}");
        }
        assert!(table(&format!("public.{}", "x".repeat(64))).contains("shorten"));
    }

    proptest! {
        #[test]
        fn whatever_parses_is_sent_as_the_same_name(text in ".{0,40}") {
            if let Ok(name) = text.parse::<TableName>() {
                prop_assert_eq!(name.to_string().parse::<TableName>(), Ok(name));
            }
        }

        #[test]
        fn every_quoted_name_is_read_back(name in "[^\0]{1,15}") {
            let sent = Identifier(name.clone()).to_string();
            prop_assert_eq!(sent.parse::<Identifier>().map(|parsed| parsed.0), Ok(name));
        }
    }
}
