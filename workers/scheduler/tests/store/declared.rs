//! Schedules as users declare them: parsed, checked and stored.

use crate::database::Database;
use figment::{
    Figment,
    providers::{Format as _, Toml},
};
use serde::Deserialize;
use tenure_jobs::schedule::Declared;
use tenure_scheduler::{
    SchedulerConfig,
    declare::declare_schedules,
    misfire::{CatchUp, Misfire},
};

#[derive(Debug, Deserialize)]
struct File {
    scheduler: SchedulerConfig,
}

fn parse(toml: &str) -> Result<SchedulerConfig, Box<figment::Error>> {
    Figment::from(Toml::string(toml)).extract::<File>().map(|file| file.scheduler).map_err(Box::new)
}

fn config(toml: &str) -> SchedulerConfig {
    parse(toml).unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn a_schedule_needs_only_its_kind_and_its_expression() {
    let config = config("[scheduler.schedules.report]\nkind = \"report\"\ncron = \"0 6 * * *\"");
    let report = &config.schedules["report"];
    assert_eq!((report.time_zone.as_str(), report.queue.as_str()), ("UTC", "default"));
    assert_eq!((&report.misfire, report.enabled), (&Misfire::RunOnce, true));
    assert!(config.validate().is_empty());
}

#[test]
fn the_three_misfire_policies_are_written_plainly() {
    let misfire = |text: &str| {
        let toml = format!("[scheduler.schedules.s]\nkind = \"k\"\ncron = \"@daily\"\nmisfire = {text}");
        parse(&toml).map(|config| config.schedules["s"].misfire.clone())
    };
    assert_eq!(misfire("\"skip\"").expect("skip"), Misfire::Skip);
    assert_eq!(misfire("\"run_once\"").expect("run_once"), Misfire::RunOnce);
    let catch_up = CatchUp { window: std::time::Duration::from_secs(6 * 3600), cap: 10 };
    assert_eq!(
        misfire("{ catch_up = { window = \"6h\", cap = 10 } }").expect("catch_up"),
        Misfire::CatchUp(catch_up)
    );
    for wrong in ["\"catch_up\"", "\"never\"", "{ catch_up = { window = \"6h\" } }"] {
        assert!(misfire(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn an_unknown_key_is_an_error_that_names_it() {
    let error = parse("[scheduler.schedules.s]\nkind = \"k\"\ncron = \"@daily\"\ntimezone = \"UTC\"");
    assert!(error.expect_err("refused").to_string().contains("timezone"));
}

#[test]
fn everything_that_is_wrong_is_reported_at_once_with_its_place() {
    let config = config(
        r#"
        [scheduler]
        poll_interval = "1ms"
        [scheduler.schedules.a]
        kind = ""
        cron = "61 * * * *"
        time_zone = "Europe/Atlantis"
        misfire = { catch_up = { window = "1h", cap = 0 } }
        [scheduler.schedules.b]
        kind = "k"
        cron = "0 0 30 2 *"
        "#,
    );
    let errors = config.validate();
    let keys: Vec<_> = errors.iter().map(|error| error.key.as_str()).collect();
    assert_eq!(
        keys,
        [
            "scheduler.poll_interval",
            "scheduler.schedules.a.cron",
            "scheduler.schedules.a.time_zone",
            "scheduler.schedules.a.misfire.catch_up.cap",
            "scheduler.schedules.a",
            "scheduler.schedules.b.cron",
        ]
    );
    assert!(errors[1].to_string().contains("write five fields"), "what to do: {}", errors[1]);
}

const DECLARED: &str = r#"
    [scheduler.schedules.report]
    kind = "report"
    cron = "0 6 * * *"
    time_zone = "Europe/Madrid"
    payload = { customer = 7, tags = ["a", "b"] }
    misfire = { catch_up = { window = "90m", cap = 3 } }
"#;

#[tokio::test]
async fn a_declared_schedule_is_stored_once_and_rewritten_only_when_it_differs() {
    let db = Database::start().await;
    let (term, _control) = db.term().await;
    let declare =
        async |toml: &str| declare_schedules(&term, &db.pool, &config(toml)).await.expect("declared");
    let named = |declared| vec![("report".to_owned(), declared)];
    assert_eq!(declare(DECLARED).await, named(Declared::Created));
    assert_eq!(declare(DECLARED).await, []);
    let active_from = "select (extract(epoch from active_from) * 1000000)::bigint from tenure.schedule";
    let created = db.number(active_from).await;

    assert_eq!(declare(&DECLARED.replace("cap = 3", "cap = 4")).await, named(Declared::Changed));
    assert_eq!(db.number(active_from).await, created, "the ticks are the same, so is their record");

    assert_eq!(declare(&DECLARED.replace("0 6", "0 7")).await, named(Declared::Changed));
    assert!(db.number(active_from).await > created, "another expression begins anew");
    assert_eq!(declare("[scheduler]").await, [], "what isn't declared stays");
    assert_eq!(db.number("select count(*) from tenure.schedule").await, 1);
}

#[tokio::test]
async fn another_expression_has_no_missed_ticks_from_before_it() {
    let db = Database::start().await;
    let (term, _control) = db.term().await;
    declare_schedules(&term, &db.pool, &config(DECLARED)).await.expect("declared");
    db.run("update tenure.schedule set active_from = now() - interval '9 days', last_tick = now() - interval '8 days'")
        .await;
    let hourly = config(&DECLARED.replace("0 6 *", "0 * *"));
    declare_schedules(&term, &db.pool, &hourly).await.expect("declared");
    let report = tenure_scheduler::pass::run_pass(&term, &db.pool).await.expect("a pass");
    assert!(report.ticks.is_empty(), "{report:?}");
    assert_eq!(db.jobs().await, 0);
}

#[tokio::test]
async fn a_schedule_made_by_hand_is_left_alone() {
    let db = Database::start().await;
    db.schedule("report", "@daily", "now()").await;
    let (term, _control) = db.term().await;
    let outcome = declare_schedules(&term, &db.pool, &config(DECLARED)).await.expect("declared");
    assert_eq!(outcome, [("report".to_owned(), Declared::MadeByHand)]);
    assert_eq!(db.number("select count(*) from tenure.schedule where expression = '@daily'").await, 1);
}
