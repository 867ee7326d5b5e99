//! Terms for the tests of workers, without an engine.

use crate::{
    Epoch, Role, Term, Timing,
    clock::{BootClock, Clock as _, Moment},
    lease::{EndReason, Trust},
};
use sqlx::PgPool;
use std::{sync::Arc, time::Duration};
use uuid::Uuid;

/// Plays the engine's part for one term: raises the epoch in the lease row, as acquiring does, and lets
/// a test drain or end the term. It takes no lock, so a test can begin the next term at any time.
#[derive(Debug)]
pub struct TermControl(Term);

impl TermControl {
    /// Begins the next term of `role`. The schema has to exist.
    ///
    /// # Errors
    ///
    /// What the database says.
    pub async fn begin(pool: &PgPool, role: Role) -> Result<(Term, TermControl), sqlx::Error> {
        let instance = Uuid::new_v4();
        let epoch: i64 = sqlx::query_scalar(
            "insert into tenure.lease (role, key, epoch, instance, host, backend_pid, acquired_at) \
             values ($1, $2, 1, $3, 'test', 0, now()) \
             on conflict (role) do update set epoch = lease.epoch + 1, instance = excluded.instance, \
             acquired_at = now() returning epoch",
        )
        .bind(role.name())
        .bind(role.key())
        .bind(instance)
        .fetch_one(pool)
        .await?;
        let trust = Arc::new(Trust::default());
        let clock = Arc::new(BootClock);
        trust.extend(Moment::from_boot(clock.now().since_boot() + Duration::from_hours(1)));
        let term = Term::new(role, Epoch(epoch), instance, trust, clock, Timing::default());
        Ok((term.clone(), TermControl(term)))
    }

    /// Begins a planned stop.
    pub fn drain(&self) {
        self.0.drain();
    }

    /// Ends the term for this worker, as when the lease session is lost.
    pub fn revoke(&self) {
        self.0.revoke(EndReason::SessionTerminated);
    }
}
