//! Waiting for something that nothing announces.

use std::{fmt::Debug, future::Future, net::TcpListener, time::Duration};

/// How often it is looked.
const STEP: Duration = Duration::from_millis(20);

/// Looks again and again until `look` returns `Ok`, and returns what it found.
///
/// # Panics
///
/// When that didn't happen within `limit`, with what was seen last.
pub async fn eventually<T, E: Debug, F: Future<Output = Result<T, E>>>(
    limit: Duration,
    mut look: impl FnMut() -> F,
) -> T {
    let end = tokio::time::Instant::now() + limit;
    loop {
        match look().await {
            Ok(found) => return found,
            Err(seen) if tokio::time::Instant::now() >= end => panic!("not within {limit:?}; last: {seen:?}"),
            Err(_not_yet) => tokio::time::sleep(STEP).await,
        }
    }
}

/// A port on loopback that is free now.
///
/// # Panics
///
/// When there is none.
pub fn free_port() -> u16 {
    TcpListener::bind(("127.0.0.1", 0))
        .and_then(|listener| listener.local_addr())
        .expect("a free port")
        .port()
}
