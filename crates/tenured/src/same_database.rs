//! The fence works only where the lease row is: work and leases have to be in one database.

use crate::{commands, config::Databases, exit::Failure};
use sqlx::Row as _;

/// Which database of which running server answers. Every role may ask.
const WHERE: &str = "\
select pg_postmaster_start_time()::text as started, current_database()::text as database,
       (select oid::bigint from pg_database where datname = current_database()) as oid";

/// Refuses two addresses that end at different databases: every fenced write would fail there, or, worse,
/// find a lease that somebody else keeps.
pub(crate) async fn check(databases: &Databases) -> Result<(), Failure> {
    if databases.work == databases.lease_url {
        return Ok(());
    }
    let work = place(databases.work.expose()).await?;
    let lease = place(databases.lease_url.expose()).await?;
    if work == lease {
        return Ok(());
    }
    let tell = |place: &Place| format!("database {:?} of a server that runs since {}", place.1, place.0);
    Err(crate::exit::usage(format!(
        "database.url and database.lease_url end at different databases: {} and {}; point both at one, else \
         fenced writes find no lease",
        tell(&work),
        tell(&lease)
    )))
}

type Place = (String, String, i64);

async fn place(url: &str) -> Result<Place, Failure> {
    let mut connection = commands::connect(url).await?;
    let row = commands::bounded(sqlx::raw_sql(WHERE).fetch_one(&mut connection)).await?;
    Ok((row.get("started"), row.get("database"), row.get("oid")))
}
