//! What becomes of the ticks that are due: which fire, which are skipped and why, and when to look again.
//!
//! Pure: the time comes in as a parameter, read from the database's clock.

use crate::{misfire::Misfire, timetable::Timetable};
use chrono::{DateTime, Duration, Utc};
use std::fmt;

/// Up to this many ticks are counted one by one in a run of skipped ticks. Beyond, the ledger says "more
/// than": a schedule with a tick each second that was paused for a year isn't worth 31 million steps.
pub const COUNT_LIMIT: u32 = 10_000;

/// How many ticks may be on time at once. A wide grace on a schedule of seconds is no way around a cap.
pub const ON_TIME_CAP: u32 = 100;

/// What to do about one schedule now.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Plan {
    /// Ticks to fire, oldest first.
    pub fire: Vec<DateTime<Utc>>,
    /// Ticks that don't fire, oldest first. All are older than those that do.
    pub skip: Vec<Skipped>,
    /// The newest tick that is settled by this plan. Nothing is due when it is `None`.
    pub newest: Option<DateTime<Utc>>,
    /// The next tick, strictly later than everything that is settled.
    pub next: Option<DateTime<Utc>>,
}

/// A run of consecutive ticks that don't fire, for one reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Skipped {
    /// The first of them.
    pub first: DateTime<Utc>,
    /// The last of them.
    pub last: DateTime<Utc>,
    /// How many, up to [`COUNT_LIMIT`].
    pub count: u32,
    /// Why.
    pub reason: SkipReason,
}

/// Why ticks don't fire.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SkipReason {
    /// Too late, and the schedule's policy is to skip those.
    Late,
    /// Too late, and one newer tick runs for all of them.
    OneRunForAll,
    /// Older than the catch-up window.
    OutsideWindow,
    /// Within the window, but more than may be caught up at once.
    OverCap,
}

impl SkipReason {
    /// The reason in words, for the ledger.
    pub const fn as_str(self) -> &'static str {
        match self {
            SkipReason::Late => "missed, and the misfire policy is skip",
            SkipReason::OneRunForAll => "missed; a newer tick ran once for all of them",
            SkipReason::OutsideWindow => "older than the catch-up window",
            SkipReason::OverCap => "more missed ticks than the cap",
        }
    }
}

impl fmt::Display for SkipReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Decides about the ticks later than `settled` and not later than `now`.
///
/// A tick is *on time* until `grace` after it was due; a failover takes seconds, and isn't a misfire.
/// When the database's clock went back behind `settled`, nothing is due until it has passed it again.
pub fn decide(
    timetable: &Timetable,
    misfire: &Misfire,
    grace: Duration,
    settled: DateTime<Utc>,
    now: DateTime<Utc>,
) -> Plan {
    let Some(newest) = timetable.newest(settled, now) else {
        return Plan { next: timetable.next_after(settled), ..Plan::default() };
    };
    let (reach, cap, reason) = match misfire {
        Misfire::Skip => (grace, ON_TIME_CAP, SkipReason::Late),
        Misfire::RunOnce => (grace, ON_TIME_CAP, SkipReason::OneRunForAll),
        Misfire::CatchUp(catch_up) => {
            (grace.max(catch_up.window()), catch_up.cap.max(1), SkipReason::OutsideWindow)
        }
    };
    let reach = now.checked_sub_signed(reach).unwrap_or(settled).max(settled);
    let mut fire = newest_few(timetable, reach, now, cap);
    if fire.is_empty() && *misfire == Misfire::RunOnce {
        fire.push(newest);
    }
    let before_fired = fire.first().map_or(now, |first| *first - Duration::seconds(1));
    let skip = [
        run(timetable, settled, reach.min(before_fired), reason),
        run(timetable, reach, before_fired, SkipReason::OverCap),
    ];
    Plan {
        fire,
        skip: skip.into_iter().flatten().collect(),
        newest: Some(newest),
        next: timetable.next_after(newest),
    }
}

/// The newest `cap` ticks in `(after, until]`, oldest first.
fn newest_few(
    timetable: &Timetable,
    after: DateTime<Utc>,
    until: DateTime<Utc>,
    cap: u32,
) -> Vec<DateTime<Utc>> {
    let mut ticks: Vec<_> = std::iter::successors(timetable.newest(after, until), |tick| {
        timetable.newest(after, *tick - Duration::seconds(1))
    })
    .take(usize::try_from(cap).unwrap_or(usize::MAX))
    .collect();
    ticks.reverse();
    ticks
}

