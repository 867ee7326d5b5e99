//! A term: one uninterrupted leadership of one role by one instance, as its worker sees it.

use crate::{
    Role, Timing,
    clock::SharedClock,
    lease::{EndReason, Trust},
};
use serde::Serialize;
use std::{
    fmt,
    future::Future,
    sync::{Arc, OnceLock},
    time::Duration,
};
use thiserror::Error;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

/// The fencing token of a term. For one role it only ever rises, also across failovers: the server's
/// timeline is in its upper bits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize)]
#[serde(transparent)]
pub struct Epoch(pub i64);

impl Epoch {
    /// How many bits count the terms within one timeline. 2^21 timelines stay exact in a JSON number.
    pub const COUNTER_BITS: u32 = 32;
}

impl fmt::Display for Epoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// One uninterrupted leadership of one role by one instance.
///
/// A cheap handle: clones speak of the same term. It never becomes valid again once it ended; the next
/// leadership is another `Term` with a higher [`Epoch`].
#[derive(Clone)]
pub struct Term(Arc<Inner>);

struct Inner {
    role: Role,
    epoch: Epoch,
    instance: Uuid,
    /// A planned stop: finish what you are at.
    soft: CancellationToken,
    /// The end: the worker's future is dropped.
    hard: CancellationToken,
    reason: OnceLock<EndReason>,
    trust: Arc<Trust>,
    clock: SharedClock,
    timing: Timing,
}

/// What ended a wait of [`Term::sleep`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use]
pub enum Wake {
    /// The time is over and the term goes on.
    Leading,
    /// A planned stop: finish what you are at and return.
    Draining,
    /// The term has ended: another instance may lead.
    Ended,
}

impl Wake {
    /// Whether the worker should go on with new work.
    pub const fn is_leading(self) -> bool {
        matches!(self, Wake::Leading)
    }
}

/// The term ended while something was waited for.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("the term of {role} with epoch {epoch} has ended: {reason}")]
pub struct TermEnded {
    /// The role.
    pub role: Role,
    /// The term's epoch.
    pub epoch: Epoch,
    /// Why it ended.
    pub reason: EndReason,
}

impl Term {
    pub(crate) fn new(
        role: Role,
        epoch: Epoch,
        instance: Uuid,
        trust: Arc<Trust>,
        clock: SharedClock,
        timing: Timing,
    ) -> Self {
        Self(Arc::new(Inner {
            role,
            epoch,
            instance,
            soft: CancellationToken::new(),
            hard: CancellationToken::new(),
            reason: OnceLock::new(),
            trust,
            clock,
            timing,
        }))
    }

    /// The role that is led.
    pub fn role(&self) -> Role {
        self.0.role
    }

    /// The fencing token. Pass it on to everything that can refuse an older one.
    pub fn epoch(&self) -> Epoch {
        self.0.epoch
    }

    /// This incarnation of the process.
    pub fn instance(&self) -> Uuid {
        self.0.instance
    }

    /// Whether the worker may act now: the term hasn't ended, and the last proof is recent enough.
    ///
    /// True while draining. The answer can be outdated when the process is frozen right after it, so
    /// writes go through [`Term::begin_fenced`].
    pub fn is_active(&self) -> bool {
        !self.0.hard.is_cancelled() && self.0.trust.holds(self.0.clock.now())
    }

    /// Whether a planned stop has begun: take no new work.
    pub fn is_draining(&self) -> bool {
        self.0.soft.is_cancelled()
    }

    /// Waits `duration`, or less when a planned stop begins or the term ends. Cancel-safe.
    pub async fn sleep(&self, duration: Duration) -> Wake {
        tokio::select! {
            biased;
            () = self.0.hard.cancelled() => Wake::Ended,
            () = self.0.soft.cancelled() => Wake::Draining,
            () = tokio::time::sleep(duration) => self.wake(),
        }
    }

    /// What [`Term::sleep`] would return after no time at all.
    pub fn wake(&self) -> Wake {
        if !self.is_active() {
            Wake::Ended
        } else if self.is_draining() {
            Wake::Draining
        } else {
            Wake::Leading
        }
    }

    /// Waits for the begin of a planned stop, or the end of the term. Cancel-safe.
    pub async fn draining(&self) {
        self.0.soft.cancelled().await;
    }

