//! Asking whether there is anything to do, as cheaply as possible.

use crate::{JobsError, STATEMENT_LIMIT, claim::has_its_turn, limit::limited};
use sqlx::{AssertSqlSafe, PgPool, Row as _};

/// What there is to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Due {
    /// A job of one of the kinds can be claimed.
    pub jobs: bool,
    /// An attempt has died and can be released.
    pub dead_attempts: bool,
}

/// One prepared question: is a job of these kinds due, has an attempt died?
///
/// An idle poller asks nothing else. It is one statement without parameters, sent in the simple protocol,
/// so it needs no transaction around it, not even through a transaction pooler.
#[derive(Debug, Clone)]
pub struct DueProbe {
    sql: String,
}

impl DueProbe {
    /// The question for `kinds`.
    pub fn new<'a>(kinds: impl IntoIterator<Item = &'a str>) -> Self {
        // No stored kind contains NUL, and the protocol has no room for it.
        let kinds: Vec<_> = kinds.into_iter().filter(|kind| !kind.contains('\0')).map(literal).collect();
        let jobs = if kinds.is_empty() {
            "false".to_owned()
        } else {
            format!(
                "exists (select from unnest(array[{}]) as routed (kind) cross join lateral (\
                 select from tenure.job j where j.kind = routed.kind and j.state = 'available' \
                 and j.run_at <= statement_timestamp() and {} limit 1) j)",
                kinds.join(", "),
                has_its_turn!(),
            )
        };
        let dead = "exists (select from tenure.job where state = 'running' \
                    and attempt_deadline < statement_timestamp())";
        Self { sql: format!("select {jobs} as jobs, {dead} as dead_attempts") }
    }

    /// Asks. Cancel-safe.
    ///
    /// # Errors
    ///
    /// [`JobsError::Database`], also when no connection was free in time; [`JobsError::TimedOut`].
    pub async fn ask(&self, pool: &PgPool) -> Result<Due, JobsError> {
        let step = "asking for due jobs";
        let mut conn = limited(step, pool.acquire()).await?;
        let ask = sqlx::raw_sql(AssertSqlSafe(self.sql.clone())).fetch_one(&mut *conn);
        let Ok(answer) = tokio::time::timeout(STATEMENT_LIMIT, ask).await else {
            // It still waits for the answer, and whoever got it next would wait too.
            conn.close_on_drop();
            return Err(JobsError::TimedOut { step, limit: STATEMENT_LIMIT });
        };
        answer
            .and_then(|row| {
                Ok(Due { jobs: row.try_get("jobs")?, dead_attempts: row.try_get("dead_attempts")? })
            })
            .map_err(|source| JobsError::Database { step, source })
    }
}

/// A literal that means the same whatever `standard_conforming_strings` is.
fn literal(text: &str) -> String {
    format!("E'{}'", text.replace('\\', "\\\\").replace('\'', "''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_can_not_end_its_literal() {
        assert_eq!(literal(r"a'b\'c"), r"E'a''b\\''c'");
    }
}
