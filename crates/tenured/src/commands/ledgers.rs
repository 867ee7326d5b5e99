//! `tenured schedules` and `tenured sweeps`: what became of ticks and sweeps.

use super::{bounded, connect, print_json};
use crate::{cli::Output, config::Databases, exit::Failure};
use serde_json::{Value, json};
use sqlx::Row as _;

const SCHEDULES: &str = "select to_jsonb(schedule) as row from tenure.schedule as schedule order by name";
const SWEEPS: &str =
    "select to_jsonb(run) as row from tenure.sweep_run as run order by started_at desc limit 50";

/// Every schedule.
pub(crate) async fn schedules(databases: &Databases, output: Output) -> Result<(), Failure> {
    show(databases, output, "schedules", SCHEDULES).await
}

/// The newest sweeps.
pub(crate) async fn sweeps(databases: &Databases, output: Output) -> Result<(), Failure> {
    show(databases, output, "sweeps", SWEEPS).await
}

async fn show(databases: &Databases, output: Output, name: &str, sql: &'static str) -> Result<(), Failure> {
    let mut connection = connect(databases.work.expose()).await?;
    let rows = bounded(sqlx::raw_sql(sql).fetch_all(&mut connection)).await?;
    let rows: Vec<Value> = rows.iter().map(|row| row.get("row")).collect();
    if output.json {
        return print_json(&json!({ name: rows }));
    }
    if rows.is_empty() {
        say!("no {name}");
    }
    for row in rows {
        let fields: Vec<String> = row
            .as_object()
            .into_iter()
            .flatten()
            .filter(|(_, value)| !value.is_null())
            .map(|(name, value)| format!("{name}={value}"))
            .collect();
        say!("{}", fields.join(" "));
    }
    Ok(())
}
