//! The instants of an expression in a time zone: its ticks.
//!
//! The time line is a sequence of stretches with one offset from UTC. Within a stretch, a wall-clock time
//! and an instant differ by that offset, so the expression's next match is the next tick. At the border of
//! two stretches the wall clock jumps, and the [`DstRule`] decides:
//!
//! ```text
//! gap   01:59:59 → 03:00:00   matches in 02:00..03:00 become one tick at the border, or none
//! fold  02:59:59 → 02:00:00   matches in 02:00..03:00 come again; the second ones tick, or don't
//! ```
//!
//! Nothing here knows the length of a change, so half an hour (`Lord_Howe`) and a whole day (Apia's missing
//! 30 December 2011) are no special cases.

use crate::{dst::DstRule, expression::Expression};
use chrono::{
    DateTime, Duration, LocalResult, NaiveDateTime, Offset as _, TimeZone as _, Timelike as _, Utc,
};
use chrono_tz::Tz;

/// The ticks of one schedule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Timetable {
    expression: Expression,
    zone: Tz,
    rule: DstRule,
}

impl Timetable {
    /// The ticks of `expression` on the wall clocks of `zone`.
    pub const fn new(expression: Expression, zone: Tz, rule: DstRule) -> Self {
        Self { expression, zone, rule }
    }

    /// The first tick strictly later than `after`. `None` when there is none before the year 5000.
    pub fn next_after(&self, after: DateTime<Utc>) -> Option<DateTime<Utc>> {
        let mut from = whole_second(after) + Duration::seconds(1);
        loop {
            let offset = self.offset_at(from);
            let before = self.offset_at(from - Duration::seconds(1));
            if offset > before && self.gap_ticks(local(from, before), local(from, offset)) {
                return Some(from);
            }
            let civil = self.expression.first_from(local(from, offset))?;
            let tick = civil.and_utc() - offset;
            if let Some(change) = self.change_within(from, tick) {
                from = change;
            } else if self.is_suppressed_repeat(civil, tick) {
                from = tick + Duration::seconds(1);
            } else {
                return Some(tick);
            }
        }
    }

    /// The last tick that is later than `after` and not later than `until`, found without walking through
    /// the ticks between: a pause of a year with a tick each second costs some thirty steps.
    pub fn newest(&self, after: DateTime<Utc>, until: DateTime<Utc>) -> Option<DateTime<Utc>> {
        let due = |from| self.next_after(from).filter(|tick| *tick <= until);
        let mut newest = due(after)?;
        let mut none_after = until;
        while none_after - newest > Duration::seconds(1) {
            let middle = newest + (none_after - newest) / 2;
            match due(middle) {
                Some(tick) => newest = tick,
                None => none_after = middle,
            }
        }
        Some(due(newest).unwrap_or(newest))
    }

    /// All ticks later than `after` and not later than `until`, in order.
    pub fn between(
        &self,
        after: DateTime<Utc>,
        until: DateTime<Utc>,
    ) -> impl Iterator<Item = DateTime<Utc>> + '_ {
        std::iter::successors(self.next_after(after), |tick| self.next_after(*tick))
            .take_while(move |tick| *tick <= until)
    }

    /// Whether the wall-clock times from `start` to before `end`, which never happen, deserve a tick.
    fn gap_ticks(&self, start: NaiveDateTime, end: NaiveDateTime) -> bool {
        if self.rule == DstRule::RealTime {
            return false;
        }
        let shift = end - start;
        std::iter::successors(self.expression.first_from(start), |civil| {
            self.expression.first_from(*civil + Duration::seconds(1))
        })
        .take_while(|civil| *civil < end)
        .any(|civil| !self.rule.is_real_time(self.is_steady(civil, shift)))
    }

    /// Whether `tick` is the second occurrence of `civil` and the rule wants only the first.
    fn is_suppressed_repeat(&self, civil: NaiveDateTime, tick: DateTime<Utc>) -> bool {
        match self.zone.from_local_datetime(&civil) {
            LocalResult::Ambiguous(first, second) if tick == second.max(first) => {
                let shift = (second - first).abs();
                !self.rule.is_real_time(self.is_steady(civil, shift))
            }
            _ => false,
        }
    }

    fn is_steady(&self, civil: NaiveDateTime, shift: Duration) -> bool {
        self.expression.matches(civil - shift) && self.expression.matches(civil + shift)
    }

    /// The first instant later than `from`, and not later than `until`, at which the offset changes.
    fn change_within(&self, from: DateTime<Utc>, until: DateTime<Utc>) -> Option<DateTime<Utc>> {
        let offset = self.offset_at(from);
        let mut same = from;
        while same < until {
            // No zone changes its clocks twice within a day, so a day's step can't jump over a pair.
            let probe = (same + Duration::days(1)).min(until);
            if self.offset_at(probe) == offset {
                same = probe;
                continue;
            }
            let mut changed = probe;
            while changed - same > Duration::seconds(1) {
                let middle = whole_second(same + (changed - same) / 2);
                if self.offset_at(middle) == offset { same = middle } else { changed = middle }
            }
            return Some(changed);
        }
        None
    }

    fn offset_at(&self, instant: DateTime<Utc>) -> Duration {
        let offset = self.zone.offset_from_utc_datetime(&instant.naive_utc()).fix();
        Duration::seconds(i64::from(offset.local_minus_utc()))
    }
}

fn local(instant: DateTime<Utc>, offset: Duration) -> NaiveDateTime {
    instant.naive_utc() + offset
}

fn whole_second(instant: DateTime<Utc>) -> DateTime<Utc> {
    instant.with_nanosecond(0).unwrap_or(instant)
}
