//! Writes invoices. Two replicas that did so at once would bill twice.

use sqlx::PgPool;
use std::time::Duration;
use tenure::{Role, Singleton, Term, WorkerError, async_trait};

/// The worker.
pub(crate) struct Billing {
    /// Where the invoices are.
    pub(crate) pool: PgPool,
}

#[async_trait]
impl Singleton for Billing {
    // Never change the key of a deployed role: old and new binaries would both lead.
    const ROLE: Role = Role::new("billing", 1_840_000_100);

    async fn run(&self, term: Term) -> Result<(), WorkerError> {
        while term.sleep(Duration::from_millis(50)).await.is_leading() {
            // `Err` once another replica leads, however late this one notices.
            let mut tx = term.begin_fenced(&self.pool).await?;
            sqlx::query("insert into invoice (written_by, epoch) values ($1, $2)")
                .bind(term.instance())
                .bind(term.epoch().0)
                .execute(&mut *tx)
                .await?;
            tx.commit().await?;
        }
        Ok(())
    }
}
