//! Why a term ended, as logs, metrics and the term history name it.

use serde::Serialize;
use std::fmt;

/// Why a term ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum EndReason {
    /// Planned: the process was told to stop.
    Shutdown,
    /// Planned: somebody asked the leader to hand over.
    Resigned,
    /// The worker returned `Ok`: it resigned its term.
    WorkerReturned,
    /// The worker returned an error.
    WorkerFailed,
    /// The worker panicked.
    WorkerPanicked,
    /// Lost: no proof succeeded until the trust deadline, as after a freeze.
    TrustExpired,
    /// Lost: a statement on the lease session got no answer in time.
    StatementTimeout,
    /// Lost: the server ended the session at its bound (57P05).
    IdleTimeout,
    /// Lost: somebody or something ended the session on the server (57P01 and its kind).
    SessionTerminated,
    /// Lost: the connection broke.
    ConnectionLost,
    /// Lost: the session answers from another backend, or without our stamp.
    SessionChanged,
    /// Lost: the server doesn't list a lock that should be held.
    LockMissing,
    /// Lost: the server is in recovery, so it isn't the primary any more.
    InRecovery,
    /// Lost: the server is on another timeline than when the session began.
    TimelineChanged,
    /// Lost: a statement on the lease session failed for another reason.
    StatementFailed,
    /// Lost: unlocking didn't answer true.
    UnlockRefused,
}

impl EndReason {
    /// The word in logs, metrics and the table `tenure.term`.
    pub const fn as_str(self) -> &'static str {
        match self {
            EndReason::Shutdown => "shutdown",
            EndReason::Resigned => "resigned",
            EndReason::WorkerReturned => "worker_returned",
            EndReason::WorkerFailed => "worker_failed",
            EndReason::WorkerPanicked => "worker_panicked",
            EndReason::TrustExpired => "trust_expired",
            EndReason::StatementTimeout => "statement_timeout",
            EndReason::IdleTimeout => "idle_timeout",
            EndReason::SessionTerminated => "session_terminated",
            EndReason::ConnectionLost => "connection_lost",
            EndReason::SessionChanged => "session_changed",
            EndReason::LockMissing => "lock_missing",
            EndReason::InRecovery => "in_recovery",
            EndReason::TimelineChanged => "timeline_changed",
            EndReason::StatementFailed => "statement_failed",
            EndReason::UnlockRefused => "unlock_refused",
        }
    }
}

impl fmt::Display for EndReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}
