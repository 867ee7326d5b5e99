//! The terms whose work may be running, shared by the engine, the workers and the watchdog.
//!
//! A term is on the board from before its worker starts until its worker's future has been dropped. So
//! an empty board means that nothing acts, and only then may a lock be let go.

use super::{EndReason, Trust};
use crate::{
    Epoch, Role, Term, Timing,
    clock::{Moment, SharedClock},
};
use std::{
    collections::HashMap,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

/// See the module.
#[derive(Debug)]
pub(crate) struct Board {
    state: Mutex<State>,
    changed: Condvar,
    trust: Arc<Trust>,
    clock: SharedClock,
    timing: Timing,
}

#[derive(Debug, Default)]
struct State {
    active: HashMap<i64, Active>,
    closed: bool,
}

#[derive(Debug)]
struct Active {
    term: Term,
    /// When the work has to have stopped; the grace comes on top.
    stop_by: Option<Moment>,
    /// When the watchdog first saw that it hadn't. A process that was frozen gets its grace after it wakes.
    overdue_since: Option<Moment>,
}

/// What the watchdog decides.
#[derive(Debug, PartialEq, Eq)]
enum Decision {
    /// Look again after this long, or when the board changes.
    Wait(Option<Duration>),
    /// There is something to do.
    Act(Watch),
}

/// What the watchdog has to do.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Watch {
    /// Work went on past its last moment: end the process.
    Exit(Role, Epoch),
    /// The engine has ended and nothing runs.
    Done,
}

impl Board {
    pub(crate) fn new(clock: SharedClock, timing: Timing) -> Self {
        Self {
            state: Mutex::default(),
            changed: Condvar::new(),
            trust: Arc::new(Trust::default()),
            clock,
            timing,
        }
    }

    pub(crate) fn trust(&self) -> &Arc<Trust> {
        &self.trust
    }

    /// Extends trust by a proof that was sent at `sent`. Refused when trust had already run out under a
    /// term: the watchdog may have ended it, and no late answer revives it.
    pub(crate) fn renew(&self, sent: Moment) -> Result<(), EndReason> {
        let state = self.lock();
        if !state.active.is_empty() && !self.trust.holds(self.clock.now()) {
            return Err(EndReason::TrustExpired);
        }
        self.trust.extend(sent + self.timing.trust());
        Ok(())
    }

    /// Puts a term on the board, before its worker starts.
    pub(crate) fn add(&self, term: Term) {
        self.lock().active.insert(term.role().key(), Active { term, stop_by: None, overdue_since: None });
        self.changed.notify_all();
    }

    /// Takes a term off the board, after its worker's future was dropped.
    pub(crate) fn remove(&self, term: &Term) {
        let mut state = self.lock();
        if state.active.get(&term.role().key()).is_some_and(|active| active.term.epoch() == term.epoch()) {
            state.active.remove(&term.role().key());
        }
        drop(state);
        self.changed.notify_all();
    }

    /// Ends one term: its work has to stop now.
    pub(crate) fn revoke(&self, key: i64, reason: EndReason) {
        let now = self.clock.now();
        if let Some(active) = self.lock().active.get_mut(&key) {
            active.revoke(reason, now);
        }
        self.changed.notify_all();
    }

    /// Ends every term: all work has to stop now.
    pub(crate) fn revoke_all(&self, reason: EndReason) {
        let now = self.clock.now();
        for active in self.lock().active.values_mut() {
            active.revoke(reason, now);
        }
        self.changed.notify_all();
    }

    /// Whether nothing acts.
    pub(crate) fn is_empty(&self) -> bool {
        self.lock().active.is_empty()
    }

    /// The engine has ended. The watchdog goes on until nothing runs.
    pub(crate) fn close(&self) {
        self.lock().closed = true;
        self.changed.notify_all();
    }

    /// The watchdog's part: ends terms whose trust has run out, and blocks until there is more to do.
    pub(crate) fn watch(&self) -> Watch {
        let mut state = self.lock();
        loop {
            // Deciding and waiting share one lock, so no change is missed between them.
            state = match self.decide(&mut state) {
                Decision::Wait(None) => self.changed.wait(state).unwrap_or_else(PoisonError::into_inner),
                Decision::Wait(Some(limit)) => {
                    self.changed.wait_timeout(state, limit).unwrap_or_else(PoisonError::into_inner).0
                }
                Decision::Act(watch) => return watch,
            };
        }
    }

