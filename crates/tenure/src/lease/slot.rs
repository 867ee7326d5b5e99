//! What an instance is to one role.

use super::{EndReason, LockHolder, RoleState};
use crate::{Role, Term, Worker, clock::Moment};
use std::sync::Arc;

/// One role that this instance competes for.
pub(crate) struct Slot {
    pub(crate) role: Role,
    pub(crate) worker: Arc<dyn Worker>,
    pub(crate) state: State,
    /// Since when nobody is known to lead; see `spread`.
    pub(crate) free_since: Option<Moment>,
    /// Who holds the lock and isn't Tenure.
    pub(crate) stranger: Option<LockHolder>,
    /// Terms in a row that failed.
    pub(crate) failures: u32,
}

/// The states of a role on one instance.
pub(crate) enum State {
    /// Competes.
    Standby,
    /// Was refused at the last try, and is tried again then.
    Refused { until: Moment },
    /// Leaves the role to others until then.
    Resting { until: Moment },
    /// Leads.
    Leading { term: Term, since: Moment },
    /// Leads, and the worker was asked to finish by then.
    Draining { term: Term, until: Moment, reason: EndReason },
    /// The term has ended; the worker's future is still there.
    Stopping { term: Term, reason: EndReason },
}

impl Slot {
    pub(crate) fn new(worker: Arc<dyn Worker>) -> Self {
        Self {
            role: worker.role(),
            worker,
            state: State::Standby,
            free_since: None,
            stranger: None,
            failures: 0,
        }
    }

    /// The term that holds the lock, in whatever state.
    pub(crate) fn term(&self) -> Option<&Term> {
        match &self.state {
            State::Leading { term, .. } | State::Draining { term, .. } | State::Stopping { term, .. } => {
                Some(term)
            }
            State::Standby | State::Refused { .. } | State::Resting { .. } => None,
        }
    }

    /// Whether the role is tried at `now`.
    pub(crate) fn competes(&self, now: Moment) -> bool {
        match self.state {
            State::Standby => true,
            State::Refused { until } | State::Resting { until } => now >= until,
            State::Leading { .. } | State::Draining { .. } | State::Stopping { .. } => false,
        }
    }

    pub(crate) fn public_state(&self) -> RoleState {
        match self.state {
            State::Standby => RoleState::Standby,
            State::Refused { .. } => RoleState::Refused,
            State::Resting { .. } => RoleState::BackingOff,
            State::Leading { .. } => RoleState::Leading,
            State::Draining { .. } => RoleState::Draining,
            State::Stopping { .. } => RoleState::Stopping,
        }
    }
}
