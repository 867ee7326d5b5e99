//! The actor that owns the lease session: the loop over its states, and the state *Opening*.

use super::{
    EndReason, RoleSnapshot, SessionState, Snapshot,
    backoff::jittered,
    board::Board,
    database::{Hint, LeaseDatabase},
    slot::{Slot, State},
    work::Stopped,
};
use crate::{
    Timing, Worker,
    clock::{Moment, SharedClock},
    front_door::Verdict,
    telemetry,
};
use std::{collections::HashMap, sync::Arc, time::Duration};
use tokio::{
    runtime::Handle,
    sync::{
        mpsc::{self, UnboundedReceiver, UnboundedSender},
        watch,
    },
};
use uuid::Uuid;

/// The longest wait before a refused front door is looked at again.
const LOOK_AGAIN: Duration = Duration::from_secs(10);

/// What an instance's owner asks of the engine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Command {
    /// Hand over the role with this key.
    Resign(i64),
    /// Drain everything, and end.
    Drain,
    /// Drop everything, and end.
    StopAtOnce,
}

/// Whether the engine goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Course {
    /// Competes and leads.
    Running,
    /// Leads until the workers have finished; takes nothing new.
    Draining,
    /// Ends as soon as the workers' futures are gone.
    Stopping,
}

/// The channels and handles that an engine is made with.
pub(crate) struct Setup<D> {
    pub(crate) database: D,
    pub(crate) instance: Uuid,
    pub(crate) timing: Timing,
    pub(crate) clock: SharedClock,
    pub(crate) board: Arc<Board>,
    pub(crate) workers: Vec<Arc<dyn Worker>>,
    /// The runtime that workers run on. It is not the engine's: a worker that blocks it stops no heartbeat.
    pub(crate) runtime: Handle,
    pub(crate) commands: UnboundedReceiver<Command>,
    pub(crate) snapshot: watch::Sender<Snapshot>,
}

/// See the module.
pub(crate) struct Engine<D: LeaseDatabase> {
    pub(super) database: Arc<D>,
    pub(super) instance: Uuid,
    pub(super) timing: Timing,
    pub(super) clock: SharedClock,
    pub(super) board: Arc<Board>,
    pub(super) runtime: Handle,
    pub(super) slots: Vec<Slot>,
    pub(super) by_key: HashMap<i64, usize>,
    pub(super) course: Course,
    pub(super) commands: UnboundedReceiver<Command>,
    pub(super) stopped: UnboundedReceiver<Stopped>,
    pub(super) stopped_sender: UnboundedSender<Stopped>,
    pub(super) hints: UnboundedReceiver<Hint>,
    pub(super) hint_sender: UnboundedSender<Hint>,
    pub(super) session: SessionState,
    snapshot: watch::Sender<Snapshot>,
}

impl<D: LeaseDatabase> Engine<D> {
    pub(crate) fn new(setup: Setup<D>) -> Self {
        let slots: Vec<_> = setup.workers.into_iter().map(Slot::new).collect();
        let by_key = slots.iter().enumerate().map(|(index, slot)| (slot.role.key(), index)).collect();
        let (stopped_sender, stopped) = mpsc::unbounded_channel();
        let (hint_sender, hints) = mpsc::unbounded_channel();
        Self {
            database: Arc::new(setup.database),
            instance: setup.instance,
            timing: setup.timing,
            clock: setup.clock,
            board: setup.board,
            runtime: setup.runtime,
            slots,
            by_key,
            course: Course::Running,
            commands: setup.commands,
            stopped,
            stopped_sender,
            hints,
            hint_sender,
            session: SessionState::Opening,
            snapshot: setup.snapshot,
        }
    }

    /// Alternates the states of the session until the instance is told to stop.
    pub(crate) async fn run(mut self) {
        if self.slots.is_empty() {
            self.idle().await;
            return;
        }
        while let Some(session) = self.open().await {
            self.serve(session).await;
            if self.course != Course::Running {
                break;
            }
        }
        self.enter(SessionState::Idle);
    }

    /// Nothing to compete for: waits to be told to stop.
    async fn idle(&mut self) {
        self.enter(SessionState::Idle);
        while self.course == Course::Running {
            let command = self.commands.recv().await;
            self.obey_without_session(command.as_ref());
        }
    }

    /// *Opening*: looks at the front door until it is accepted. `None` when told to stop.
    async fn open(&mut self) -> Option<D::Session> {
        let mut wait = self.timing.retry_interval();
        self.enter(SessionState::Opening);
        while self.course == Course::Running {
            let database = Arc::clone(&self.database);
            let opened = tokio::select! {
                biased;
                command = self.commands.recv() => {
                    self.obey_without_session(command.as_ref());
                    continue;
                }
                opened = database.open() => opened,
            };
            match opened {
                Ok(session) => return Some(session),
                Err(verdict) => self.look_again(verdict, wait).await,
            }
            wait = (wait * 2).min(LOOK_AGAIN.max(self.timing.retry_interval()));
        }
        None
    }

    async fn look_again(&mut self, verdict: Verdict, wait: Duration) {
        self.enter(SessionState::Closed { verdict });
        let again = tokio::time::sleep(jittered(wait, rand::random()));
        tokio::pin!(again);
        while self.course == Course::Running {
            tokio::select! {
                biased;
                command = self.commands.recv() => self.obey_without_session(command.as_ref()),
                () = &mut again => return,
            }
        }
    }

    /// Without a session nothing is led: only stopping means anything.
    fn obey_without_session(&mut self, command: Option<&Command>) {
        match command {
            Some(Command::Resign(_)) => {}
            // The owner is gone: stop.
            Some(Command::Drain | Command::StopAtOnce) | None => self.course = Course::Stopping,
        }
    }

    /// Notes the session's state, and publishes everything.
    pub(super) fn enter(&mut self, session: SessionState) {
        self.session = session;
        self.publish();
    }

    /// Publishes what this instance is doing.
    pub(super) fn publish(&self) {
        let roles = self
            .slots
            .iter()
            .map(|slot| RoleSnapshot {
                role: slot.role.name(),
                key: slot.role.key(),
                state: slot.public_state(),
                epoch: slot.term().map(crate::Term::epoch),
                stranger: slot.stranger.clone(),
            })
            .collect();
        self.snapshot.send_replace(Snapshot {
            instance: self.instance,
            session: self.session.clone(),
            trust_remaining: None,
            roles,
        });
    }

    pub(super) fn now(&self) -> Moment {
        self.clock.now()
    }

    /// How many roles hold a lock of this session.
    pub(super) fn led(&self) -> usize {
        self.slots.iter().filter(|slot| slot.term().is_some()).count()
    }

    /// The instance stands by for every role that it may compete for.
    pub(super) fn stand_by(&mut self) {
        let now = self.now();
        for slot in &mut self.slots {
            slot.free_since = None;
            if slot.competes(now) {
                slot.state = State::Standby;
                telemetry::standby(slot.role);
            }
        }
    }
}

impl<D: LeaseDatabase> Drop for Engine<D> {
    /// Also when the engine panics: no term outlives it, and the watchdog sees to that.
    fn drop(&mut self) {
        self.board.revoke_all(EndReason::SessionTerminated);
        self.board.close();
    }
}
