//! Ticks across clock changes, in zones that have surprised schedulers before.
//!
//! Each case lists the ticks, in UTC, in a stretch of time. Beside each is the wall-clock time.

use chrono::{DateTime, Duration, Utc};
use chrono_tz::Tz;
use tenure_scheduler::{dst::DstRule, timetable::Timetable};

fn at(text: &str) -> DateTime<Utc> {
    text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn timetable(expression: &str, zone: &str, rule: DstRule) -> Timetable {
    let expression = expression.parse().unwrap_or_else(|error| panic!("{error}"));
    Timetable::new(expression, zone.parse::<Tz>().expect("a zone"), rule)
}

/// The ticks from `from` to before `to`, on the minute.
fn ticks(timetable: &Timetable, from: &str, to: &str) -> Vec<String> {
    timetable
        .between(at(from) - Duration::seconds(1), at(to) - Duration::seconds(1))
        .map(|tick| tick.format("%dT%H:%M").to_string())
        .collect()
}

/// Madrid, 30 March 2025: 01:59:59 +01:00 is followed by 03:00:00 +02:00, at 01:00 UTC.
fn madrid_spring(expression: &str, rule: DstRule) -> Vec<String> {
    ticks(&timetable(expression, "Europe/Madrid", rule), "2025-03-29T22:00:00Z", "2025-03-30T04:00:00Z")
}

/// Madrid, 26 October 2025: 02:59:59 +02:00 is followed by 02:00:00 +01:00, at 01:00 UTC.
fn madrid_autumn(expression: &str, rule: DstRule) -> Vec<String> {
    ticks(&timetable(expression, "Europe/Madrid", rule), "2025-10-25T22:00:00Z", "2025-10-26T04:00:00Z")
}

#[test]
fn a_fixed_time_in_the_gap_runs_once_at_the_first_instant_after_it() {
    assert_eq!(madrid_spring("30 2 * * *", DstRule::Auto), ["30T01:00"]);
    assert_eq!(madrid_spring("0 2 * * *", DstRule::Auto), ["30T01:00"]);
}

#[test]
fn the_days_around_the_gap_keep_their_wall_clock_time() {
    let nightly = timetable("30 2 * * *", "Europe/Madrid", DstRule::Auto);
    assert_eq!(
        ticks(&nightly, "2025-03-29T00:00:00Z", "2025-04-01T00:00:00Z"),
        ["29T01:30", "30T01:00", "31T00:30"]
    );
}

#[test]
fn several_fixed_times_in_the_gap_become_one_tick() {
    assert_eq!(madrid_spring("*/15 2 * * *", DstRule::Auto), ["30T01:00"]);
}

#[test]
fn a_tick_moved_out_of_the_gap_meets_the_one_that_is_there_already() {
    assert_eq!(madrid_spring("0 2,3 * * *", DstRule::Auto), ["30T01:00"]);
    assert_eq!(madrid_spring("30 2,3 * * *", DstRule::Auto), ["30T01:00", "30T01:30"]);
}

#[test]
fn a_fixed_time_in_the_fold_runs_once_at_its_first_occurrence() {
    assert_eq!(madrid_autumn("30 2 * * *", DstRule::Auto), ["26T00:30"]);
    assert_eq!(madrid_autumn("*/30 2 * * *", DstRule::Auto), ["26T00:00", "26T00:30"]);
}

#[test]
fn an_hourly_expression_runs_in_real_time_on_both_nights() {
    for minute in ["0", "30", "59"] {
        let expression = format!("{minute} * * * *");
        for night in [madrid_spring(&expression, DstRule::Auto), madrid_autumn(&expression, DstRule::Auto)] {
            let minutes: Vec<_> = night.iter().map(|tick| &tick[6..]).collect();
            assert_eq!(minutes, vec![format!("{minute:0>2}"); 6], "{expression}: {night:?}");
        }
    }
}

#[test]
fn a_steady_rhythm_within_some_hours_goes_on_in_real_time() {
    assert_eq!(madrid_spring("*/20 0-5 * * *", DstRule::Auto).len(), 3 * 5, "00, 01, 03, 04, 05");
    assert_eq!(madrid_autumn("*/20 0-4 * * *", DstRule::Auto).len(), 3 * 6, "00, 01, 02, 02, 03, 04");
}

#[test]
fn every_second_hour_is_neither_lost_nor_doubled() {
    // 00:00, 02:00 moved to 03:00, 04:00.
    assert_eq!(madrid_spring("0 */2 * * *", DstRule::Auto), ["29T23:00", "30T01:00", "30T02:00"]);
    // 00:00, 02:00 once, 04:00.
    assert_eq!(madrid_autumn("0 */2 * * *", DstRule::Auto), ["25T22:00", "26T00:00", "26T03:00"]);
}

#[test]
fn the_rule_once_never_repeats_a_wall_clock_time() {
    assert_eq!(madrid_autumn("0 * * * *", DstRule::Once).len(), 5);
    assert_eq!(
        madrid_spring("30 * * * *", DstRule::Once),
        ["29T22:30", "29T23:30", "30T00:30", "30T01:00", "30T01:30", "30T02:30", "30T03:30"]
    );
}

#[test]
fn the_rule_real_time_follows_the_wall_clock_alone() {
    assert!(madrid_spring("30 2 * * *", DstRule::RealTime).is_empty());
    assert_eq!(madrid_autumn("30 2 * * *", DstRule::RealTime), ["26T00:30", "26T01:30"]);
}

#[test]
fn a_half_hour_change_moves_by_half_an_hour() {
    // Lord Howe, 5 October 2025: 01:59:59 +10:30 is followed by 02:30:00 +11:00, at 15:30 UTC.
    let spring = |expression| {
        let timetable = timetable(expression, "Australia/Lord_Howe", DstRule::Auto);
        ticks(&timetable, "2025-10-04T14:30:00Z", "2025-10-04T17:00:00Z")
    };
    assert_eq!(spring("15 2 * * *"), ["04T15:30"], "after the gap");
    assert_eq!(spring("30 2 * * *"), ["04T15:30"], "no gap at half past");
    assert_eq!(spring("*/30 * * * *"), ["04T14:30", "04T15:00", "04T15:30", "04T16:00", "04T16:30"]);
    assert_eq!(spring("0 * * * *"), ["04T14:30", "04T15:30", "04T16:00"], "01:00, 02:30 for 02:00, 03:00");

    // Lord Howe, 6 April 2025: 01:59:59 +11:00 is followed by 01:30:00 +10:30, at 15:00 UTC.
    let autumn = |expression| {
        let timetable = timetable(expression, "Australia/Lord_Howe", DstRule::Auto);
        ticks(&timetable, "2025-04-05T14:00:00Z", "2025-04-05T16:30:00Z")
    };
    assert_eq!(autumn("45 1 * * *"), ["05T14:45"], "the first of two");
    assert_eq!(autumn("30 * * * *"), ["05T14:30", "05T16:00"], "01:30 once, 02:30");
    assert_eq!(autumn("*/30 * * * *"), ["05T14:00", "05T14:30", "05T15:00", "05T15:30", "05T16:00"]);
}

#[test]
fn an_offset_of_quarter_hours_is_exact() {
    let kathmandu = timetable("0 9 * * *", "Asia/Kathmandu", DstRule::Auto);
    assert_eq!(ticks(&kathmandu, "2025-06-01T00:00:00Z", "2025-06-03T00:00:00Z"), ["01T03:15", "02T03:15"]);
}

#[test]
fn casablanca_leaves_summer_time_for_ramadan() {
    // 23 February 2025: 02:59:59 +01:00 is followed by 02:00:00 +00:00, at 02:00 UTC; 6 April: back.
    let nightly = timetable("30 2 * * *", "Africa/Casablanca", DstRule::Auto);
    assert_eq!(
        ticks(&nightly, "2025-02-22T00:00:00Z", "2025-02-25T00:00:00Z"),
        ["22T01:30", "23T01:30", "24T02:30"]
    );
    assert_eq!(
        ticks(&nightly, "2025-04-05T00:00:00Z", "2025-04-08T00:00:00Z"),
        ["05T02:30", "06T02:00", "07T01:30"]
    );
}

#[test]
fn the_day_that_apia_never_had_is_one_long_gap() {
    // 29 December 2011 23:59:59 -10:00 is followed by 31 December 00:00:00 +14:00, at 10:00 UTC on the 30th.
    let in_apia = |expression, rule| {
        ticks(&timetable(expression, "Pacific/Apia", rule), "2011-12-29T00:00:00Z", "2012-01-01T00:00:00Z")
    };
    assert_eq!(
        in_apia("0 12 30 * *", DstRule::Auto),
        ["30T10:00"],
        "the 30th runs when it should have been over"
    );
    assert_eq!(in_apia("0 12 * * 5", DstRule::Auto), ["30T10:00"], "so does the Friday");
    // Noon each day is a steady rhythm of 24 hours: the missing noon is no missing run.
    assert_eq!(in_apia("0 12 * * *", DstRule::Auto), ["29T22:00", "30T22:00", "31T22:00"]);
    assert_eq!(in_apia("0 12 * * *", DstRule::Once), ["29T22:00", "30T10:00", "30T22:00", "31T22:00"]);
    assert_eq!(in_apia("0 * * * *", DstRule::Auto).len(), 72, "real hours");
}

#[test]
fn the_next_tick_is_strictly_later_and_the_newest_agrees_with_walking() {
    let zones = ["Europe/Madrid", "Australia/Lord_Howe", "Africa/Casablanca", "UTC", "America/Havana"];
    let expressions = ["30 2 * * *", "*/7 * * * *", "0 */2 * * *", "15 1,2,3 * * 0", "59 23 28-31 * *"];
    let rules = [DstRule::Auto, DstRule::Once, DstRule::RealTime];
    for zone in zones {
        for expression in expressions {
            for rule in rules {
                let timetable = timetable(expression, zone, rule);
                for start in [
                    "2025-03-08T12:00:00Z",
                    "2025-03-29T12:00:00Z",
                    "2025-10-25T12:00:30.5Z",
                    "2025-04-05T06:00:00Z",
                ] {
                    let (from, to) = (at(start), at(start) + Duration::hours(60));
                    let walked: Vec<_> = timetable.between(from, to).collect();
                    assert!(walked.iter().all(|tick| *tick > from && *tick <= to));
                    assert!(walked.is_sorted_by(|a, b| a < b), "{zone} {expression} {rule}: {walked:?}");
                    assert_eq!(
                        timetable.newest(from, to),
                        walked.last().copied(),
                        "{zone} {expression} {rule}"
                    );
                }
            }
        }
    }
}

mod properties {
    use super::*;
    use chrono::TimeZone as _;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    const ZONES: [&str; 6] = [
        "Europe/Madrid",
        "Australia/Lord_Howe",
        "Africa/Casablanca",
        "America/Havana",
        "Asia/Kathmandu",
        "America/St_Johns",
    ];
    const EXPRESSIONS: [&str; 8] = [
        "30 2 * * *",
        "*/7 * * * *",
        "0 */2 * * *",
        "15 0-3 * * 0",
        "59 23 28-31 * *",
        "0 0 * * *",
        "10,40 1,2 * * *",
        "0 * 9 3 *",
    ];

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(200))]

        #[test]
        fn in_real_time_the_ticks_are_the_minutes_at_which_the_wall_clock_matches(
            zone in prop::sample::select(&ZONES[..]),
            expression in prop::sample::select(&EXPRESSIONS[..]),
            hour in 0_i64..8_760,
        ) {
            let table = timetable(expression, zone, DstRule::RealTime);
            let expression: tenure_scheduler::expression::Expression = expression.parse().expect("parses");
            let zone: Tz = zone.parse().expect("a zone");
            let from = at("2025-01-01T00:00:00Z") + Duration::hours(hour);
            let wall_clock = |instant: &DateTime<Utc>| zone.from_utc_datetime(&instant.naive_utc()).naive_local();
            let walked: Vec<_> = (1..=36 * 60)
                .map(|minute| from + Duration::minutes(minute))
                .filter(|instant| expression.matches(wall_clock(instant)))
                .collect();
            prop_assert_eq!(table.between(from, from + Duration::hours(36)).collect::<Vec<_>>(), walked);
        }

        #[test]
        fn with_the_rule_once_no_wall_clock_time_repeats_and_every_day_has_its_nightly_tick(
            zone in prop::sample::select(&ZONES[..]),
            hour in 0_i64..8_000,
            minute in 0..60,
            of_day in 0..24,
        ) {
            let table = timetable(&format!("{minute} {of_day} * * *"), zone, DstRule::Once);
            let zone: Tz = zone.parse().expect("a zone");
            let from = at("2025-01-01T00:00:00Z") + Duration::hours(hour);
            let days: Vec<_> = table
                .between(from, from + Duration::days(30))
                .map(|tick| zone.from_utc_datetime(&tick.naive_utc()).date_naive())
                .collect();
            let distinct: BTreeSet<_> = days.iter().collect();
            prop_assert_eq!(distinct.len(), days.len(), "one tick on a day");
            prop_assert!(days.windows(2).all(|pair| pair[0].succ_opt() == Some(pair[1])), "no day without");
        }
    }
}
