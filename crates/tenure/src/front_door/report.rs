//! What an examination of the front door found, for people and for programs.

use serde::Serialize;
use std::fmt;

/// The steps of the examination, in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Step {
    /// A connection can be made and answers.
    Connect,
    /// What the startup packet said reads back.
    Canary,
    /// The backend isn't older than our attempt to connect, twice in a row.
    Age,
    /// Other connections reach other backends and are kept out by our lock.
    Exclusion,
    /// The same backend answers throughout, and keeps what the session has.
    Stability,
    /// The server is a writable primary of a version that has the bounds.
    Role,
}

impl Step {
    /// All steps in order.
    pub const ALL: [Step; 6] =
        [Step::Connect, Step::Canary, Step::Age, Step::Exclusion, Step::Stability, Step::Role];

    /// The word in logs and in `--json` output.
    pub const fn as_str(self) -> &'static str {
        match self {
            Step::Connect => "connect",
            Step::Canary => "canary",
            Step::Age => "age",
            Step::Exclusion => "exclusion",
            Step::Stability => "stability",
            Step::Role => "role",
        }
    }

    /// What passing the step proves.
    pub const fn proves(self) -> &'static str {
        match self {
            Step::Connect => "something that speaks PostgreSQL's protocol answers and lets us in",
            Step::Canary => "our startup packet, with the bounds in it, reached the backend that answers",
            Step::Age => "the backend was made for this connection, not taken from a pool",
            Step::Exclusion => {
                "other connections have other backends in the same database, and our advisory lock keeps \
                 them out"
            }
            Step::Stability => {
                "statements of this connection all reach one backend, which was clean and keeps its session \
                 state"
            }
            Step::Role => "it is a writable primary, new enough to end a silent session by itself",
        }
    }

    /// What can be wrong with a door that passes this step alone.
    pub const fn misses(self) -> &'static str {
        match self {
            Step::Connect => "everything that answers",
            Step::Canary => "a pooler that repeats unknown startup options by SET",
            Step::Age => {
                "a pool that opens a new backend for each client or transaction; a clock that is set back"
            }
            Step::Exclusion => "a session that moves later, when no other transaction pushes it",
            Step::Stability => {
                "a pool that is idle, or moves a session after a time; each heartbeat looks again"
            }
            Step::Role => "a primary that is demoted later; each heartbeat looks again",
        }
    }

    /// Which good door this step refuses.
    pub const fn refuses_wrongly(self) -> &'static str {
        match self {
            Step::Connect | Step::Role => "none",
            Step::Canary | Step::Age => "a pooler in session mode, until it is declared",
            Step::Exclusion => "one that lets in a single connection, where nobody could stand by",
            Step::Stability => "none: a session pooler that hands on what it didn't clean strands locks",
        }
    }

    /// What the step costs: connections and round trips on a door that passes.
    pub const fn costs(self) -> &'static str {
        match self {
            Step::Connect | Step::Age => "1 connection, 3 round trips",
            Step::Canary | Step::Role => "nothing: it is read with the first answer",
            Step::Exclusion => "2 connections, 23 round trips",
            Step::Stability => "13 round trips",
        }
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// How a step went.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum StepOutcome {
    /// It proved what it is for.
    Passed,
    /// It didn't, but was only asked for information: the operator declared a session pooler.
    Advisory,
    /// It didn't, and that decides.
    Refused,
}

/// One step of an examination.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct StepReport {
    /// Which step.
    pub step: Step,
    /// How it went.
    pub outcome: StepOutcome,
    /// What passing would prove.
    pub proves: &'static str,
    /// What was seen.
    pub evidence: String,
}

/// The verdict of an examination.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "verdict", rename_all = "snake_case")]
pub enum Verdict {
    /// A lease may be held through this door.
    Accepted,
    /// It may not.
    Refused {
        /// The step that decided.
        step: Step,
        /// What it saw.
        because: String,
        /// What to do.
        advice: String,
    },
    /// Nothing can be said: the database can't be reached, or fails.
    Unreachable {
        /// Why, as the server or the network said it.
        because: String,
        /// What to do.
        advice: String,
    },
}

/// An examination of the front door, as far as it went: a refusal ends it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Examination {
    /// The address that was examined, without its password.
    pub address: String,
    /// The steps that were made, in order.
    pub steps: Vec<StepReport>,
    /// What follows.
    #[serde(flatten)]
    pub verdict: Verdict,
}

impl Examination {
    /// Whether a lease may be held through this door.
    pub const fn accepted(&self) -> bool {
        matches!(self.verdict, Verdict::Accepted)
    }
}
