//! A stored schedule, understood: the words of its row as the types that decide.

use crate::{
    config::Overlap,
    dst::UnknownDstRule,
    expression::ExpressionError,
    misfire::{CatchUp, Misfire},
    plan::{self, Plan},
    timetable::Timetable,
};
use chrono::{DateTime, Duration, Utc};
use chrono_tz::Tz;
use tenure_jobs::schedule::{Definition, StoredSchedule};
use thiserror::Error;

/// How one schedule is to be fired.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Policy {
    /// Its ticks.
    pub timetable: Timetable,
    /// What becomes of missed ticks.
    pub misfire: Misfire,
    /// Until so long after it was due, a tick is on time.
    pub grace: Duration,
    /// What a tick does while a job of an earlier one is unfinished.
    pub overlap: Overlap,
}

/// Why a stored schedule can't be fired. The others go on.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum InvalidSchedule {
    /// The cron expression.
    #[error(transparent)]
    Expression(#[from] ExpressionError),
    /// The time zone.
    #[error("{0:?} is no time zone that this binary knows; use an IANA name, such as \"Europe/Madrid\"")]
    TimeZone(String),
    /// The rule for clock changes.
    #[error(transparent)]
    DstRule(#[from] UnknownDstRule),
    /// The misfire policy: a newer binary may know it.
    #[error("{0:?} is no misfire policy that this binary knows; use skip, run_once or catch_up")]
    Misfire(String),
    /// The overlap policy: a newer binary may know it.
    #[error("{0:?} is no overlap policy that this binary knows; use allow or skip")]
    Overlap(String),
}

impl Policy {
    /// Decides about the due ticks of `stored` at `now`. See [`plan::decide`].
    pub fn decide(&self, stored: &StoredSchedule, now: DateTime<Utc>) -> Plan {
        plan::decide(&self.timetable, &self.misfire, self.grace, stored.settled(), now)
    }
}

impl TryFrom<&Definition> for Policy {
    type Error = InvalidSchedule;

    fn try_from(definition: &Definition) -> Result<Self, InvalidSchedule> {
        let zone: Tz = definition
            .time_zone
            .parse()
            .map_err(|_| InvalidSchedule::TimeZone(definition.time_zone.clone()))?;
        let misfire = match (definition.misfire.as_str(), definition.catch_up) {
            ("skip", _) => Misfire::Skip,
            ("run_once", _) => Misfire::RunOnce,
            ("catch_up", Some((window, cap))) => {
                Misfire::CatchUp(CatchUp { window, cap: cap.clamp(1, CatchUp::MAX_CAP) })
            }
            (other, _) => return Err(InvalidSchedule::Misfire(other.to_owned())),
        };
        let overlap = [Overlap::Allow, Overlap::Skip]
            .into_iter()
            .find(|overlap| overlap.as_str() == definition.overlap)
            .ok_or_else(|| InvalidSchedule::Overlap(definition.overlap.clone()))?;
        Ok(Self {
            timetable: Timetable::new(definition.expression.parse()?, zone, definition.dst_rule.parse()?),
            misfire,
            grace: Duration::from_std(definition.grace).unwrap_or(Duration::MAX),
            overlap,
        })
    }
}
