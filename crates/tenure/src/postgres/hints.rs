//! Listens for hints on a connection of its own. It holds no lock, so it may reconnect as it likes.

use crate::Epoch;
use crate::lease::{ACQUIRED_CHANNEL, Hint, RELEASED_CHANNEL, RESIGN_CHANNEL};
use sqlx::{
    Executor as _,
    postgres::{PgConnectOptions, PgListener, PgPoolOptions},
};
use std::time::Duration;
use tokio::sync::mpsc::UnboundedSender;
use uuid::Uuid;

/// A connection that broke without a word is noticed after this long; polling covers the time.
const CHECK_AFTER: Duration = Duration::from_secs(30);
/// How long the check may take.
const CHECK_TIMEOUT: Duration = Duration::from_secs(5);
/// The wait after a failure.
const AGAIN_AFTER: Duration = Duration::from_secs(1);

/// Forwards notifications until nobody takes them any more.
pub(super) async fn forward(options: PgConnectOptions, instance: Uuid, to: UnboundedSender<Hint>) {
    let options = options.application_name(&format!("tenure hints {instance}"));
    while !to.is_closed() {
        if let Err(error) = listen(&options, &to).await {
            // Hints only shorten waits: no reason for more than a debug line.
            tracing::debug!(event = "lease.hints", reason = %error);
        }
        tokio::time::sleep(AGAIN_AFTER).await;
    }
}

async fn listen(options: &PgConnectOptions, to: &UnboundedSender<Hint>) -> Result<(), sqlx::Error> {
    // sqlx wants a pool for a listener; this one has the listener's connection and no other.
    let pool = PgPoolOptions::new()
        .max_connections(1)
        .acquire_timeout(CHECK_TIMEOUT)
        .connect_lazy_with(options.clone());
    let mut listener = PgListener::connect_with(&pool).await?;
    listener.listen_all([RELEASED_CHANNEL, ACQUIRED_CHANNEL, RESIGN_CHANNEL]).await?;
    loop {
        match tokio::time::timeout(CHECK_AFTER, listener.recv()).await {
            Ok(notification) => {
                let notification = notification?;
                let Some(hint) = read(notification.channel(), notification.payload()) else { continue };
                if to.send(hint).is_err() {
                    return Ok(());
                }
            }
            // On the same connection, so that it is this one that is checked.
            Err(_silence) => match tokio::time::timeout(CHECK_TIMEOUT, listener.execute("select 1")).await {
                Ok(alive) => _ = alive?,
                Err(_elapsed) => return Ok(()),
            },
        }
    }
}

fn read(channel: &str, payload: &str) -> Option<Hint> {
    match channel {
        RELEASED_CHANNEL => payload.parse().ok().map(Hint::Released),
        ACQUIRED_CHANNEL => {
            let (key, epoch) = payload.split_once(' ')?;
            Some(Hint::Acquired(key.parse().ok()?, Epoch(epoch.parse().ok()?)))
        }
        RESIGN_CHANNEL => {
            let (role, epoch) = payload.split_once(' ')?;
            Some(Hint::Resign(role.to_owned(), Epoch(epoch.parse().ok()?)))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hints_are_read_and_nonsense_is_ignored() {
        assert_eq!(read(RELEASED_CHANNEL, "-5"), Some(Hint::Released(-5)));
        assert_eq!(read(RELEASED_CHANNEL, "five"), None);
        assert_eq!(read(ACQUIRED_CHANNEL, "-5 7"), Some(Hint::Acquired(-5, Epoch(7))));
        assert_eq!(read(RESIGN_CHANNEL, "poller 7"), Some(Hint::Resign("poller".to_owned(), Epoch(7))));
        assert_eq!(read(RESIGN_CHANNEL, "poller"), None);
        assert_eq!(read("other", "1"), None);
    }
}
