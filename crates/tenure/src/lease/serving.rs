//! The states behind an accepted front door: *Standby*, *Acquiring* and *Leading*.

use super::{
    EndReason, SessionState,
    backoff::jittered,
    database::{AcquireError, Attempt, Hint, LeaseDatabase, LeaseSession, Lost},
    engine::{Command, Course, Engine},
    slot::State,
    spread,
    work::{self, Stopped},
};
use crate::{Role, Term, clock::Moment, telemetry};
use std::{collections::HashSet, future::Future, sync::Arc, time::Duration};
use tokio_util::task::AbortOnDropHandle;

/// The same complaint is logged at most this often.
const REPEAT_AFTER: Duration = Duration::from_secs(60);

/// After failures, tries are this many retry intervals apart at most.
const MOST_PATIENT: u32 = 20;

/// A role that was refused is left alone for this long: somebody has to correct a key first.
const REFUSED_REST: Duration = Duration::from_secs(10);

/// What woke the actor.
enum Event {
    Command(Option<Command>),
    Stopped(Stopped),
    Hint(Hint),
    Time,
}

/// What one session remembers.
pub(super) struct Round {
    pulse_at: Moment,
    /// When it is looked next who holds the locks that can't be had.
    pub(super) look_at: Moment,
    complaint: Option<(String, Moment)>,
    /// Tries in a row that failed as a whole, and until when none is made.
    failures: u32,
    rest_until: Moment,
}

impl<D: LeaseDatabase> Engine<D> {
    /// Stands by and leads on `session` until it is lost or the instance is told to stop.
    pub(super) async fn serve(&mut self, mut session: D::Session) {
        self.stand_by();
        self.enter(SessionState::Open);
        let hints = AbortOnDropHandle::new(tokio::spawn(self.database.hints(self.hint_sender.clone())));
        if let Err(lost) = self.compete(&mut session).await {
            self.lose(lost).await;
        }
        // Dropped only here, when nothing acts any more: closing it would free the locks.
        drop(session);
        drop(hints);
    }

    async fn compete(&mut self, session: &mut D::Session) -> Result<(), Lost> {
        let now = self.now();
        let mut round = Round { pulse_at: now, look_at: now, complaint: None, failures: 0, rest_until: now };
        while self.course == Course::Running || self.led() > 0 {
            let wait = self.next_wake(&round).since(self.now());
            let event = tokio::select! {
                biased;
                command = self.commands.recv(), if self.course != Course::Stopping => Event::Command(command),
                Some(stopped) = self.stopped.recv() => Event::Stopped(stopped),
                Some(hint) = self.hints.recv() => Event::Hint(hint),
                () = tokio::time::sleep(wait) => Event::Time,
            };
            // An order to stop holds whatever comes next.
            if let Event::Command(command) = &event {
                self.obey(command.as_ref());
            }
            // Before anything is asked: a process that was frozen fences itself.
            self.check_trust()?;
            match event {
                Event::Stopped(stopped) => self.release(session, stopped).await?,
                Event::Hint(hint) => {
                    self.heed(hint, &mut round);
                    // Thousands of roles announce themselves together.
                    while let Ok(hint) = self.hints.try_recv() {
                        self.heed(hint, &mut round);
                    }
                }
                Event::Command(_) | Event::Time => {}
            }
            self.expire_drains();
            if self.now() >= round.pulse_at {
                let taken = self.pulse(session, &mut round).await?;
                self.look_for_strangers(session, &mut round, &taken).await?;
            }
            self.take_free(session, &mut round).await?;
            self.publish();
        }
        Ok(())
    }

    /// A hint shortens a wait and proves nothing: anybody may send one.
    fn heed(&mut self, hint: Hint, round: &mut Round) {
        match hint {
            Hint::Released(key) => self.note_free(key),
            Hint::Acquired(key, epoch) => {
                let led = self.by_key.get(&key).and_then(|index| self.slots[*index].term());
                if led.is_some_and(|term| term.epoch() < epoch) {
                    round.pulse_at = self.now();
                }
            }
            Hint::Resign(name, epoch) => {
                self.resign(|term| term.role().name() == name && term.epoch() == epoch);
            }
        }
    }

    fn next_wake(&self, round: &Round) -> Moment {
        let wait = spread::wait(self.led(), self.timing.retry_interval());
        let mut wake = round.pulse_at;
        for slot in &self.slots {
            if let State::Draining { until, .. } = slot.state {
                wake = wake.min(until);
            }
            if let Some(since) = slot.free_since {
                wake = wake.min(since + wait);
            }
        }
        wake
    }

    fn check_trust(&self) -> Result<(), Lost> {
        let now = self.now();
        if self.led() == 0 || self.board.trust().holds(now) {
            return Ok(());
        }
        let late = now.since(self.board.trust().until());
        Err(Lost {
            reason: EndReason::TrustExpired,
            detail: format!("looked {late:?} after the trust deadline: was this process frozen?"),
        })
    }

