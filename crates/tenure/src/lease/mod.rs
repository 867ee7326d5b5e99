//! The lease protocol.
//!
//! Every role has a 64-bit key. An instance leads a role while its *lease session*, one dedicated
//! `PostgreSQL` connection, holds the session-level advisory lock on that key. One actor owns the session
//! and is the only code that speaks on it. It runs on a thread and a runtime of its own, so that neither
//! a blocked worker nor an exhausted pool can keep it from its heartbeats.
//!
//! ```text
//!         ┌──────────┐ front door accepted ┌──────────┐  lock won, epoch committed ┌─────────┐
//! start → │ Opening  │ ──────────────────▶ │ Standby  │ ─────────────────────────▶ │ Leading │
//!         └──────────┘                     └──────────┘ ◀───── drained, unlocked ─ └─────────┘
//!              ▲  refused: wait, look again      ▲                                      │
//!              └─────────────────────────────────┴── session lost: work stopped ────────┘
//! ```
//!
//! **Opening** ([`engine`]). The front door is examined; only behind an accepted one is a lock tried. A
//! lock taken through a transaction pooler stays on the pooled backend and blocks everybody.
//!
//! **Standby** ([`serving`]). Once per retry interval one statement, the *pulse*, tells which of the
//! wanted roles nobody holds. It takes no lock and no snapshot that outlives it. Only roles that look
//! free are tried, so an idle stand-by costs one small read per interval, for 3 roles or for 10,000. A
//! release is announced with NOTIFY; the hint only shortens the wait. So is a term that begins: a leader
//! whose session was ended on the server hears of its successor, and sends its next pulse at once.
//!
//! **Acquiring.** One explicit transaction: refuse if our backend already holds a key that we never took
//! (then the backend is shared) or if the lease table knows the role by another key; try the lock, which
//! never waits; raise the epoch; open a row in the term history; commit. The worker starts after the
//! commit. When anything in between fails, what was locked is unlocked again, and an unlock that isn't
//! true closes the session.
//!
//! **Leading.** The same pulse proves, for all terms at once: same backend process and start time, same
//! stamp, every key granted to this backend and no other key, not in recovery, same timeline. It writes
//! nothing. Any mismatch, error or timeout loses the session. Nothing is re-checked or reconnected under
//! a leader. An instance that leads some roles and stands by for others sends one pulse for both.
//!
//! **Trust** ([`trust`], [`board`]). Terms may act until the moment the last successful pulse was *sent*,
//! plus ttl, minus the safety margin, on a clock that counts suspended time. The actor checks it before
//! each statement, every term checks it before each write, and the watchdog ends terms at it.
//!
//! **Stopping** ([`stopping`]). Loss: the terms' tokens are cancelled and the workers' futures dropped, then it is
//! logged. Planned: the worker is asked to finish, the pulse goes on, and after the drain timeout the
//! future is dropped. In both cases the session is let go only when the board is empty, that is when no
//! worker's future exists any more: the lock is never free while the work may still be running. Work
//! that can't be dropped since it blocks its thread is ended with its process by the [`watchdog`].
//!
//! **A worker that fails** ends its own term only; its role rests for a while ([`backoff`]) and is then
//! tried again by whoever is first.
//!
//! *Notes.* All roles of an instance ride on one session, so losing it loses them together. A term that
//! was lost stays open in the history until the next leader closes it as `superseded`: an ex-leader
//! writes nothing. Before trying a role that is free, an instance waits a little for each role that it
//! leads already ([`spread`]).

mod backoff;
mod board;
mod database;
mod engine;
mod reason;
mod serving;
mod slot;
mod snapshot;
mod spread;
mod stopping;
mod strangers;
#[cfg(test)]
mod tests;
mod trust;
pub mod watchdog;
mod work;

pub use crate::postgres::{LockHolder, lock_holders};
pub(crate) use board::Board;
pub(crate) use database::{AcquireError, Attempt, Hint, LeaseDatabase, LeaseSession, Lost};
pub(crate) use engine::{Command, Engine, Setup};
pub use reason::EndReason;
pub use snapshot::{RoleSnapshot, RoleState, SessionState, Snapshot};
pub(crate) use trust::Trust;
pub(crate) use work::WorkOutcome;

/// NOTIFY channel that announces a released lease. The payload is the key.
pub const RELEASED_CHANNEL: &str = "tenure_released";
/// NOTIFY channel that announces a term that has begun. The payload is the key, a space, and the epoch.
pub const ACQUIRED_CHANNEL: &str = "tenure_acquired";
/// NOTIFY channel that asks the leader of a role to hand over. The payload is the role's name,
/// a space, and the epoch of the term that should end.
pub const RESIGN_CHANNEL: &str = "tenure_resign";
/// The lease session's `application_name` begins with this; the instance's UUID follows.
pub const APPLICATION_NAME_PREFIX: &str = "tenure lease ";
