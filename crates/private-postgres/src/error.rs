//! Why a private server can't be had: a variant for each step that can fail.

use std::{io, path::PathBuf, process::Output};
use thiserror::Error;

/// How many of the last lines of a server's log an error quotes.
const TAIL: usize = 12;

/// Why a private server can't be had.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ServerError {
    /// PostgreSQL doesn't run as root, and there is no ordinary account to run it under.
    #[error("PostgreSQL refuses to run as root, and neither `postgres` nor `nobody` is in /etc/passwd")]
    NoAccount,
    /// A file or folder of the server can't be made.
    #[error("making {path}")]
    Folder {
        /// Which.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The template can't be made, read or copied.
    #[error("copying the template in {cache}; remove that folder to have it made again")]
    Template {
        /// The folder of templates.
        cache: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// There is no free port on 127.0.0.1.
    #[error("finding a free port on 127.0.0.1")]
    Port(#[source] io::Error),
    /// A program can't be run at all.
    #[error("running {}", program.display())]
    Run {
        /// Its path.
        program: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// `initdb` failed.
    #[error("initdb failed: {said}")]
    Initialize {
        /// What it said.
        said: String,
    },
    /// `pg_basebackup` failed, so there is no standby.
    #[error("pg_basebackup failed: {said}")]
    BaseBackup {
        /// What it said.
        said: String,
    },
    /// The server ended before it answered.
    #[error("the server ended before it answered; its log ends with:\n{log}")]
    Ended {
        /// The last lines of its log.
        log: String,
    },
    /// The server runs and doesn't answer.
    #[error("the server didn't answer within {seconds} s; its log ends with:\n{log}")]
    Silent {
        /// How long it was waited for.
        seconds: u64,
        /// The last lines of its log.
        log: String,
    },
    /// A standby didn't become a primary.
    #[error("pg_ctl promote failed: {said}")]
    Promote {
        /// What it said.
        said: String,
    },
}

/// The last lines of a server's log.
pub(crate) fn tail(log: &str) -> String {
    let lines: Vec<&str> = log.lines().collect();
    lines[lines.len().saturating_sub(TAIL)..].join("\n")
}

/// What a program that failed has said, on either stream.
pub(crate) fn said(output: &Output) -> String {
    let text = [&output.stderr[..], &output.stdout[..]].concat();
    String::from_utf8_lossy(&text).trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tail_of_a_log_is_its_last_lines() {
        let log = (0..100).map(|n| n.to_string()).collect::<Vec<_>>().join("\n");
        assert_eq!(tail(&log).lines().count(), TAIL);
        assert!(tail(&log).ends_with("98\n99"));
        assert_eq!(tail("one"), "one");
        assert_eq!(tail(""), "");
    }
}