    /// One statement: proves the terms, and looks for roles that nobody leads. Returns the keys of those
    /// that somebody else holds.
    async fn pulse(&mut self, session: &mut D::Session, round: &mut Round) -> Result<Vec<i64>, Lost> {
        let now = self.now();
        self.end_rests(now);
        let held: Vec<i64> =
            self.slots.iter().filter(|slot| slot.term().is_some()).map(|slot| slot.role.key()).collect();
        let wanted: Vec<i64> = if self.course == Course::Running {
            self.slots.iter().filter(|slot| slot.competes(now)).map(|slot| slot.role.key()).collect()
        } else {
            Vec::new()
        };
        let sent = self.now();
        let free = self.bounded(session.pulse(&held, &wanted)).await?;
        self.renew(sent)?;
        if !held.is_empty() {
            let now = self.now();
            telemetry::heartbeat(now.since(sent), Some(self.board.trust().until().since(now)));
        }
        let free: HashSet<i64> = free.into_iter().collect();
        for key in &wanted {
            let slot = &mut self.slots[self.by_key[key]];
            slot.free_since = free.contains(key).then(|| slot.free_since.unwrap_or(sent));
            if slot.free_since.is_some() {
                slot.stranger = None;
            }
        }
        let interval = if wanted.is_empty() {
            self.timing.heartbeat_interval()
        } else {
            // A silent session is ended by the server, so a stand-by speaks at least as often as a leader.
            self.timing.retry_interval().min(self.timing.heartbeat_interval())
        };
        round.pulse_at = sent + jittered(interval, rand::random());
        if self.course == Course::Running {
            for slot in &self.slots {
                if let State::Resting { until } = slot.state {
                    round.pulse_at = round.pulse_at.min(until);
                }
            }
        }
        Ok(wanted.into_iter().filter(|key| !free.contains(key)).collect())
    }

    fn end_rests(&mut self, now: Moment) {
        for slot in &mut self.slots {
            if matches!(slot.state, State::Resting { until } if now >= until) {
                slot.state = State::Standby;
                telemetry::standby(slot.role);
            }
        }
    }

    fn note_free(&mut self, key: i64) {
        let now = self.now();
        if let Some(&index) = self.by_key.get(&key) {
            let slot = &mut self.slots[index];
            if self.course == Course::Running && slot.competes(now) {
                slot.free_since.get_or_insert(now);
            }
        }
    }

    /// *Acquiring*: tries the roles that are free and whose turn has come.
    async fn take_free(&mut self, session: &mut D::Session, round: &mut Round) -> Result<(), Lost> {
        let (now, led) = (self.now(), self.led());
        let wait = spread::wait(led, self.timing.retry_interval());
        let mut due: Vec<Role> = Vec::new();
        for slot in &mut self.slots {
            let Some(since) = slot.free_since else { continue };
            if self.course != Course::Running || !slot.competes(now) || now < round.rest_until {
                slot.free_since = None;
            } else if now >= since + wait {
                if due.len() < spread::share(led) {
                    slot.free_since = None;
                    due.push(slot.role);
                } else {
                    slot.free_since = Some(now);
                }
            }
        }
        if due.is_empty() {
            return Ok(());
        }
        let sent = self.now();
        let attempts = match self.bounded(session.acquire(&due)).await {
            Ok(attempts) => attempts,
            Err(AcquireError::Lost(lost)) => return Err(lost),
            Err(AcquireError::Failed { because, advice }) => {
                if round.is_news(&because, sent) {
                    telemetry::acquire_failed(&because, &advice);
                }
                // A try can harm others as well, as when it fills the server's lock table.
                round.failures = (round.failures + 1).min(MOST_PATIENT);
                round.rest_until = self.now() + self.timing.retry_interval() * round.failures;
                return Ok(());
            }
        };
        round.failures = 0;
        let won = attempts.iter().any(|(_, attempt)| matches!(attempt, Attempt::Won(_)));
        if won {
            // The commit is a proof of the whole session, sent no earlier than its first statement.
            self.renew(sent)?;
        }
        for (role, attempt) in attempts {
            self.note_attempt(role, attempt);
        }
        Ok(())
    }

    fn note_attempt(&mut self, role: Role, attempt: Attempt) {
        let slot = &mut self.slots[self.by_key[&role.key()]];
        match attempt {
            Attempt::Busy => {}
            Attempt::Refused(reason) => {
                if !matches!(slot.state, State::Refused { .. }) {
                    telemetry::refused(role, &reason);
                }
                slot.state = State::Refused { until: self.clock.now() + REFUSED_REST };
            }
            Attempt::Won(epoch) => {
                let term = Term::new(
                    role,
                    epoch,
                    self.instance,
                    Arc::clone(self.board.trust()),
                    Arc::clone(&self.clock),
                    self.timing,
                );
                slot.state = State::Leading { term: term.clone(), since: self.clock.now() };
                self.board.add(term.clone());
                telemetry::acquired(&term);
                let worker = Arc::clone(&slot.worker);
                self.runtime.spawn(work::run(
                    worker,
                    term,
                    Arc::clone(&self.board),
                    self.stopped_sender.clone(),
                ));
            }
        }
    }

    fn renew(&self, sent: Moment) -> Result<(), Lost> {
        self.board
            .renew(sent)
            .map_err(|reason| Lost { reason, detail: "the proof came after the trust deadline".to_owned() })
    }

    /// Bounds a statement. When it takes longer its answer is unknown, so the session is lost.
    pub(super) async fn bounded<T, E: From<Lost>>(
        &self,
        statement: impl Future<Output = Result<T, E>>,
    ) -> Result<T, E> {
        let limit = self.timing.statement_timeout();
        match tokio::time::timeout(limit, statement).await {
            Ok(result) => result,
            Err(_elapsed) => Err(E::from(Lost {
                reason: EndReason::StatementTimeout,
                detail: format!("no answer on the lease session within {limit:?}"),
            })),
        }
    }
}

impl From<Lost> for AcquireError {
    fn from(lost: Lost) -> Self {
        AcquireError::Lost(lost)
    }
}

impl Round {
    /// Whether a complaint is new, or old enough to be said again.
    fn is_news(&mut self, text: &str, now: Moment) -> bool {
        let known =
            self.complaint.as_ref().is_some_and(|(last, at)| last == text && now.since(*at) < REPEAT_AFTER);
        if !known {
            self.complaint = Some((text.to_owned(), now));
        }
        !known
    }
}
