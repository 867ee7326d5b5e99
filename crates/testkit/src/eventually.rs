//! Waiting for something that nothing announces.

use std::{fmt::Debug, future::Future, net::TcpListener, time::Duration};

/// How often it is looked.
const STEP: Duration = Duration::from_millis(20);

/// Looks again and again until `look` returns `Ok`, and returns what it found. A look that takes longer than
/// what is left of `limit` is dropped.
///
/// # Panics
///
/// When that didn't happen within `limit`, with what was seen last.
pub async fn eventually<T, E: Debug, F: Future<Output = Result<T, E>>>(
    limit: Duration,
    mut look: impl FnMut() -> F,
) -> T {
    let end = tokio::time::Instant::now() + limit;
    let mut seen = None;
    loop {
        match tokio::time::timeout_at(end, look()).await {
            Ok(Ok(found)) => return found,
            Ok(Err(not_yet)) => seen = Some(not_yet),
            Err(elapsed) => panic!("still looking after {limit:?} ({elapsed}); last: {seen:?}"),
        }
        assert!(tokio::time::Instant::now() < end, "not within {limit:?}; last: {seen:?}");
        tokio::time::sleep(STEP).await;
    }
}

/// A port on loopback that is free now. Another process may take it before you do: ready for that, try
/// again, or let the program choose its own (`:0`) and log it.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    #[should_panic(expected = "last: Some(\"nothing yet\")")]
    async fn what_was_seen_last_is_in_the_panic() {
        eventually(Duration::from_millis(50), || async { Err::<(), _>("nothing yet") }).await;
    }

    #[tokio::test]
    #[should_panic(expected = "still looking")]
    async fn a_look_that_never_ends_is_bounded_too() {
        eventually(Duration::from_millis(50), std::future::pending::<Result<(), ()>>).await;
    }
}
