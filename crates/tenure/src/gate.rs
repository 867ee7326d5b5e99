//! The two gates: a worker runs only if it is compiled in *and* its toggle is on.
//!
//! | compiled in | toggle | outcome |
//! |---|---|---|
//! | no | off | nothing runs, nothing is said but the gate itself |
//! | no | on | nothing runs, and that is a loud warning: somebody expects it to |
//! | yes | off | nothing runs |
//! | yes | on | the worker competes for its role |
//!
//! A toggle is read from the environment only. A file baked into an image can't start a loop.

use crate::{Role, Worker};
use serde::Serialize;
use std::{env, fmt};
use thiserror::Error;

/// What a binary knows of one of its workers, whether it is compiled in or not.
///
/// Made by [`workers!`](crate::workers).
pub struct Declaration<C: ?Sized> {
    /// Name and key.
    pub role: Role,
    /// The Cargo feature that compiles it in.
    pub feature: &'static str,
    /// The environment variable that switches it on.
    pub toggle: &'static str,
    /// Makes the worker from the binary's context; `None` when it isn't compiled in.
    pub build: Option<Build<C>>,
}

/// Makes a worker from a binary's context.
pub type Build<C> = fn(&C) -> Box<dyn Worker>;

impl<C: ?Sized> Declaration<C> {
    /// Whether the worker is in this binary.
    pub const fn compiled(&self) -> bool {
        self.build.is_some()
    }

    /// Reads the toggle from the environment, and decides.
    ///
    /// # Errors
    ///
    /// [`ToggleError`] when the variable holds anything that isn't plainly true or false.
    pub fn gate(&self) -> Result<Gate, ToggleError> {
        let enabled = match env::var_os(self.toggle) {
            None => false,
            Some(value) => parse_toggle(self.toggle, &value.to_string_lossy())?,
        };
        Ok(Gate {
            role: self.role,
            feature: self.feature,
            toggle: self.toggle,
            compiled: self.compiled(),
            enabled,
            outcome: Outcome::decide(self.compiled(), enabled),
        })
    }
}

impl<C: ?Sized> fmt::Debug for Declaration<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Declaration({:?}, compiled {})", self.role, self.compiled())
    }
}

/// The gates of one worker, decided.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gate {
    /// Name and key.
    pub role: Role,
    /// The Cargo feature that compiles it in.
    pub feature: &'static str,
    /// The environment variable that switches it on.
    pub toggle: &'static str,
    /// The first gate.
    pub compiled: bool,
    /// The second gate.
    pub enabled: bool,
    /// What follows.
    pub outcome: Outcome,
}

impl Gate {
    /// Logs `worker.gate` and sets the gauge `tenure_worker_gate`. Called once for each worker at start.
    pub fn announce(&self) {
        crate::telemetry::gate(self);
    }

    /// One sentence for people: why the worker runs or doesn't.
    pub fn explain(&self) -> String {
        match self.outcome {
            Outcome::Runs => format!("competes for the role {}", self.role),
            Outcome::Off => format!("compiled in, but off: set {}=true to run it", self.toggle),
            Outcome::Missing => format!(
                "NOT RUNNING although {} is on: this binary was built without the feature {}; build with \
                 --features {}",
                self.toggle, self.feature, self.feature
            ),
            Outcome::Absent => format!(
                "not compiled in; build with --features {} and set {}=true to run it",
                self.feature, self.toggle
            ),
        }
    }
}

/// What follows from the two gates of a worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// Both gates are open: the worker competes for its role.
    Runs,
    /// Compiled in, toggle off.
    Off,
    /// Toggle on, but not compiled in. Nothing runs, and it is said loudly.
    Missing,
    /// Neither.
    Absent,
}

impl Outcome {
    /// The truth table.
    pub const fn decide(compiled: bool, enabled: bool) -> Self {
        match (compiled, enabled) {
            (true, true) => Outcome::Runs,
            (true, false) => Outcome::Off,
            (false, true) => Outcome::Missing,
            (false, false) => Outcome::Absent,
        }
    }

    /// The word in logs and in `--json` output.
    pub const fn as_str(self) -> &'static str {
        match self {
            Outcome::Runs => "runs",
            Outcome::Off => "off",
            Outcome::Missing => "missing",
            Outcome::Absent => "absent",
        }
    }
}

/// A toggle with a value that isn't plainly true or false. The start must be refused (exit code 2).
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error(
    "{variable}={value:?} is neither on (true, 1, yes, on) nor off (false, 0, no, off, empty): \
     set it to one of these, or unset it"
)]
pub struct ToggleError {
    /// The environment variable.
    pub variable: String,
    /// Its value.
    pub value: String,
}

/// Reads the value of a toggle, in any case.
///
/// # Errors
///
/// [`ToggleError`] for anything that isn't plainly true or false.
pub fn parse_toggle(variable: &str, value: &str) -> Result<bool, ToggleError> {
    match value.to_ascii_lowercase().as_str() {
        "true" | "1" | "yes" | "on" => Ok(true),
        "false" | "0" | "no" | "off" | "" => Ok(false),
        _ => Err(ToggleError { variable: variable.to_owned(), value: value.to_owned() }),
    }
}

