//! The configuration as users write it.

use crate::database::{parse, targets};
use std::time::Duration;

#[test]
fn without_any_sweep_tenures_own_tables_are_kept_bounded() {
    let names: Vec<_> = targets("[reconciler]").into_iter().map(|target| target.name).collect();
    assert_eq!(names, ["tenure.job", "tenure.tick", "tenure.sweep_run", "tenure.term"]);
}

#[test]
fn a_sweep_needs_only_its_table_column_and_retention() {
    let targets =
        targets("[reconciler.sweeps.audit]\ntable = \"public.audit\"\ncolumn = \"at\"\nretention = \"30d\"");
    let audit = targets.last().expect("the sweep");
    assert_eq!(audit.retention, Duration::from_secs(30 * 24 * 3600));
    assert_eq!((audit.batch_size, audit.lock_timeout), (500, Duration::from_millis(100)));
}

#[test]
fn an_unknown_key_is_an_error_that_names_it() {
    assert!(
        parse("[reconciler]\nintervall = \"1s\"").expect_err("refused").to_string().contains("intervall")
    );
}

#[test]
fn everything_that_is_wrong_is_reported_at_once_with_its_place() {
    let config = parse(
        r#"
        [reconciler]
        interval = "1ms"
        [reconciler.retention]
        ticks = "1s"
        [reconciler.sweeps.a]
        table = "audit"
        column = "created at"
        retention = "0s"
        batch_size = 0
        lock_timeout = "3s"
        max_rows = 0
        [reconciler.sweeps.b]
        table = "tenure.lease"
        column = "acquired_at"
        retention = "1d"
        "#,
    )
    .expect("it parses");
    let errors = config.validate();
    let keys: Vec<_> = errors.iter().map(|error| error.key.trim_start_matches("reconciler.")).collect();
    assert_eq!(
        keys,
        [
            "interval",
            "retention (tenure.tick)",
            "sweeps.a.table",
            "sweeps.a.column",
            "sweeps.a.retention",
            "sweeps.a.lock_timeout",
            "sweeps.a.batch_size",
            "sweeps.a.max_rows",
            "sweeps.b.table",
        ]
    );
    assert!(errors[2].to_string().contains("public.audit_log"), "what to do: {}", errors[2]);
}
