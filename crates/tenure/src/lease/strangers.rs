//! Locks that are held by something that isn't Tenure.

use super::{
    LockHolder,
    database::{LeaseDatabase, LeaseSession, Lost},
    engine::Engine,
    serving::Round,
};
use crate::telemetry;
use std::{collections::HashMap, time::Duration};

/// How often it is looked.
const LOOK_AGAIN: Duration = Duration::from_secs(10);

impl<D: LeaseDatabase> Engine<D> {
    /// Looks who holds the locks of `taken`. A stranger may never let go; it is told once.
    pub(super) async fn look_for_strangers(
        &mut self,
        session: &mut D::Session,
        round: &mut Round,
        taken: &[i64],
    ) -> Result<(), Lost> {
        let now = self.now();
        if taken.is_empty() || now < round.look_at {
            return Ok(());
        }
        round.look_at = now + LOOK_AGAIN;
        let mut found: HashMap<i64, LockHolder> = self
            .bounded(session.strangers(taken))
            .await?
            .into_iter()
            .map(|stranger| (stranger.key, stranger))
            .collect();
        for key in taken {
            let slot = &mut self.slots[self.by_key[key]];
            let stranger = found.remove(key);
            let pid = |holder: &Option<LockHolder>| holder.as_ref().map(|holder| holder.pid);
            if let Some(news) = stranger.as_ref().filter(|_| pid(&slot.stranger) != pid(&stranger)) {
                telemetry::blocked(slot.role, news);
            }
            slot.stranger = stranger;
        }
        Ok(())
    }
}
