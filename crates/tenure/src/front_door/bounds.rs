//! The session's bounds: after ttl of silence, whatever the cause, the server frees the locks by itself.

use crate::Timing;
use std::time::Duration;

/// What a session asks of its server.
///
/// `idle_session_timeout` covers a process that is frozen or cut off; the TCP settings find a dead peer
/// while a statement runs; `client_connection_check_interval` notices a closed socket during one.
#[derive(Debug, Clone)]
pub(super) struct Bounds {
    timing: Timing,
    /// Those that this server lets nobody set.
    pub(super) without: Vec<&'static str>,
}

/// Those that only make a release come sooner. Some managed services keep them to themselves, and no
/// other system than Linux has the last one.
const OPTIONAL: [&str; 5] = [
    "tcp_user_timeout",
    "tcp_keepalives_idle",
    "tcp_keepalives_interval",
    "tcp_keepalives_count",
    "client_connection_check_interval",
];

impl Bounds {
    pub(super) fn new(timing: &Timing) -> Self {
        Self { timing: *timing, without: Vec::new() }
    }

    pub(super) fn ttl(&self) -> Duration {
        self.timing.ttl()
    }

    pub(super) fn statement_timeout(&self) -> Duration {
        self.timing.statement_timeout()
    }

    /// Names and values of those that are asked for.
    pub(super) fn settings(&self) -> impl Iterator<Item = (&'static str, String)> {
        let (ttl, statement) = (self.timing.ttl(), self.timing.statement_timeout());
        let seconds = |duration: Duration| duration.as_secs().max(1).to_string();
        let all = [
            ("idle_session_timeout", ttl.as_millis().to_string()),
            ("idle_in_transaction_session_timeout", statement.as_millis().to_string()),
            ("statement_timeout", statement.as_millis().to_string()),
            ("tcp_user_timeout", ttl.as_millis().to_string()),
            ("tcp_keepalives_idle", seconds(ttl / 3)),
            ("tcp_keepalives_interval", seconds(ttl / 6)),
            ("tcp_keepalives_count", "3".to_owned()),
            ("client_connection_check_interval", (ttl / 3).as_millis().to_string()),
        ];
        all.into_iter().filter(|(name, _)| !self.without.contains(name))
    }

    /// Whether the server refused one that isn't needed; it isn't asked for from now on.
    pub(super) fn can_do_without(&mut self, error: &sqlx::Error) -> bool {
        let Some(error) = error.as_database_error() else { return false };
        let named = |name: &&&str| error.message().contains(&format!("\"{name}\""));
        let refused = OPTIONAL.iter().find(named).filter(|name| !self.without.contains(name));
        self.without.extend(refused);
        refused.is_some()
    }
}
