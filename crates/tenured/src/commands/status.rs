//! `tenured status`: who leads, who stands by, and what is waiting.

use super::{begin, bounded, connect, print_json};
use crate::{cli::Output, config::Databases, exit::Failure, registry::workers};
use serde_json::{Value, json};
use sqlx::{PgConnection, Row as _, postgres::PgRow};
use tenure::lease::{APPLICATION_NAME_PREFIX, LockHolder, lock_holders};

const LEASES: &str = "\
select role, key, epoch, instance::text as instance, host, backend_pid,
       to_char(acquired_at at time zone 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS.MS\"Z\"') as since
from tenure.lease order by role";

const TERMS: &str = "\
select role, epoch, instance::text as instance, host, end_reason,
       to_char(acquired_at at time zone 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS.MS\"Z\"') as since,
       to_char(ended_at at time zone 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS.MS\"Z\"') as until
from tenure.term order by acquired_at desc, role limit 20";

const SESSIONS: &str = "\
select application_name, pid from pg_stat_activity
where datname = current_database() and application_name like 'tenure lease %' order by backend_start";

/// Reads and prints the state of the whole deployment.
pub(crate) async fn show(databases: &Databases, output: Output) -> Result<(), Failure> {
    // Locks and sessions are the server's own; leases and jobs are rows that both addresses reach.
    let mut lease = connect(databases.lease_url.expose()).await?;
    let mut work = connect(databases.work.expose()).await?;
    let document = read(&mut lease, &mut work).await?;
    if output.json {
        return print_json(&document);
    }
    let text = |value: &Value, key: &str| match &value[key] {
        Value::String(text) => text.clone(),
        Value::Null => "-".to_owned(),
        other => other.to_string(),
    };
    for role in document["roles"].as_array().into_iter().flatten() {
        let leader = match &role["leader"] {
            Value::Null => "nobody leads".to_owned(),
            leader => format!(
                "led by {} on {} (pid {}) since {}",
                text(leader, "instance"),
                text(leader, "host"),
                text(leader, "backend_pid"),
                text(leader, "since")
            ),
        };
        say!("{:<11} epoch {:<12} {leader}", text(role, "role"), text(role, "epoch"));
    }
    let standbys = document["standbys"].as_array().map_or(0, Vec::len);
    say!("\nstand-bys that lead nothing: {standbys}");
    for stranger in document["strangers"].as_array().into_iter().flatten() {
        say!("warning: {}", text(stranger, "advice"));
    }
    say!("\nrecent terms:");
    for term in document["terms"].as_array().into_iter().flatten() {
        say!(
            "  {:<11} epoch {:<12} {} .. {} {}",
            text(term, "role"),
            text(term, "epoch"),
            text(term, "since"),
            text(term, "until"),
            text(term, "end_reason")
        );
    }
    say!(
        "\nbacklog: {} due, oldest for {} s",
        text(&document["backlog"], "due"),
        text(&document["backlog"], "oldest_due_seconds")
    );
    Ok(())
}

async fn read(lease: &mut PgConnection, work: &mut PgConnection) -> Result<Value, Failure> {
    let leases = bounded(sqlx::raw_sql(LEASES).fetch_all(&mut *lease)).await?;
    let terms = bounded(sqlx::raw_sql(TERMS).fetch_all(&mut *lease)).await?;
    let sessions = bounded(sqlx::raw_sql(SESSIONS).fetch_all(&mut *lease)).await?;
    let known = workers();
    let mut keys: Vec<i64> = known.iter().map(|worker| worker.role.key()).collect();
    keys.extend(leases.iter().map(|row| row.get::<i64, _>("key")));
    let held = bounded(lock_holders(lease, &keys)).await?;
    let mut transaction = begin(work).await?;
    let backlog =
        tenure_jobs::count_backlog(&mut transaction).await.map_err(|error| super::explained(&error))?;
    let mut roles: Vec<Value> = leases.iter().map(|row| role(row, &held)).collect();
    for worker in &known {
        if !roles.iter().any(|role| role["role"] == worker.role.name()) {
            let (name, key) = (worker.role.name(), worker.role.key());
            roles.push(json!({ "role": name, "key": key, "epoch": null, "leader": null }));
        }
    }
    let leading: Vec<i32> = held.iter().map(|holder| holder.pid).collect();
    let standbys: Vec<Value> = sessions
        .iter()
        .filter(|row| !leading.contains(&row.get::<i32, _>("pid")))
        .map(|row| {
            let name: String = row.get("application_name");
            json!({ "instance": name.trim_start_matches(APPLICATION_NAME_PREFIX), "backend_pid": row.get::<i32, _>("pid") })
        })
        .collect();
    let strangers: Vec<Value> = held
        .iter()
        .filter_map(|holder| holder.advice().map(|advice| json!({ "holder": holder, "advice": advice })))
        .collect();
    let terms: Vec<Value> = terms
        .iter()
        .map(|row| {
            json!({
                "role": row.get::<String, _>("role"),
                "epoch": row.get::<i64, _>("epoch"),
                "instance": row.get::<String, _>("instance"),
                "host": row.get::<String, _>("host"),
                "since": row.get::<String, _>("since"),
                "until": row.get::<Option<String>, _>("until"),
                "end_reason": row.get::<Option<String>, _>("end_reason"),
            })
        })
        .collect();
    Ok(json!({
        "roles": roles, "standbys": standbys, "strangers": strangers, "terms": terms, "backlog": backlog,
    }))
}

/// The lease row says who led last; only a lock that is held now says that it still does.
fn role(row: &PgRow, held: &[LockHolder]) -> Value {
    let (key, pid): (i64, i32) = (row.get("key"), row.get("backend_pid"));
    let leads = held.iter().any(|holder| holder.key == key && holder.pid == pid);
    let leader = leads.then(|| {
        json!({
            "instance": row.get::<String, _>("instance"),
            "host": row.get::<String, _>("host"),
            "backend_pid": pid,
            "since": row.get::<String, _>("since"),
        })
    });
    json!({ "role": row.get::<String, _>("role"), "key": key, "epoch": row.get::<i64, _>("epoch"), "leader": leader })
}
