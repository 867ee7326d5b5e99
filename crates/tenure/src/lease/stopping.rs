//! Stopping work, in every way that it ends: planned, failed, or lost with the session.

use super::{
    EndReason, SessionState,
    backoff::{FORGIVEN_AFTER, rest},
    database::{LeaseDatabase, LeaseSession, Lost},
    engine::{Command, Course, Engine},
    slot::State,
    work::{Stopped, WorkOutcome},
};
use crate::{Epoch, Role, Term, telemetry};
use std::time::Duration;

impl<D: LeaseDatabase> Engine<D> {
    pub(super) fn obey(&mut self, command: Option<&Command>) {
        match command {
            Some(Command::Resign(key)) => self.resign(|term| term.role().key() == *key),
            Some(Command::Drain) => {
                self.course = self.course.max(Course::Draining);
                self.drain(EndReason::Shutdown, |_| true);
            }
            // Without an owner nobody would ever stop it.
            Some(Command::StopAtOnce) | None => self.stop_at_once(),
        }
    }

    fn stop_at_once(&mut self) {
        self.course = Course::Stopping;
        for slot in &mut self.slots {
            if let Some(term) = slot.term().cloned() {
                self.board.revoke(slot.role.key(), EndReason::Shutdown);
                slot.state = State::Stopping { term, reason: EndReason::Shutdown };
            }
        }
    }

    pub(super) fn resign(&mut self, which: impl Fn(&Term) -> bool) {
        self.drain(EndReason::Resigned, which);
    }

    fn drain(&mut self, reason: EndReason, which: impl Fn(&Term) -> bool) {
        let until = self.now() + self.timing.drain_timeout();
        for slot in &mut self.slots {
            if let State::Leading { term, .. } = &slot.state
                && which(term)
            {
                let term = term.clone();
                telemetry::draining(&term, reason);
                term.drain();
                slot.state = State::Draining { term, until, reason };
            }
        }
    }

    pub(super) fn expire_drains(&mut self) {
        let now = self.now();
        for slot in &mut self.slots {
            if let State::Draining { term, until, reason } = &slot.state
                && now >= *until
            {
                let (term, reason) = (term.clone(), *reason);
                self.board.revoke(slot.role.key(), reason);
                slot.state = State::Stopping { term, reason };
            }
        }
    }

    /// Hands over the roles whose workers have stopped: records, unlocks, announces.
    pub(super) async fn release(&mut self, session: &mut D::Session, first: Stopped) -> Result<(), Lost> {
        let mut ended: Vec<(Term, EndReason)> = self.conclude(first).into_iter().collect();
        while let Ok(next) = self.stopped.try_recv() {
            ended.extend(self.conclude(next));
        }
        if ended.is_empty() {
            return Ok(());
        }
        let orders: Vec<(Role, Epoch, EndReason)> =
            ended.iter().map(|(term, reason)| (term.role(), term.epoch(), *reason)).collect();
        let released = self.bounded(session.release(&orders)).await;
        for (term, reason) in &ended {
            match &released {
                Ok(()) => telemetry::released(term, *reason),
                Err(lost) => telemetry::lost(term, lost.reason, &lost.detail),
            }
        }
        released
    }

    /// Notes that a worker has stopped, and decides what its role does next. `None` for a report of a term
    /// that was lost and is over already.
    fn conclude(&mut self, stopped: Stopped) -> Option<(Term, EndReason)> {
        let now = self.now();
        let Stopped { term, outcome } = stopped;
        let slot = &mut self.slots[self.by_key[&term.role().key()]];
        if slot.term().map(Term::epoch) != Some(term.epoch()) {
            return None;
        }
        let (reason, since) = match &slot.state {
            State::Draining { reason, .. } | State::Stopping { reason, .. } => (*reason, None),
            State::Leading { since, .. } => {
                let reason = match outcome {
                    WorkOutcome::Returned => EndReason::WorkerReturned,
                    // Dropped although nobody ended the term: the runtime of the work is shutting down.
                    WorkOutcome::Failed(_) | WorkOutcome::Dropped => EndReason::WorkerFailed,
                    WorkOutcome::Panicked(_) => EndReason::WorkerPanicked,
                };
                (reason, Some(*since))
            }
            State::Standby | State::Refused { .. } | State::Resting { .. } => return None,
        };
        // No clone of the term may act from here on: the lock is about to be let go.
        term.revoke(reason);
        slot.state = match reason {
            EndReason::WorkerFailed | EndReason::WorkerPanicked => {
                let lasted = since.map_or(Duration::ZERO, |since| now.since(since));
                slot.failures = if lasted >= FORGIVEN_AFTER { 1 } else { slot.failures.saturating_add(1) };
                State::Resting { until: now + rest(slot.failures) }
            }
            EndReason::WorkerReturned => {
                slot.failures = 0;
                State::Resting { until: now + rest(1) }
            }
            // Long enough for another instance to take it, by its polling too.
            EndReason::Resigned => {
                State::Resting { until: now + self.timing.retry_interval() * 2 + Duration::from_secs(1) }
            }
            _ => State::Standby,
        };
        Some((term, reason))
    }

    /// The session can't be trusted: stops all work, and waits until nothing of it is left.
    pub(super) async fn lose(&mut self, lost: Lost) {
        self.board.revoke_all(lost.reason);
        if self.led() == 0 {
            telemetry::session_lost(lost.reason, &lost.detail);
        }
        for slot in &mut self.slots {
            if let Some(term) = slot.term().cloned() {
                telemetry::lost(&term, lost.reason, &lost.detail);
                slot.state = State::Stopping { term, reason: lost.reason };
            }
        }
        self.enter(SessionState::Opening);
        // The board knows what still acts; a report may already have been taken when the loss was noticed.
        while !self.board.is_empty() {
            tokio::select! {
                biased;
                Some(stopped) = self.stopped.recv() => drop(self.conclude(stopped)),
                command = self.commands.recv(), if self.course != Course::Stopping => {
                    if !matches!(command, Some(Command::Resign(_))) {
                        self.course = Course::Stopping;
                    }
                }
            }
        }
        for slot in &mut self.slots {
            if slot.term().is_some() {
                slot.state = State::Standby;
            }
        }
        self.publish();
    }
}
