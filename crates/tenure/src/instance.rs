//! One incarnation of a process that competes for roles.

use crate::{
    LeaseAddress, Role, Timing, Worker,
    clock::{BootClock, SharedClock},
    lease::{Board, Command, Engine, SessionState, Setup, Snapshot, watchdog},
    postgres::PgLeaseDatabase,
};
use std::{
    collections::{HashMap, hash_map::Entry},
    fmt,
    sync::Arc,
    thread,
};
use thiserror::Error;
use tokio::{
    runtime::{Builder, Handle},
    sync::{
        mpsc::{self, UnboundedSender},
        oneshot, watch,
    },
};
use uuid::Uuid;

/// Sets up an [`Instance`].
pub struct InstanceBuilder {
    address: LeaseAddress,
    timing: Timing,
    workers: Vec<Arc<dyn Worker>>,
}

/// A running instance. Dropping it stops its work at once, without waiting for it.
#[derive(Debug)]
pub struct Instance {
    watch: InstanceWatch,
    commands: UnboundedSender<Command>,
    ended: oneshot::Receiver<()>,
    /// How the engine ended, once that is known.
    outcome: Option<Result<(), EngineFailed>>,
}

/// Reads what an instance is doing; cheap to clone.
#[derive(Debug, Clone)]
pub struct InstanceWatch {
    snapshot: watch::Receiver<Snapshot>,
    board: Arc<Board>,
    clock: SharedClock,
}

/// The instance can't start.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum StartError {
    /// One process may compete for a role only once: its second lock would be granted by re-entrance.
    #[error("the workers {first} and {second} share a name or a key: give each its own")]
    Duplicate {
        /// One of them.
        first: Role,
        /// The other.
        second: Role,
    },
    /// A thread can't be made.
    #[error("starting the {thread} thread")]
    Thread {
        /// Which.
        thread: &'static str,
        /// Why.
        #[source]
        source: std::io::Error,
    },
}

/// How to stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StopMode {
    /// Workers finish what they are at, for at most the drain timeout; then the leases are handed over.
    Drain,
    /// Workers are dropped now; then the leases are handed over.
    AtOnce,
}

impl Instance {
    /// An instance that competes on `address`.
    pub fn builder(address: LeaseAddress, timing: Timing) -> InstanceBuilder {
        InstanceBuilder { address, timing, workers: Vec::new() }
    }

    /// This incarnation, as it was given to [`InstanceBuilder::start`].
    pub fn id(&self) -> Uuid {
        self.watch.snapshot.borrow().instance
    }

    /// A handle to read the instance's state with.
    pub fn watch(&self) -> InstanceWatch {
        self.watch.clone()
    }

    /// Asks the instance to hand over one role, if it leads it. Another instance gets a head start.
    pub fn resign(&self, role: Role) {
        self.send(Command::Resign(role.key()));
    }

    /// Begins to stop. [`Instance::ended`] waits for the end. A later [`StopMode::AtOnce`] cuts a drain short.
    pub fn stop(&self, mode: StopMode) {
        self.send(match mode {
            StopMode::Drain => Command::Drain,
            StopMode::AtOnce => Command::StopAtOnce,
        });
    }

    /// Waits until every worker has stopped and every lease is handed over, or the engine has failed.
    /// Cancel-safe.
    ///
    /// # Errors
    ///
    /// [`EngineFailed`] when the engine ended without being told to. Its terms have ended too.
    pub async fn ended(&mut self) -> Result<(), EngineFailed> {
        if let Some(outcome) = self.outcome {
            return outcome;
        }
        // Closed without a message only when the engine's thread panicked.
        let outcome = (&mut self.ended).await.map_err(|_closed| EngineFailed);
        self.outcome = Some(outcome);
        outcome
    }

    fn send(&self, command: Command) {
        // An engine that has ended has nothing left to stop.
        let _engine_runs = self.commands.send(command);
    }
}

