//! Tells the database's failures apart, and says of each what to do. None of them means that somebody
//! else leads.

use crate::lease::{EndReason, Lost};

/// What a failure of the database means to the operator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Problem {
    /// What happened, in the server's own words, without secrets.
    pub(crate) because: String,
    /// What to do.
    pub(crate) advice: &'static str,
    pub(crate) kind: Kind,
}

/// The kinds of failures that the engine treats differently.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A pooler refused our startup packet, or what its mode doesn't allow.
    Pooler,
    /// The server doesn't know `idle_session_timeout`: older than 14.
    TooOld,
    /// Writing isn't possible here.
    ReadOnly,
    /// The server answered with another error; the connection goes on.
    Answered,
    /// No answer, or a connection that is over.
    Broken(EndReason),
}

/// Reads a failure.
pub(crate) fn diagnose(error: &sqlx::Error) -> Problem {
    if let sqlx::Error::Database(database) = error {
        let code = database.code().unwrap_or_default();
        let message = database.message();
        let (kind, advice) = by_code(&code, message);
        return Problem { because: format!("{message} (SQLSTATE {code})"), advice, kind };
    }
    let advice = match error {
        sqlx::Error::Tls(_) => "check sslmode and the server's certificate",
        sqlx::Error::Protocol(_) => {
            "what answers doesn't keep to PostgreSQL's protocol; a pooler or proxy in between? Use the \
             server's own address for database.lease_url"
        }
        _ => "check that the server is up and that host, port and network are right",
    };
    Problem { because: innermost(error), advice, kind: Kind::Broken(EndReason::ConnectionLost) }
}

fn by_code(code: &str, message: &str) -> (Kind, &'static str) {
    if message.contains("idle_session_timeout") && code == "42704" {
        return (Kind::TooOld, "PostgreSQL 14 or newer is needed: older servers can't end a silent session");
    }
    match code {
        "57P05" => (Kind::Broken(EndReason::IdleTimeout), "the process was silent for longer than ttl"),
        "57P01" | "57P02" => (
            Kind::Broken(EndReason::SessionTerminated),
            "the server stopped, or somebody ended the session; it is opened again by itself",
        ),
        "57P03" => (Kind::Broken(EndReason::SessionTerminated), "the server is starting or stopping; wait"),
        "57014" => (
            Kind::Broken(EndReason::StatementTimeout),
            "the server is slow, or somebody cancelled the statement",
        ),
        "25006" => (Kind::ReadOnly, "use the primary's address: this server or role is read-only"),
        "53200" => (
            Kind::Answered,
            "the server's lock table is full: raise max_locks_per_transaction, or lead fewer roles",
        ),
        "53300" => (
            Kind::Answered,
            "the server has no connection left: raise max_connections or lower the pools; the examination \
             needs up to four for a moment",
        ),
        "42P01" | "3F000" | "42883" => (Kind::Answered, "the schema is missing: run `tenured migrate`"),
        "42501" => (
            Kind::Answered,
            "grant the role usage on schema tenure, and select, insert, update, delete on its tables",
        ),
        "28P01" | "28000" => {
            (Kind::Answered, "user or password is wrong, or pg_hba.conf doesn't let this address in")
        }
        "3D000" => (Kind::Answered, "the database doesn't exist: correct the lease address"),
        "55P03" => (
            Kind::Answered,
            "a fenced transaction of the last leader is still open; it ends by itself, and the try is repeated",
        ),
        // PostgreSQL itself says so only to a client that breaks the protocol, and sqlx doesn't.
        "08P01" => (Kind::Pooler, POOLER),
        _ => (Kind::Answered, "look the SQLSTATE up in PostgreSQL's manual, appendix A"),
    }
}

pub(crate) const POOLER: &str = "this is a connection pooler, not PostgreSQL: point database.lease_url at the \
    server itself; database.url may stay on the pooler";

/// The innermost cause says most, and sqlx's outer texts repeat it.
fn innermost(error: &sqlx::Error) -> String {
    let mut cause: &dyn std::error::Error = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    cause.to_string()
}

/// A failure of a statement that the lease depends on.
pub(crate) fn lost(error: &sqlx::Error) -> Lost {
    let problem = diagnose(error);
    let reason = match problem.kind {
        Kind::Broken(reason) => reason,
        _ => EndReason::StatementFailed,
    };
    Lost { reason, detail: problem.because }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_are_told_apart_and_each_says_what_to_do() {
        for (code, message, kind, word) in [
            ("53200", "out of shared memory", Kind::Answered, "max_locks_per_transaction"),
            ("53300", "too many clients already", Kind::Answered, "max_connections"),
            (
                "57P01",
                "terminating connection",
                Kind::Broken(EndReason::SessionTerminated),
                "ended the session",
            ),
            ("57P05", "idle-session timeout", Kind::Broken(EndReason::IdleTimeout), "ttl"),
            ("57014", "canceling statement", Kind::Broken(EndReason::StatementTimeout), "cancelled"),
            ("28P01", "password authentication failed", Kind::Answered, "password"),
            ("28000", "no pg_hba.conf entry", Kind::Answered, "pg_hba.conf"),
            ("3D000", "database does not exist", Kind::Answered, "lease address"),
            ("42P01", "relation does not exist", Kind::Answered, "tenured migrate"),
            ("3F000", "schema does not exist", Kind::Answered, "tenured migrate"),
            ("42501", "permission denied", Kind::Answered, "grant"),
            ("25006", "read-only transaction", Kind::ReadOnly, "primary"),
            ("55P03", "lock timeout", Kind::Answered, "last leader"),
            ("08P01", "unsupported startup parameter: options", Kind::Pooler, "pooler"),
            ("08P01", "transaction blocks not allowed in statement pooling mode", Kind::Pooler, "pooler"),
            ("42704", "unrecognized configuration parameter \"idle_session_timeout\"", Kind::TooOld, "14"),
        ] {
            let (seen, advice) = by_code(code, message);
            assert_eq!(seen, kind, "{code}");
            assert!(advice.contains(word), "{code}: {advice}");
        }
    }

    #[test]
    fn a_network_failure_is_a_broken_connection() {
        let refused = std::io::Error::new(std::io::ErrorKind::ConnectionRefused, "connection refused");
        let problem = diagnose(&sqlx::Error::Io(refused));
        assert_eq!(problem.kind, Kind::Broken(EndReason::ConnectionLost));
        assert!(problem.because.contains("refused"));
    }
}
