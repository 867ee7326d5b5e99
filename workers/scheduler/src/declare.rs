//! Storing the schedules that the configuration declares.
//!
//! Once at the start of a term, and only what differs. Schedules that are stored but not declared here go
//! on firing: this binary may be older than the one that declared them, or they were made by hand.
//! Removing what no configuration declares any more is the reconciler's future work.

use crate::{SchedulerConfig, pass::PassError, telemetry};
use sqlx::PgPool;
use tenure::Term;
use tenure_jobs::schedule::{Declared, declare_schedule};

/// Makes the stored schedules be what `config` declares. Returns those that were new, differed, or were
/// left alone because they were made by hand.
///
/// # Errors
///
/// [`PassError`]. What was stored before the failure stays; doing it again is harmless.
pub async fn declare_schedules(
    term: &Term,
    pool: &PgPool,
    config: &SchedulerConfig,
) -> Result<Vec<(String, Declared)>, PassError> {
    let mut outcomes = Vec::new();
    if config.schedules.is_empty() {
        return Ok(outcomes);
    }
    let mut tx = term.begin_fenced(pool).await?;
    for (name, schedule) in &config.schedules {
        let declared = declare_schedule(&mut tx, &schedule.definition(name)).await?;
        if declared != Declared::Unchanged {
            outcomes.push((name.clone(), declared));
        }
    }
    tx.commit().await?;
    for (name, declared) in &outcomes {
        telemetry::declared(term, name, *declared);
    }
    Ok(outcomes)
}
