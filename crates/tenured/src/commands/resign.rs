//! `tenured resign ROLE`: asks the leader to finish, and waits for the hand-over.

use super::{bounded, connect};
use crate::{config::Databases, exit::Failure};
use sqlx::{PgConnection, Row as _};
use std::time::Duration;
use tenure::lease::{RESIGN_CHANNEL, lock_holders};
use tenure_jobs::query;

/// How often the lease row is looked at.
const STEP: Duration = Duration::from_millis(50);
/// After this long without a hand-over the question is asked again: a notification is only a hint.
const ASK_AGAIN: u32 = 40;

struct Lease {
    key: i64,
    epoch: i64,
    instance: String,
}

/// Asks, and waits for at most `timeout`.
pub(crate) async fn ask(databases: &Databases, role: &str, timeout: Duration) -> Result<(), Failure> {
    let mut connection = connect(databases.lease_url.expose()).await?;
    let nobody = || Failure::Other(format!("nobody leads {role}, so there is nothing to resign"));
    let before = read(&mut connection, role).await?.ok_or_else(nobody)?;
    if bounded(lock_holders(&mut connection, &[before.key])).await?.is_empty() {
        return Err(nobody());
    }
    // Asking twice is harmless: only the term with this epoch is meant.
    let hand_over = async {
        let mut steps = 0;
        loop {
            if steps % ASK_AGAIN == 0 {
                let ask = query("select pg_notify($1, $2)")
                    .bind(RESIGN_CHANNEL)
                    .bind(format!("{role} {}", before.epoch));
                bounded(ask.execute(&mut connection)).await?;
            }
            steps += 1;
            let now = read(&mut connection, role).await?;
            if let Some(now) = now.filter(|now| now.epoch != before.epoch) {
                say!("{role} is led by {} with epoch {}", now.instance, now.epoch);
                return Ok(());
            }
            tokio::time::sleep(STEP).await;
        }
    };
    tokio::time::timeout(timeout, hand_over).await.unwrap_or_else(|_elapsed| {
        Err(Failure::Other(format!(
            "{role} was not handed over within {timeout:?}: its leader {} may still be draining; see `tenured status`",
            before.instance
        )))
    })
}

async fn read(connection: &mut PgConnection, role: &str) -> Result<Option<Lease>, Failure> {
    let read = query("select key, epoch, instance::text as instance from tenure.lease where role = $1")
        .bind(role.to_owned());
    let row = bounded(read.fetch_optional(connection)).await?;
    Ok(row.map(|row| Lease { key: row.get("key"), epoch: row.get("epoch"), instance: row.get("instance") }))
}
