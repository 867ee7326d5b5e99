//! What to do about ticks that came while nobody led.

use serde::{Deserialize, Serialize};
use std::time::Duration;

/// The misfire policy of a schedule. A tick is missed when nobody fired it within the schedule's grace.
///
/// ```toml
/// misfire = "skip"
/// misfire = "run_once"
/// misfire = { catch_up = { window = "6h", cap = 10 } }
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Misfire {
    /// Missed ticks don't run.
    Skip,
    /// The newest missed tick runs, once for all that were missed.
    #[default]
    RunOnce,
    /// Missed ticks run, within a window and up to a cap.
    CatchUp(CatchUp),
}

/// The bounds of catching up. What lies outside is recorded as skipped.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CatchUp {
    /// How old a tick may be when it is caught up.
    #[serde(with = "humantime_serde")]
    pub window: Duration,
    /// How many ticks at most are caught up at once, from 1 to [`CatchUp::MAX_CAP`]: the newest ones.
    pub cap: u32,
}

impl CatchUp {
    /// The highest cap. All ticks of one catch-up are one transaction.
    pub const MAX_CAP: u32 = 1_000;

    /// The window as a signed span; one that is too long for it is as long as it can be.
    pub(crate) fn window(&self) -> chrono::Duration {
        chrono::Duration::from_std(self.window).unwrap_or(chrono::Duration::MAX)
    }
}

impl Misfire {
    /// The name of the policy, as in the database.
    pub const fn as_str(&self) -> &'static str {
        match self {
            Misfire::Skip => "skip",
            Misfire::RunOnce => "run_once",
            Misfire::CatchUp(_) => "catch_up",
        }
    }
}
