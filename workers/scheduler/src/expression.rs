//! Cron expressions: what they accept, and whether a wall-clock time matches.
//!
//! Five fields as in crontab (minute, hour, day of month, month, day of week), or six with seconds in
//! front. Days of the week follow crontab: 0 and 7 are Sunday, 1 is Monday; names work too. When both the
//! day of month and the day of week are restricted, either one is enough, also as in crontab. `@hourly`,
//! `@daily`, `@weekly`, `@monthly` and `@yearly` are understood.
//!
//! An expression only speaks of wall-clock times. Which instants those are is decided in
//! [`timetable`](crate::timetable), by an explicit rule.

use chrono::{DateTime, NaiveDateTime};
use croner::{
    Cron,
    parser::{CronParser, Year},
};
use std::{fmt, str::FromStr};
use thiserror::Error;

/// A parsed cron expression that matches at least one time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Expression {
    source: String,
    cron: Cron,
}

/// Why a text isn't a usable cron expression.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ExpressionError {
    /// The text doesn't follow the grammar, or a number is out of its field's range.
    #[error(
        "{source_text:?} is not a cron expression: {detail}; write five fields (minute hour day-of-month \
         month day-of-week) or six with seconds first, such as \"30 2 * * *\""
    )]
    Malformed {
        /// The text.
        source_text: String,
        /// What is wrong with it.
        detail: String,
    },
    /// No date has all the parts that the expression asks for, such as 30 February.
    #[error("{source_text:?} never happens: no date matches its day and month; correct one of them")]
    Never {
        /// The text.
        source_text: String,
    },
}

impl Expression {
    /// The text that it was parsed from.
    pub fn as_str(&self) -> &str {
        &self.source
    }

    /// Whether it matches the wall-clock time `civil`, which is taken in whole seconds.
    pub fn matches(&self, civil: NaiveDateTime) -> bool {
        self.cron.is_time_matching(&civil).unwrap_or(false)
    }

    /// The first wall-clock time at or after `civil` that it matches. `None` when there is none before the
    /// year 5000.
    pub fn first_from(&self, civil: NaiveDateTime) -> Option<NaiveDateTime> {
        self.cron.find_next_occurrence(&civil, true).ok()
    }
}

impl FromStr for Expression {
    type Err = ExpressionError;

    fn from_str(text: &str) -> Result<Self, ExpressionError> {
        let malformed = |detail: String| ExpressionError::Malformed { source_text: text.to_owned(), detail };
        // A seventh field (years) would be one more way to write a schedule that stops for ever.
        let cron = CronParser::builder()
            .year(Year::Disallowed)
            .build()
            .parse(text)
            .map_err(|error| malformed(error.to_string()))?;
        // A leap day can be eight years away (1896 to 1904), so the search has no shorter bound.
        if cron.find_next_occurrence(&DateTime::UNIX_EPOCH.naive_utc(), true).is_err() {
            return Err(ExpressionError::Never { source_text: text.to_owned() });
        }
        Ok(Self { source: text.to_owned(), cron })
    }
}

impl fmt::Display for Expression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.source)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use chrono::{Datelike as _, Weekday};

    fn parse(text: &str) -> Expression {
        text.parse().unwrap_or_else(|error| panic!("{error}"))
    }

    fn first_day(text: &str) -> Weekday {
        parse(text).first_from(DateTime::UNIX_EPOCH.naive_utc()).expect("a match").weekday()
    }

    #[test]
    fn days_of_the_week_follow_the_crontab_convention() {
        let days = [
            ("0", "SUN", Weekday::Sun),
            ("1", "MON", Weekday::Mon),
            ("2", "TUE", Weekday::Tue),
            ("3", "WED", Weekday::Wed),
            ("4", "THU", Weekday::Thu),
            ("5", "FRI", Weekday::Fri),
            ("6", "SAT", Weekday::Sat),
            ("7", "sun", Weekday::Sun),
        ];
        for (number, name, day) in days {
            assert_eq!(first_day(&format!("0 0 * * {number}")), day, "number {number}");
            assert_eq!(first_day(&format!("0 0 * * {name}")), day, "name {name}");
        }
    }

    #[test]
    fn a_range_to_seven_ends_on_sunday() {
        let weekend = parse("0 0 * * 6-7");
        let day = |d| chrono::NaiveDate::from_ymd_opt(2025, 6, d).expect("a date").and_hms_opt(0, 0, 0);
        // 7 June 2025 is a Saturday.
        assert!(weekend.matches(day(7).expect("a time")));
        assert!(weekend.matches(day(8).expect("a time")));
        assert!(!weekend.matches(day(9).expect("a time")));
    }

    #[test]
    fn day_of_month_or_day_of_week_is_enough_when_both_are_restricted() {
        let expression = parse("0 0 13 * 5");
        let at = |d| chrono::NaiveDate::from_ymd_opt(2025, 5, d).and_then(|d| d.and_hms_opt(0, 0, 0));
        // 13 May 2025 is a Tuesday, 16 May a Friday.
        assert!(expression.matches(at(13).expect("a time")));
        assert!(expression.matches(at(16).expect("a time")));
        assert!(!expression.matches(at(14).expect("a time")));
    }

    #[test]
    fn seconds_are_an_optional_first_field() {
        assert!(parse("*/10 * * * * *").matches(DateTime::UNIX_EPOCH.naive_utc()));
        assert!(parse("@hourly").matches(DateTime::UNIX_EPOCH.naive_utc()));
    }

    #[test]
    fn a_text_that_is_no_expression_is_refused_with_advice() {
        for text in ["", "* * * *", "61 * * * *", "0 0 0 1 1 * 2030", "0 25 * * *", "every day", "0 0 * * 8"]
        {
            let error = text.parse::<Expression>().expect_err(text).to_string();
            assert!(error.contains("write five fields"), "{text}: {error}");
        }
    }

    #[test]
    fn a_date_that_never_comes_is_refused() {
        let error = "0 0 30 2 *".parse::<Expression>().expect_err("30 February").to_string();
        assert!(error.contains("never happens"), "{error}");
        assert!("0 0 29 2 *".parse::<Expression>().is_ok(), "29 February comes");
    }
}
