//! What the engine needs of a database: narrow enough that its policy runs on paused time without one.

use super::{EndReason, LockHolder};
use crate::{Epoch, Role, front_door::Verdict};
use async_trait::async_trait;
use std::{future::Future, pin::Pin};
use tokio::sync::mpsc::UnboundedSender;

/// A hint from another session. It only ever shortens a wait; polling stays behind it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Hint {
    /// The lease with this key was released.
    Released(i64),
    /// A term with this epoch has begun for the role with this key.
    Acquired(i64, Epoch),
    /// Somebody asks for the end of this term of the role with this name. A term that follows isn't meant.
    Resign(String, Epoch),
}

/// Opens lease sessions.
#[async_trait]
pub(crate) trait LeaseDatabase: Send + Sync + 'static {
    /// One lease session.
    type Session: LeaseSession;

    /// Examines the front door and, when it is accepted, opens a lease session behind it.
    async fn open(&self) -> Result<Self::Session, Verdict>;

    /// Passes hints on for as long as the returned future is polled.
    fn hints(&self, to: UnboundedSender<Hint>) -> Pin<Box<dyn Future<Output = ()> + Send>>;
}

/// The dedicated connection that holds all locks of an instance.
///
/// A future of it that is dropped, or an error that says the session is lost, makes it unusable: it is
/// then kept silent until the work has stopped, and dropped.
#[async_trait]
pub(crate) trait LeaseSession: Send {
    /// Proves that this is still the session that was opened and that it holds exactly `held`, and tells
    /// which of `wanted` nobody holds. Writes nothing.
    async fn pulse(&mut self, held: &[i64], wanted: &[i64]) -> Result<Vec<i64>, Lost>;

    /// Those who hold the locks of `keys` and aren't lease sessions of Tenure.
    async fn strangers(&mut self, keys: &[i64]) -> Result<Vec<LockHolder>, Lost>;

    /// Tries to take the locks of `wanted`, and begins a term for each that it got.
    async fn acquire(&mut self, wanted: &[Role]) -> Result<Vec<(Role, Attempt)>, AcquireError>;

    /// Ends terms: records why, unlocks, announces. An unlock that isn't true is a loss.
    async fn release(&mut self, ended: &[(Role, Epoch, EndReason)]) -> Result<(), Lost>;
}

/// The lease session can't be trusted any more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Lost {
    pub(crate) reason: EndReason,
    /// What was seen, for the log.
    pub(crate) detail: String,
}

/// How the try for one role went.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Attempt {
    /// The lock is held, and the epoch is committed.
    Won(Epoch),
    /// Somebody else leads.
    Busy,
    /// Refused loudly: two binaries disagree about a key, or the backend is shared.
    Refused(String),
}

/// The tries failed as a whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum AcquireError {
    /// The session is lost.
    Lost(Lost),
    /// Nothing was taken and the session goes on. It doesn't mean that somebody else leads.
    Failed {
        /// What happened, with the server's own words.
        because: String,
        /// What to do.
        advice: String,
    },
}
