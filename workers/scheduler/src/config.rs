//! The section `[scheduler]`.

use crate::{dst::DstRule, expression::Expression, misfire::CatchUp, misfire::Misfire};
use chrono_tz::Tz;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::{collections::BTreeMap, fmt, str::FromStr as _, time::Duration};
use tenure_jobs::schedule::Definition;
use thiserror::Error;

/// The section `[scheduler]`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SchedulerConfig {
    /// The longest sleep: schedules that were added or changed by others are seen after this time.
    #[serde(with = "humantime_serde")]
    pub poll_interval: Duration,
    /// The schedules that this configuration declares, by name. Those in the database that it doesn't
    /// declare go on firing; they are removed by hand.
    pub schedules: BTreeMap<String, ScheduleConfig>,
}

impl Default for SchedulerConfig {
    fn default() -> Self {
        Self { poll_interval: Duration::from_secs(15), schedules: BTreeMap::new() }
    }
}

/// One declared schedule: `[scheduler.schedules.NAME]`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScheduleConfig {
    /// Kind of the job that each tick enqueues.
    pub kind: String,
    /// Five fields as in crontab, or six with seconds first.
    pub cron: String,
    /// IANA time zone whose wall clock the expression follows.
    #[serde(default = "utc")]
    pub time_zone: String,
    /// Payload of the jobs.
    #[serde(default = "empty_object")]
    pub payload: Value,
    /// Queue of the jobs.
    #[serde(default = "default_queue")]
    pub queue: String,
    /// What becomes of ticks that nobody fired in time.
    #[serde(default)]
    pub misfire: Misfire,
    /// Until so long after it was due, a tick is on time. A failover should fit in.
    #[serde(default = "default_grace", with = "humantime_serde")]
    pub grace: Duration,
    /// The rule for wall-clock times that a clock change skips or repeats.
    #[serde(default)]
    pub dst: DstRule,
    /// What a tick does while a job of an earlier one is unfinished.
    #[serde(default)]
    pub overlap: Overlap,
    /// Whether it fires.
    #[serde(default = "yes")]
    pub enabled: bool,
}

/// What a tick does while a job of an earlier tick of its schedule is unfinished.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Overlap {
    /// It fires.
    #[default]
    Allow,
    /// It is recorded as skipped.
    Skip,
}

impl Overlap {
    /// The name, as in the database.
    pub const fn as_str(self) -> &'static str {
        match self {
            Overlap::Allow => "allow",
            Overlap::Skip => "skip",
        }
    }
}

/// What is wrong with a key of this section, and what to do.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{key}: {problem}")]
pub struct ConfigError {
    /// The key's full path, such as `scheduler.schedules.report.cron`.
    pub key: String,
    /// What is wrong, and what to do.
    pub problem: String,
}

impl SchedulerConfig {
    /// Everything that is wrong with this section. Empty when it can be used.
    pub fn validate(&self) -> Vec<ConfigError> {
        let mut errors = Vec::new();
        if self.poll_interval < Duration::from_millis(100) {
            errors.push(ConfigError {
                key: "scheduler.poll_interval".to_owned(),
                problem: format!("{:?} is too short; use at least 100ms", self.poll_interval),
            });
        }
        for (name, schedule) in &self.schedules {
            schedule.validate(name, &mut errors);
        }
        errors
    }
}

impl ScheduleConfig {
    fn validate(&self, name: &str, errors: &mut Vec<ConfigError>) {
        let mut refuse = |field: &str, problem: &dyn fmt::Display| {
            let key = format!("scheduler.schedules.{name}.{field}");
            errors.push(ConfigError {
                key: key.trim_end_matches('.').to_owned(),
                problem: problem.to_string(),
            });
        };
        if name.is_empty() || name.len() > 200 || name.contains('\0') {
            refuse("", &"a schedule's name has 1 to 200 bytes, without NUL; rename it");
        }
        if let Err(error) = self.cron.parse::<Expression>() {
            refuse("cron", &error);
        }
        if Tz::from_str(&self.time_zone).is_err() {
            refuse(
                "time_zone",
                &format!("{:?} is no time zone; use an IANA name, such as \"Europe/Madrid\"", self.time_zone),
            );
        }
        if let Misfire::CatchUp(CatchUp { cap, .. }) = self.misfire
            && !(1..=CatchUp::MAX_CAP).contains(&cap)
        {
            refuse("misfire.catch_up.cap", &format!("{cap} is not from 1 to {}", CatchUp::MAX_CAP));
        }
        if let Err(error) = self.definition(name).job() {
            refuse("", &error);
        }
    }

    /// The schedule as it is stored.
    pub(crate) fn definition(&self, name: &str) -> Definition {
        Definition {
            name: name.to_owned(),
            kind: self.kind.clone(),
            expression: self.cron.clone(),
            time_zone: self.time_zone.clone(),
            payload: self.payload.clone(),
            queue: self.queue.clone(),
            misfire: self.misfire.as_str().to_owned(),
            catch_up: match &self.misfire {
                Misfire::CatchUp(catch_up) => Some((catch_up.window, catch_up.cap)),
                Misfire::Skip | Misfire::RunOnce => None,
            },
            grace: self.grace,
            dst_rule: self.dst.as_str().to_owned(),
            overlap: self.overlap.as_str().to_owned(),
            enabled: self.enabled,
        }
    }
}

fn utc() -> String {
    "UTC".to_owned()
}

fn empty_object() -> Value {
    Value::Object(Map::new())
}

fn default_queue() -> String {
    "default".to_owned()
}

const fn default_grace() -> Duration {
    Duration::from_secs(60)
}

const fn yes() -> bool {
    true
}
