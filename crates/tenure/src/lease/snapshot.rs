//! What an instance is doing, as seen from outside the engine.

use super::LockHolder;
use crate::{Epoch, Role, front_door::Verdict};
use serde::Serialize;
use std::time::Duration;
use uuid::Uuid;

/// What an instance is doing at one moment.
#[derive(Debug, Clone, Serialize)]
pub struct Snapshot {
    /// This incarnation of the process.
    pub instance: Uuid,
    /// The lease session.
    pub session: SessionState,
    /// How long the terms may go on without another proof; `None` when nothing is led.
    pub trust_remaining: Option<Duration>,
    /// Every role that this instance competes for.
    pub roles: Vec<RoleSnapshot>,
}

/// The lease session of an instance.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum SessionState {
    /// There is none yet, or the last one was lost.
    Opening,
    /// The front door was accepted, and the session answers.
    Open,
    /// The front door was refused, or the database can't be reached.
    Closed {
        /// Why.
        #[serde(flatten)]
        verdict: Verdict,
    },
    /// The instance has stopped, or has no role to compete for.
    Idle,
}

/// One role on this instance.
#[derive(Debug, Clone, Serialize)]
pub struct RoleSnapshot {
    /// Name of the role.
    pub role: &'static str,
    /// Key of its advisory lock.
    pub key: i64,
    /// What this instance is to it.
    pub state: RoleState,
    /// The epoch of the term that goes on.
    pub epoch: Option<Epoch>,
    /// Who holds the lock and isn't Tenure: while it does, nobody leads. Looked for now and then.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stranger: Option<LockHolder>,
}

/// What an instance is to a role.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RoleState {
    /// Another instance leads, or nobody does yet.
    Standby,
    /// This instance leads.
    Leading,
    /// This instance leads, and its worker was asked to finish.
    Draining,
    /// The term has ended and its worker hasn't stopped yet.
    Stopping,
    /// The last term failed; the role is tried again later.
    BackingOff,
    /// The database knows the role by another key, or the key by another role.
    Refused,
}

impl Snapshot {
    /// Whether the instance could lead: leaders *and* stand-bys are ready, so that a rolling deploy goes on.
    pub fn is_ready(&self) -> bool {
        matches!(self.session, SessionState::Open | SessionState::Idle)
    }

    /// Role handles that this instance leads now.
    pub fn led(&self) -> impl Iterator<Item = &RoleSnapshot> {
        self.roles.iter().filter(|role| matches!(role.state, RoleState::Leading | RoleState::Draining))
    }

    /// The snapshot of one role.
    pub fn role(&self, role: Role) -> Option<&RoleSnapshot> {
        self.roles.iter().find(|r| r.key == role.key())
    }
}
