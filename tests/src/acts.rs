//! What the workers did, as the database saw it, and the judgment of it.

use sqlx::{PgPool, Row as _};
use std::{collections::HashMap, time::Duration};

/// The pause between two acts of a witness.
pub const PAUSE: Duration = Duration::from_millis(3);

/// Makes the table that witnesses write into. Its clock is the server's, read when the row is written.
pub const TABLE: &str = "create table act (
    id bigint generated always as identity primary key,
    role text not null, epoch bigint not null, instance uuid not null, fenced boolean not null,
    at timestamptz not null default clock_timestamp())";

/// Two terms acted at one time: an act of an older epoch came after one of a newer epoch.
#[derive(Debug, PartialEq, Eq)]
pub struct Overlap {
    /// Role.
    pub role: String,
    /// The epoch that should have been over.
    pub older: i64,
    /// The epoch that had begun to act.
    pub newer: i64,
    /// Whether the late act was fenced.
    pub fenced: bool,
}

/// Everything that was done, in the order of its rows.
///
/// # Panics
///
/// When the table can't be read.
pub async fn overlaps(pool: &PgPool) -> Vec<Overlap> {
    let rows = sqlx::query("select role, epoch, fenced from act order by at, id")
        .fetch_all(pool)
        .await
        .expect("the acts are read");
    let acts = rows.iter().map(|row| (row.get::<String, _>(0), row.get::<i64, _>(1), row.get::<bool, _>(2)));
    judge(acts)
}

/// How many acts there are.
///
/// # Panics
///
/// When the table can't be read.
pub async fn count(pool: &PgPool) -> i64 {
    sqlx::query_scalar("select count(*) from act").fetch_one(pool).await.expect("the acts are counted")
}

/// Finds every act that came after an act of a newer term of its role.
pub fn judge(acts: impl Iterator<Item = (String, i64, bool)>) -> Vec<Overlap> {
    let mut newest: HashMap<String, i64> = HashMap::new();
    let mut found = Vec::new();
    for (role, epoch, fenced) in acts {
        let newest = newest.entry(role.clone()).or_insert(epoch);
        if epoch < *newest {
            found.push(Overlap { role, older: epoch, newer: *newest, fenced });
        }
        *newest = epoch.max(*newest);
    }
    found
}