/// Reads the gates of all workers.
///
/// # Errors
///
/// Every toggle that can't be read, not only the first.
pub fn gates<C: ?Sized>(declarations: &[Declaration<C>]) -> Result<Vec<Gate>, Vec<ToggleError>> {
    let (mut gates, mut errors) = (Vec::new(), Vec::new());
    for declaration in declarations {
        match declaration.gate() {
            Ok(gate) => gates.push(gate),
            Err(error) => errors.push(error),
        }
    }
    if errors.is_empty() { Ok(gates) } else { Err(errors) }
}

/// Builds the workers whose two gates are open.
///
/// # Errors
///
/// As [`gates`]: nothing is built when any toggle can't be read.
pub fn open_workers<C: ?Sized>(
    declarations: &[Declaration<C>],
    context: &C,
) -> Result<Vec<Box<dyn Worker>>, Vec<ToggleError>> {
    let gates = gates(declarations)?;
    Ok(declarations
        .iter()
        .zip(gates)
        .filter(|(_, gate)| gate.outcome == Outcome::Runs)
        .filter_map(|(declaration, _)| declaration.build.map(|build| build(context)))
        .collect())
}

/// The one visible list of a binary's workers: name, key, feature, toggle, and how each is made.
///
/// It makes a function that returns a [`Declaration`] for each. A worker whose feature is off is known
/// by name and key and not compiled. Two workers with one name or one key don't compile, nor does a
/// worker whose [`Singleton::ROLE`](crate::Singleton::ROLE) differs from its line.
///
/// ```
/// # use tenure::{Role, Singleton, Term, WorkerError, async_trait};
/// # struct Billing;
/// # #[async_trait]
/// # impl Singleton for Billing {
/// #     const ROLE: Role = Role::new("billing", 1_840_000_100);
/// #     async fn run(&self, _: Term) -> Result<(), WorkerError> { Ok(()) }
/// # }
/// tenure::workers! {
///     /// Everything that this service may run.
///     pub fn workers(context: &()) {
///         "billing" = 1_840_000_100, toggle "BILLING_ENABLED" => Billing;
///     }
/// }
/// assert!(workers()[0].compiled());
/// ```
///
/// With a feature, write `"billing" = 1_840_000_100, feature "billing", toggle "BILLING_ENABLED" => …;`.
#[macro_export]
macro_rules! workers {
    (
        $(#[$meta:meta])*
        $vis:vis fn $name:ident($context:ident: &$Context:ty) {
            $(
                $role:literal = $key:literal, $(feature $feature:literal,)? toggle $toggle:literal
                    => $worker:expr;
            )*
        }
    ) => {
        $(#[$meta])*
        $vis fn $name() -> ::std::vec::Vec<$crate::Declaration<$Context>> {
            const _: () = $crate::Role::assert_distinct(&[$($crate::Role::new($role, $key)),*]);
            let mut declarations = ::std::vec::Vec::new();
            $({
                const ROLE: $crate::Role = $crate::Role::new($role, $key);
                #[allow(unused_mut, unused_assignments, reason = "a worker may be compiled out")]
                let mut build: ::std::option::Option<fn(&$Context) -> ::std::boxed::Box<dyn $crate::Worker>> =
                    ::std::option::Option::None;
                $(#[cfg(feature = $feature)])?
                {
                    fn checked<S: $crate::Singleton>(worker: S) -> ::std::boxed::Box<dyn $crate::Worker> {
                        const { assert!(ROLE.same(&S::ROLE), "the worker's own ROLE differs from its line") };
                        ::std::boxed::Box::new(worker)
                    }
                    #[allow(unused_variables, reason = "a worker may need nothing from the context")]
                    fn make($context: &$Context) -> ::std::boxed::Box<dyn $crate::Worker> {
                        checked($worker)
                    }
                    build = ::std::option::Option::Some(make);
                }
                declarations.push($crate::Declaration {
                    role: ROLE,
                    feature: $crate::__first!($($feature,)? ""),
                    toggle: $toggle,
                    build,
                });
            })*
            declarations
        }
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __first {
    ($first:literal $(, $rest:literal)*) => {
        $first
    };
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_worker_runs_only_when_compiled_and_enabled() {
        assert_eq!(Outcome::decide(true, true), Outcome::Runs);
        assert_eq!(Outcome::decide(true, false), Outcome::Off);
        assert_eq!(Outcome::decide(false, true), Outcome::Missing);
        assert_eq!(Outcome::decide(false, false), Outcome::Absent);
    }

    #[test]
    fn a_toggle_is_plainly_on_or_off_in_any_case() {
        for on in ["true", "TRUE", "1", "yes", "Yes", "on", "ON"] {
            assert_eq!(parse_toggle("X", on), Ok(true), "{on}");
        }
        for off in ["false", "False", "0", "no", "off", "OFF", ""] {
            assert_eq!(parse_toggle("X", off), Ok(false), "{off}");
        }
    }

    #[test]
    fn an_unclear_toggle_names_the_variable_and_the_value() {
        let text = parse_toggle("TENURE_POLLER_ENABLED", "maybe").unwrap_err().to_string();
        assert!(text.contains("TENURE_POLLER_ENABLED") && text.contains("maybe"), "{text}");
    }

    proptest! {
        #[test]
        fn nothing_but_the_eight_words_is_taken(value in "[ -~]{0,6}") {
            let known = ["true", "1", "yes", "on", "false", "0", "no", "off", ""];
            let taken = parse_toggle("X", &value).is_ok();
            prop_assert_eq!(taken, known.contains(&value.to_ascii_lowercase().as_str()));
        }
    }
}
