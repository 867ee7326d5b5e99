//! A job before it is stored, and what makes one impossible to store.

use chrono::{DateTime, Utc};
use serde_json::Value;
use thiserror::Error;

/// The longest payload, in bytes of JSON: 1 MiB. Put larger things elsewhere and refer to them.
pub const MAX_PAYLOAD_BYTES: usize = 1024 * 1024;

/// The longest kind, queue name and key, in bytes. They are indexed.
const MAX_NAME_BYTES: usize = 255;

/// A job to be enqueued. Make one with [`NewJob::new`] and change what differs from the defaults.
///
/// ```
/// use tenure_jobs::NewJob;
/// let job = NewJob { priority: 5, ..NewJob::new("send_invoice", serde_json::json!({"invoice": 17})) };
/// assert_eq!(job.max_attempts, 25);
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct NewJob {
    /// What kind of work it is: 1 to 255 bytes. The poller's routes go by it.
    pub kind: String,
    /// A label that backlogs are grouped by; `default` unless set.
    pub queue: String,
    /// What the job is about: at most [`MAX_PAYLOAD_BYTES`] of JSON, without NUL characters.
    pub payload: Value,
    /// Among due jobs the higher number runs first; 0 unless set.
    pub priority: i16,
    /// Not before this time by the database's clock; at once when `None`.
    pub run_at: Option<DateTime<Utc>>,
    /// After this many attempts it is discarded; 25 unless set.
    pub max_attempts: u32,
    /// At most one unfinished job has this key. Enqueueing another returns the one that is there.
    pub unique_key: Option<String>,
    /// Jobs with the same key run one at a time, by id.
    pub ordering_key: Option<String>,
}

/// Why a job can't be stored.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum InvalidJob {
    /// A name is empty.
    #[error("the job's {field} is empty")]
    Empty {
        /// Which name.
        field: &'static str,
    },
    /// A name or key is too long.
    #[error("the job's {field} has {bytes} bytes; at most {MAX_NAME_BYTES} are possible")]
    TooLong {
        /// Which name or key.
        field: &'static str,
        /// Its length.
        bytes: usize,
    },
    /// `PostgreSQL` has no room for the NUL character in text and `jsonb`.
    #[error("{place} contains the NUL character (\\u0000), which PostgreSQL can't store; remove it")]
    Nul {
        /// Where it is: a field, or a path into the payload.
        place: String,
    },
    /// The payload is too large.
    #[error(
        "the payload has {bytes} bytes of JSON; at most {MAX_PAYLOAD_BYTES} are possible: store it \
         elsewhere and let the payload refer to it"
    )]
    PayloadTooLarge {
        /// Its size.
        bytes: usize,
    },
    /// The number of attempts is 0, or too large for the column.
    #[error("max_attempts is {0}; it must be from 1 to {max}", max = i32::MAX)]
    MaxAttempts(u32),
}

impl NewJob {
    /// A job of `kind` about `payload`, due at once, with every other field at its default.
    pub fn new(kind: impl Into<String>, payload: Value) -> Self {
        Self {
            kind: kind.into(),
            queue: "default".to_owned(),
            payload,
            priority: 0,
            run_at: None,
            max_attempts: 25,
            unique_key: None,
            ordering_key: None,
        }
    }

    /// Checks everything that can be known without the database, and returns the payload as JSON text.
    pub(crate) fn validate(&self) -> Result<String, InvalidJob> {
        check_name("kind", &self.kind)?;
        check_name("queue", &self.queue)?;
        for (field, key) in [("unique_key", &self.unique_key), ("ordering_key", &self.ordering_key)] {
            if let Some(key) = key {
                check_name(field, key)?;
            }
        }
        if self.max_attempts == 0 || i32::try_from(self.max_attempts).is_err() {
            return Err(InvalidJob::MaxAttempts(self.max_attempts));
        }
        if let Some(path) = find_nul(&self.payload) {
            return Err(InvalidJob::Nul { place: format!("the payload at `{path}`") });
        }
        let payload = self.payload.to_string();
        if payload.len() > MAX_PAYLOAD_BYTES {
            return Err(InvalidJob::PayloadTooLarge { bytes: payload.len() });
        }
        Ok(payload)
    }
}

fn check_name(field: &'static str, name: &str) -> Result<(), InvalidJob> {
    if name.is_empty() {
        return Err(InvalidJob::Empty { field });
    }
    if name.len() > MAX_NAME_BYTES {
        return Err(InvalidJob::TooLong { field, bytes: name.len() });
    }
    if name.contains('\0') {
        return Err(InvalidJob::Nul { place: format!("the job's {field}") });
    }
    Ok(())
}

/// The path of the first string or name with a NUL character. A backslash followed by `u0000`, as text,
/// is six storable characters and isn't one.
fn find_nul(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => text.contains('\0').then(|| "$".to_owned()),
        Value::Array(items) => items
            .iter()
            .enumerate()
            .find_map(|(i, item)| find_nul(item).map(|rest| format!("$[{i}]{}", &rest[1..]))),
        Value::Object(fields) => fields.iter().find_map(|(name, field)| {
            if name.contains('\0') {
                return Some(format!("$.{}", name.replace('\0', "\\u0000")));
            }
            find_nul(field).map(|rest| format!("$.{name}{}", &rest[1..]))
        }),
        Value::Null | Value::Bool(_) | Value::Number(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_nul_anywhere_in_the_payload_is_named_by_its_path() {
        let refused = |payload| NewJob::new("k", payload).validate().unwrap_err().to_string();
        assert!(refused(json!("a\0")).contains("`$`"));
        assert!(refused(json!({"a": [1, {"b": "\0"}]})).contains("`$.a[1].b`"));
        assert!(refused(json!({"a\0": 1})).contains(r"`$.a\u0000`"));
    }

    #[test]
    fn an_escaped_backslash_before_u0000_is_no_nul() {
        assert_eq!(NewJob::new("k", json!(r"\u0000")).validate(), Ok(r#""\\u0000""#.to_owned()));
    }

    #[test]
    fn names_are_bounded_and_free_of_nul() {
        assert_eq!(NewJob::new("", json!({})).validate(), Err(InvalidJob::Empty { field: "kind" }));
        let long = NewJob { unique_key: Some("x".repeat(256)), ..NewJob::new("k", json!({})) };
        assert_eq!(long.validate(), Err(InvalidJob::TooLong { field: "unique_key", bytes: 256 }));
        let nul = NewJob { ordering_key: Some("x\0".to_owned()), ..NewJob::new("k", json!({})) };
        assert!(matches!(nul.validate(), Err(InvalidJob::Nul { .. })));
    }

    #[test]
    fn the_payload_is_bounded_at_exactly_its_limit() {
        let fits = NewJob::new("k", json!("x".repeat(MAX_PAYLOAD_BYTES - 2)));
        assert!(fits.validate().is_ok());
        let not = NewJob::new("k", json!("x".repeat(MAX_PAYLOAD_BYTES - 1)));
        assert_eq!(not.validate(), Err(InvalidJob::PayloadTooLarge { bytes: MAX_PAYLOAD_BYTES + 1 }));
    }

    #[test]
    fn the_number_of_attempts_fits_its_column() {
        for bad in [0, u32::MAX] {
            let job = NewJob { max_attempts: bad, ..NewJob::new("k", json!({})) };
            assert_eq!(job.validate(), Err(InvalidJob::MaxAttempts(bad)));
        }
    }
}