/// The engine ended by a defect of its own. The process should end too, and be started again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("the lease engine failed; its terms have ended, end the process and start it again")]
pub struct EngineFailed;

impl InstanceBuilder {
    /// Adds a worker.
    #[must_use]
    pub fn worker(mut self, worker: impl Worker) -> Self {
        self.workers.push(Arc::new(worker));
        self
    }

    /// Adds workers, such as those whose gates are open.
    #[must_use]
    pub fn workers(mut self, workers: impl IntoIterator<Item = Box<dyn Worker>>) -> Self {
        self.workers.extend(workers.into_iter().map(Arc::from));
        self
    }

    /// Starts to compete, as the incarnation `id`: a fresh [`Uuid::new_v4`] for every start of the process,
    /// never a name. Called within a tokio runtime, on which the workers will run.
    ///
    /// # Errors
    ///
    /// [`StartError`]. Nothing was started.
    ///
    /// # Panics
    ///
    /// Outside of a tokio runtime.
    pub fn start(self, id: Uuid) -> Result<Instance, StartError> {
        refuse_duplicates(&self.workers)?;
        let clock: SharedClock = Arc::new(BootClock);
        let board = Arc::new(Board::new(Arc::clone(&clock), self.timing));
        let (commands, received) = mpsc::unbounded_channel();
        let (snapshot, watched) = watch::channel(Snapshot {
            instance: id,
            session: SessionState::Opening,
            trust_remaining: None,
            roles: Vec::new(),
        });
        let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
        let setup = Setup {
            database: PgLeaseDatabase { address: self.address, timing: self.timing, instance: id, host },
            instance: id,
            timing: self.timing,
            clock: Arc::clone(&clock),
            board: Arc::clone(&board),
            workers: self.workers,
            runtime: Handle::current(),
            commands: received,
            snapshot,
        };
        let thread = |thread| move |source| StartError::Thread { thread, source };
        let own_runtime =
            Builder::new_current_thread().enable_all().build().map_err(thread("lease runtime"))?;
        let (ending, ended) = oneshot::channel();
        watchdog::spawn(Arc::clone(&board)).map_err(thread("watchdog"))?;
        let engine = Engine::new(setup);
        thread::Builder::new()
            .name("tenure-lease".to_owned())
            .spawn(move || {
                own_runtime.block_on(engine.run());
                let _somebody_waits = ending.send(());
            })
            .map_err(thread("lease"))?;
        Ok(Instance {
            watch: InstanceWatch { snapshot: watched, board, clock },
            commands,
            ended,
            outcome: None,
        })
    }
}

fn refuse_duplicates(workers: &[Arc<dyn Worker>]) -> Result<(), StartError> {
    let (mut keys, mut names) = (HashMap::new(), HashMap::new());
    for worker in workers {
        let second = worker.role();
        let key = keys.entry(second.key());
        let name = names.entry(second.name());
        if let Entry::Occupied(first) = &key {
            return Err(StartError::Duplicate { first: *first.get(), second });
        }
        if let Entry::Occupied(first) = &name {
            return Err(StartError::Duplicate { first: *first.get(), second });
        }
        key.insert_entry(second);
        name.insert_entry(second);
    }
    Ok(())
}

impl InstanceWatch {
    /// What the instance is doing now.
    pub fn snapshot(&self) -> Snapshot {
        let mut snapshot = self.snapshot.borrow().clone();
        if snapshot.led().next().is_some() {
            snapshot.trust_remaining = Some(self.board.trust().until().since(self.clock.now()));
        }
        snapshot
    }

    /// Waits for the next change. Cancel-safe. Returns at once when the engine has ended.
    pub async fn changed(&mut self) {
        let _engine_runs = self.snapshot.changed().await;
    }
}

impl fmt::Debug for InstanceBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let roles: Vec<_> = self.workers.iter().map(|worker| worker.role()).collect();
        f.debug_struct("InstanceBuilder")
            .field("address", &self.address)
            .field("roles", &roles)
            .finish_non_exhaustive()
    }
}