    /// Waits for the end of the term. Cancel-safe.
    pub async fn ended(&self) -> TermEnded {
        self.0.hard.cancelled().await;
        self.end()
    }

    /// Runs `work` to its end, or drops it when the term ends. A planned stop doesn't interrupt it.
    ///
    /// # Errors
    ///
    /// [`TermEnded`] when the term has ended before `work` did. Then `work` was dropped, wherever it was.
    pub async fn run<F: Future>(&self, work: F) -> Result<F::Output, TermEnded> {
        tokio::select! {
            biased;
            ended = self.ended() => Err(ended),
            output = work => Ok(output),
        }
    }

    pub(crate) fn timing(&self) -> &Timing {
        &self.0.timing
    }

    pub(crate) fn end(&self) -> TermEnded {
        TermEnded {
            role: self.0.role,
            epoch: self.0.epoch,
            reason: self.0.reason.get().copied().unwrap_or(EndReason::TrustExpired),
        }
    }

    /// Begins a planned stop.
    pub(crate) fn drain(&self) {
        self.0.soft.cancel();
    }

    /// Ends the term. The first reason stays.
    pub(crate) fn revoke(&self, reason: EndReason) {
        let _first = self.0.reason.set(reason);
        self.0.soft.cancel();
        self.0.hard.cancel();
    }
}

impl fmt::Debug for Term {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Term({} epoch {}, {:?})", self.0.role, self.0.epoch, self.wake())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::{BootClock, Clock as _};

    fn term() -> (Term, Arc<Trust>) {
        let (trust, clock) = (Arc::new(Trust::default()), BootClock);
        trust.extend(clock.now() + Duration::from_secs(3600));
        let role = Role::new("a", 1);
        let term =
            Term::new(role, Epoch(3), Uuid::nil(), Arc::clone(&trust), Arc::new(clock), Timing::default());
        (term, trust)
    }

    const LONG: Duration = Duration::from_secs(3600);

    #[tokio::test(start_paused = true)]
    async fn a_sleep_ends_with_its_time_a_drain_or_the_end_of_the_term() {
        let (term, _) = term();
        assert_eq!(term.sleep(LONG).await, Wake::Leading);
        let asleep = tokio::spawn({
            let term = term.clone();
            async move { term.sleep(LONG * 1000).await }
        });
        tokio::task::yield_now().await;
        term.drain();
        assert_eq!(asleep.await.unwrap(), Wake::Draining);
        assert!(term.is_active(), "a draining leader still leads");
        term.revoke(EndReason::Shutdown);
        assert_eq!(term.sleep(LONG).await, Wake::Ended);
    }

    #[tokio::test(start_paused = true)]
    async fn work_within_a_term_is_dropped_when_the_term_ends_and_not_when_it_drains() {
        struct Dropped(Arc<std::sync::atomic::AtomicBool>);
        impl Drop for Dropped {
            fn drop(&mut self) {
                self.0.store(true, std::sync::atomic::Ordering::Relaxed);
            }
        }
        let (term, _) = term();
        assert_eq!(term.run(async { 5 }).await, Ok(5));
        let dropped = Arc::new(std::sync::atomic::AtomicBool::new(false));
        let running = tokio::spawn({
            let (term, guard) = (term.clone(), Dropped(Arc::clone(&dropped)));
            async move {
                term.run(async move {
                    let _guard = guard;
                    std::future::pending::<()>().await;
                })
                .await
            }
        });
        term.drain();
        tokio::task::yield_now().await;
        assert!(!dropped.load(std::sync::atomic::Ordering::Relaxed));
        term.revoke(EndReason::ConnectionLost);
        let ended = running.await.unwrap().unwrap_err();
        assert_eq!((ended.epoch, ended.reason), (Epoch(3), EndReason::ConnectionLost));
        assert!(dropped.load(std::sync::atomic::Ordering::Relaxed));
    }

    #[test]
    fn the_first_reason_of_an_end_stays() {
        let (term, _) = term();
        term.revoke(EndReason::TrustExpired);
        term.revoke(EndReason::Shutdown);
        assert_eq!(term.end().reason, EndReason::TrustExpired);
        assert_eq!(term.wake(), Wake::Ended);
    }
}
