//! The header `Retry-After`.

use chrono::{DateTime, NaiveDateTime, Utc};
use std::time::Duration;

/// The three forms of a date in HTTP: the one that is sent today, and two that must still be understood.
const DATE_FORMS: [&str; 3] =
    ["%a, %d %b %Y %H:%M:%S GMT", "%A, %d-%b-%y %H:%M:%S GMT", "%a %b %e %H:%M:%S %Y"];

/// A date in HTTP.
pub(crate) fn parse_date(value: &str) -> Option<DateTime<Utc>> {
    let value = value.trim();
    DATE_FORMS.iter().find_map(|form| NaiveDateTime::parse_from_str(value, form).ok()).map(|at| at.and_utc())
}

/// How long a receiver asks to wait, at most `longest`: a number of seconds, or a date seen from `now`.
/// A date that is over means no wait. `None` for anything else.
pub(crate) fn parse(value: &str, now: DateTime<Utc>, longest: Duration) -> Option<Duration> {
    let value = value.trim();
    if !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit()) {
        // More digits than fit mean very long.
        return Some(Duration::from_secs(value.parse().unwrap_or(u64::MAX)).min(longest));
    }
    let until = parse_date(value)?;
    Some((until - now).to_std().unwrap_or(Duration::ZERO).min(longest))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const LONGEST: Duration = Duration::from_hours(1);

    fn now() -> DateTime<Utc> {
        parse_date("Sun, 06 Nov 1994 08:49:37 GMT").unwrap()
    }

    #[test]
    fn seconds_are_taken_and_clamped() {
        let parsed = |value| parse(value, now(), LONGEST);
        assert_eq!(parsed("0"), Some(Duration::ZERO));
        assert_eq!(parsed(" 120 "), Some(Duration::from_secs(120)));
        assert_eq!(parsed("7200"), Some(LONGEST));
        assert_eq!(parsed("99999999999999999999999"), Some(LONGEST));
    }

    #[test]
    fn all_three_forms_of_a_date_are_understood() {
        for date in
            ["Sun, 06 Nov 1994 08:50:37 GMT", "Sunday, 06-Nov-94 08:50:37 GMT", "Sun Nov  6 08:50:37 1994"]
        {
            assert_eq!(parse(date, now(), LONGEST), Some(Duration::from_secs(60)), "{date}");
        }
    }

    #[test]
    fn a_date_that_is_over_means_no_wait_and_a_far_one_is_clamped() {
        assert_eq!(parse("Sun, 06 Nov 1994 08:00:00 GMT", now(), LONGEST), Some(Duration::ZERO));
        assert_eq!(parse("Fri, 06 Nov 2094 08:00:00 GMT", now(), LONGEST), None, "the wrong day of the week");
        assert_eq!(parse("Sat, 06 Nov 2094 08:00:00 GMT", now(), LONGEST), Some(LONGEST));
    }

    #[test]
    fn anything_else_asks_for_nothing() {
        for value in ["", "soon", "-1", "1.5", "+3", "1e3"] {
            assert_eq!(parse(value, now(), LONGEST), None, "{value}");
        }
    }

    proptest! {
        #[test]
        fn no_header_makes_it_panic_or_wait_longer_than_the_longest(value in ".{0,40}") {
            if let Some(wait) = parse(&value, now(), LONGEST) {
                prop_assert!(wait <= LONGEST);
            }
        }
    }
}