/// The ticks in `(after, until]` as one run. `None` when there are none.
fn run(
    timetable: &Timetable,
    after: DateTime<Utc>,
    until: DateTime<Utc>,
    reason: SkipReason,
) -> Option<Skipped> {
    let last = timetable.newest(after, until)?;
    let first = timetable.next_after(after)?;
    let count = timetable.between(after, until).take(COUNT_LIMIT as usize).map(|_| 1).sum();
    Some(Skipped { first, last, count, reason })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{dst::DstRule, misfire::CatchUp};

    fn at(text: &str) -> DateTime<Utc> {
        text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    fn every(expression: &str) -> Timetable {
        Timetable::new(expression.parse().expect("an expression"), chrono_tz::UTC, DstRule::Auto)
    }

    fn plan(misfire: &Misfire, settled: &str, now: &str) -> Plan {
        decide(&every("*/10 * * * *"), misfire, Duration::seconds(60), at(settled), at(now))
    }

    fn catch_up(minutes: u64, cap: u32) -> Misfire {
        Misfire::CatchUp(CatchUp { window: std::time::Duration::from_secs(minutes * 60), cap })
    }

    #[test]
    fn nothing_is_due_before_the_next_tick() {
        let plan = plan(&Misfire::Skip, "2025-01-01T10:00:00Z", "2025-01-01T10:09:59.999Z");
        assert_eq!(plan, Plan { next: Some(at("2025-01-01T10:10:00Z")), ..Plan::default() });
    }

    #[test]
    fn a_tick_fires_at_its_very_instant() {
        let plan = plan(&Misfire::Skip, "2025-01-01T10:00:00Z", "2025-01-01T10:10:00Z");
        assert_eq!(plan.fire, [at("2025-01-01T10:10:00Z")]);
        assert_eq!(plan.next, Some(at("2025-01-01T10:20:00Z")), "strictly later");
        assert!(plan.skip.is_empty());
    }

    #[test]
    fn a_tick_within_the_grace_is_on_time_under_every_policy() {
        for misfire in [Misfire::Skip, Misfire::RunOnce, catch_up(0, 1)] {
            let plan = plan(&misfire, "2025-01-01T10:00:00Z", "2025-01-01T10:10:59Z");
            assert_eq!(plan.fire, [at("2025-01-01T10:10:00Z")], "{misfire:?}");
        }
    }

    #[test]
    fn skip_leaves_late_ticks_out_and_says_so() {
        let plan = plan(&Misfire::Skip, "2025-01-01T10:00:00Z", "2025-01-01T10:35:00Z");
        assert!(plan.fire.is_empty());
        assert_eq!(
            plan.skip,
            [Skipped {
                first: at("2025-01-01T10:10:00Z"),
                last: at("2025-01-01T10:30:00Z"),
                count: 3,
                reason: SkipReason::Late
            }]
        );
        assert_eq!(plan.newest, Some(at("2025-01-01T10:30:00Z")));
    }

    #[test]
    fn run_once_fires_the_newest_missed_tick() {
        let plan = plan(&Misfire::RunOnce, "2025-01-01T10:00:00Z", "2025-01-01T10:35:00Z");
        assert_eq!(plan.fire, [at("2025-01-01T10:30:00Z")]);
        assert_eq!((plan.skip[0].count, plan.skip[0].reason), (2, SkipReason::OneRunForAll));
    }

    #[test]
    fn run_once_adds_no_run_to_a_tick_that_is_on_time() {
        let plan = plan(&Misfire::RunOnce, "2025-01-01T10:00:00Z", "2025-01-01T10:30:05Z");
        assert_eq!(plan.fire, [at("2025-01-01T10:30:00Z")]);
        assert_eq!(plan.skip[0].count, 2);
    }

    #[test]
    fn catching_up_stays_within_its_window_and_its_cap() {
        let plan = plan(&catch_up(60, 3), "2025-01-01T08:00:00Z", "2025-01-01T10:35:00Z");
        assert_eq!(
            plan.fire,
            [at("2025-01-01T10:10:00Z"), at("2025-01-01T10:20:00Z"), at("2025-01-01T10:30:00Z")]
        );
        let skipped: Vec<_> = plan.skip.iter().map(|s| (s.count, s.reason)).collect();
        assert_eq!(skipped, [(9, SkipReason::OutsideWindow), (3, SkipReason::OverCap)]);
    }

    #[test]
    fn a_long_pause_is_settled_at_once_and_the_schedule_goes_on() {
        let seconds = every("* * * * * *");
        let plan = decide(
            &seconds,
            &catch_up(60 * 24 * 365, 2),
            Duration::seconds(0),
            at("2024-01-01T00:00:00Z"),
            at("2025-01-01T00:00:00Z"),
        );
        assert_eq!(plan.fire.len(), 2);
        assert_eq!(plan.newest, Some(at("2025-01-01T00:00:00Z")));
        assert_eq!(plan.next, Some(at("2025-01-01T00:00:01Z")));
        assert!(plan.skip.iter().all(|run| run.count == COUNT_LIMIT));
    }

    #[test]
    fn a_clock_that_went_back_makes_nothing_due() {
        let plan = plan(&Misfire::RunOnce, "2025-01-01T10:30:00Z", "2025-01-01T10:00:00Z");
        assert!(plan.fire.is_empty() && plan.skip.is_empty());
        assert_eq!(plan.next, Some(at("2025-01-01T10:40:00Z")));
    }
}