    fn decide(&self, state: &mut State) -> Decision {
        if state.active.is_empty() {
            return if state.closed { Decision::Act(Watch::Done) } else { Decision::Wait(None) };
        }
        let now = self.clock.now();
        let trust_until = self.trust.until();
        if now >= trust_until {
            for active in state.active.values_mut() {
                active.revoke(EndReason::TrustExpired, now);
            }
        }
        let grace = self.timing.stop_grace();
        let mut next = (now < trust_until).then_some(trust_until);
        for active in state.active.values_mut() {
            let Some(stop_by) = active.stop_by else { continue };
            let due = if now < stop_by {
                stop_by
            } else {
                let exit_at = *active.overdue_since.get_or_insert(now) + grace;
                if now >= exit_at {
                    return Decision::Act(Watch::Exit(active.term.role(), active.term.epoch()));
                }
                exit_at
            };
            next = Some(next.map_or(due, |next| next.min(due)));
        }
        Decision::Wait(next.map(|next| next.since(now)))
    }

    /// The state is a map of handles and flags: valid after any panic.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Active {
    fn revoke(&mut self, reason: EndReason, now: Moment) {
        self.term.revoke(reason);
        self.stop_by.get_or_insert(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Clock;
    use uuid::Uuid;

    /// Tells the time that it is told.
    #[derive(Debug, Default)]
    struct Hands(Mutex<Duration>);

    impl Hands {
        fn set(&self, to: Duration) {
            *self.0.lock().unwrap() = to;
        }
    }

    impl Clock for Hands {
        fn now(&self) -> Moment {
            Moment::from_boot(*self.0.lock().unwrap())
        }
    }

    const ROLE: Role = Role::new("a", 1);

    /// A board with one term that was proved at 100 s, with the default timing.
    fn led() -> (Arc<Hands>, Board, Term) {
        let hands = Arc::new(Hands::default());
        hands.set(Duration::from_secs(100));
        let clock: SharedClock = hands.clone();
        let board = Board::new(Arc::clone(&clock), Timing::default());
        board.renew(clock.now()).unwrap();
        let trust = Arc::clone(board.trust());
        let term = Term::new(ROLE, Epoch(7), Uuid::nil(), trust, clock, Timing::default());
        board.add(term.clone());
        (hands, board, term)
    }

    fn decide(board: &Board) -> Decision {
        board.decide(&mut board.lock())
    }

    #[test]
    fn a_trusted_term_is_left_alone_until_its_deadline() {
        let (_, board, term) = led();
        assert_eq!(decide(&board), Decision::Wait(Some(Timing::default().trust())));
        assert!(term.is_active());
    }

    #[test]
    fn trust_that_ran_out_ends_the_term_and_then_the_process() {
        let (hands, board, term) = led();
        let trust_ends = Duration::from_secs(100) + Timing::default().trust();
        hands.set(trust_ends);
        assert!(!term.is_active(), "the term knows by itself");
        assert_eq!(decide(&board), Decision::Wait(Some(Timing::default().stop_grace())));
        assert_eq!(term.end().reason, EndReason::TrustExpired);
        hands.set(trust_ends + Timing::default().stop_grace());
        assert_eq!(decide(&board), Decision::Act(Watch::Exit(ROLE, Epoch(7))));
        assert!(Timing::default().hard_stop() < Timing::default().ttl());
    }

    #[test]
    fn a_proof_that_arrives_after_the_deadline_revives_nothing() {
        let (hands, board, term) = led();
        hands.set(Duration::from_secs(100) + Timing::default().trust());
        assert_eq!(board.renew(Moment::from_boot(Duration::from_secs(105))), Err(EndReason::TrustExpired));
        assert!(!term.is_active());
    }

    #[test]
    fn a_process_that_was_frozen_gets_its_grace_after_it_wakes() {
        let (hands, board, _term) = led();
        board.revoke_all(EndReason::SessionTerminated);
        hands.set(Duration::from_secs(5000));
        assert_eq!(decide(&board), Decision::Wait(Some(Timing::default().stop_grace())));
        hands.set(Duration::from_secs(5000) + Timing::default().stop_grace());
        assert_eq!(decide(&board), Decision::Act(Watch::Exit(ROLE, Epoch(7))));
    }

    #[test]
    fn work_that_stops_within_its_grace_keeps_the_process() {
        let (hands, board, term) = led();
        board.revoke(ROLE.key(), EndReason::Shutdown);
        assert_eq!(decide(&board), Decision::Wait(Some(Timing::default().stop_grace())));
        board.remove(&term);
        hands.set(Duration::from_secs(200));
        assert_eq!(decide(&board), Decision::Wait(None));
        board.close();
        assert_eq!(decide(&board), Decision::Act(Watch::Done));
    }

    #[test]
    fn a_newer_term_of_the_role_stays_when_an_older_one_stops() {
        let (_, board, old) = led();
        let clock: SharedClock = Arc::new(Hands::default());
        let new = Term::new(ROLE, Epoch(8), Uuid::nil(), Arc::clone(board.trust()), clock, Timing::default());
        board.add(new);
        board.remove(&old);
        assert_eq!(board.lock().active.len(), 1);
    }
}
