//! The states of a job.

use serde::{Deserialize, Serialize};
use std::{fmt, str::FromStr};

/// Where a job is in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum JobState {
    /// It waits for its time or its turn.
    Available,
    /// An attempt is under way.
    Running,
    /// It succeeded.
    Completed,
    /// It was given up: a dead letter.
    Discarded,
    /// Somebody took it back before it ran.
    Cancelled,
}

impl JobState {
    /// Every state, in the order of a job's life.
    pub const ALL: [JobState; 5] = [
        JobState::Available,
        JobState::Running,
        JobState::Completed,
        JobState::Discarded,
        JobState::Cancelled,
    ];

    /// The word in the table and in metrics.
    pub const fn as_str(self) -> &'static str {
        match self {
            JobState::Available => "available",
            JobState::Running => "running",
            JobState::Completed => "completed",
            JobState::Discarded => "discarded",
            JobState::Cancelled => "cancelled",
        }
    }

    /// Whether the job is over.
    pub const fn is_finished(self) -> bool {
        !matches!(self, JobState::Available | JobState::Running)
    }
}

impl fmt::Display for JobState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A word that is no state of a job.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no state of a job: available, running, completed, discarded or cancelled")]
pub struct UnknownState(String);

impl FromStr for JobState {
    type Err = UnknownState;

    fn from_str(word: &str) -> Result<Self, UnknownState> {
        Self::ALL
            .into_iter()
            .find(|state| state.as_str() == word)
            .ok_or_else(|| UnknownState(word.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_state_is_read_back_from_its_word() {
        for state in JobState::ALL {
            assert_eq!(state.as_str().parse(), Ok(state));
        }
        assert!("retryable".parse::<JobState>().is_err());
    }
}
