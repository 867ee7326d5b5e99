//! What becomes of a wall-clock time that a clock change skips or repeats.

use serde::{Deserialize, Serialize};
use std::{fmt, str::FromStr};
use thiserror::Error;

/// The rule of one schedule for clock changes.
///
/// A *gap* is the range of wall-clock times that never happens (spring), a *fold* the range that happens
/// twice (autumn).
///
/// | rule | in a gap | in a fold |
/// |---|---|---|
/// | `auto` | as `real_time` for a steady rhythm, else as `once` | the same |
/// | `once` | one tick at the first instant after the gap | the first occurrence |
/// | `real_time` | no tick | both occurrences |
///
/// With `auto`, a time is part of a *steady rhythm* when the expression also matches one clock change
/// earlier and later: 02:15 of `*/15 * * * *` in a zone that moves by an hour, since 01:15 and 03:15 match
/// too. Such ticks go on in real time, at their usual distance: none is lost and none doubled. Everything
/// else (`30 2 * * *`, and `0 */2 * * *` too) runs exactly once for each time that it names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DstRule {
    /// Real time for a steady rhythm, else once.
    #[default]
    Auto,
    /// Once: after the gap, and at the first of two occurrences.
    Once,
    /// Every instant at which the wall clock matches.
    RealTime,
}

/// A text that is no [`DstRule`].
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{0:?} is no rule for clock changes; use auto, once or real_time")]
pub struct UnknownDstRule(pub String);

impl DstRule {
    /// The name, as in configuration and in the database.
    pub const fn as_str(self) -> &'static str {
        match self {
            DstRule::Auto => "auto",
            DstRule::Once => "once",
            DstRule::RealTime => "real_time",
        }
    }

    /// Whether a wall-clock time in a gap or fold is treated as a point in real time.
    pub(crate) fn is_real_time(self, steady_rhythm: bool) -> bool {
        match self {
            DstRule::Auto => steady_rhythm,
            DstRule::Once => false,
            DstRule::RealTime => true,
        }
    }
}

impl FromStr for DstRule {
    type Err = UnknownDstRule;

    fn from_str(text: &str) -> Result<Self, UnknownDstRule> {
        [DstRule::Auto, DstRule::Once, DstRule::RealTime]
            .into_iter()
            .find(|rule| rule.as_str() == text)
            .ok_or_else(|| UnknownDstRule(text.to_owned()))
    }
}

impl fmt::Display for DstRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
