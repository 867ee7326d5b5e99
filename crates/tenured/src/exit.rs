//! How the process ends: one code for each kind of end, and what is said.

use crate::config::ConfigErrors;
use std::{
    error::Error,
    fmt,
    io::{self, Write as _},
    process::ExitCode,
};

/// Why a command didn't do what it was asked to.
#[derive(Debug)]
pub(crate) enum Failure {
    /// Usage or configuration: exit 2.
    Config(ConfigErrors),
    /// The front door was refused: exit 3. The command has said why.
    FrontDoor,
    /// The database can't be reached: exit 75.
    Unreachable(String),
    /// Anything else: exit 1.
    Other(String),
}

impl Failure {
    /// Says what happened on standard error, and gives the exit code.
    pub(crate) fn report(&self) -> ExitCode {
        match self {
            Failure::Config(errors) => {
                for error in &errors.0 {
                    eprintln!("error: {error}");
                }
                ExitCode::from(2)
            }
            Failure::FrontDoor => ExitCode::from(3),
            Failure::Unreachable(text) => {
                eprintln!("error: the database can't be reached: {text}");
                ExitCode::from(75)
            }
            Failure::Other(text) => {
                eprintln!("error: {text}");
                ExitCode::FAILURE
            }
        }
    }

    /// A failure of the database, told apart by whether it answered.
    pub(crate) fn from_database(error: &(dyn Error + 'static)) -> Self {
        let mut cause = Some(error);
        while let Some(error) = cause {
            if let Some(sqlx) = error.downcast_ref::<sqlx::Error>() {
                let answered = sqlx.as_database_error().is_some_and(|answer| {
                    // Starting up, out of connections, unknown to it: nothing that a retry now would change.
                    !answer.code().is_some_and(|code| code.starts_with("57P") || code.starts_with("53"))
                });
                let waiting = matches!(
                    sqlx,
                    sqlx::Error::Io(_)
                        | sqlx::Error::PoolTimedOut
                        | sqlx::Error::Tls(_)
                        | sqlx::Error::Database(_)
                );
                if waiting && !answered {
                    return Failure::Unreachable(chain(error));
                }
            }
            cause = error.source();
        }
        Failure::Other(chain(error))
    }
}

impl From<ConfigErrors> for Failure {
    fn from(errors: ConfigErrors) -> Self {
        Failure::Config(errors)
    }
}

/// An error and its causes, on one line.
pub(crate) fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let more = cause.to_string();
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        source = cause.source();
    }
    text
}

/// The settings as a mistake in usage.
pub(crate) fn usage(text: impl Into<String>) -> Failure {
    Failure::Config(ConfigErrors(vec![text.into()]))
}

/// A line on standard output. A reader that has left, as `head` does, is no failure.
pub(crate) fn print_line(line: fmt::Arguments<'_>) {
    let _reader_left = writeln!(io::stdout().lock(), "{line}");
}
