//! A server that never was: locks, sessions and bounds as PostgreSQL keeps them, on paused time.

use crate::{
    Epoch, Role, Term, Timing, Worker, WorkerError,
    clock::{Clock, Moment, SharedClock},
    front_door::Verdict,
    lease::{
        AcquireError, Attempt, Board, Command, EndReason, Engine, Hint, LeaseDatabase, LeaseSession,
        LockHolder, Lost, SessionState, Setup, Snapshot,
    },
};
use async_trait::async_trait;
use std::{
    collections::{HashMap, VecDeque},
    future::Future,
    pin::Pin,
    sync::{Arc, Mutex},
    time::Duration,
};
use tokio::{
    runtime::Handle,
    sync::{
        mpsc::{self, UnboundedSender},
        watch,
    },
    time::Instant,
};
use uuid::Uuid;

/// Time of the test, which one instance can be made to sleep through.
#[derive(Debug)]
pub(super) struct TestClock {
    start: Instant,
    skipped: Mutex<Duration>,
}

impl TestClock {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self { start: Instant::now(), skipped: Mutex::default() })
    }

    /// The machine was suspended for this long.
    pub(super) fn skip(&self, time: Duration) {
        *self.skipped.lock().unwrap() += time;
    }
}

impl Clock for TestClock {
    fn now(&self) -> Moment {
        Moment::from_boot(self.start.elapsed() + *self.skipped.lock().unwrap())
    }
}

/// What a statement does instead of answering.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Trouble {
    /// Answers after this long. The statement counts as received at once.
    Late(Duration),
    /// Fails, and the session is over.
    Lost(EndReason),
    /// Fails, and the session goes on.
    Failed,
}

#[derive(Debug, Default)]
pub(super) struct Server {
    pub(super) locks: HashMap<i64, u64>,
    epochs: HashMap<i64, i64>,
    /// When each session was last heard of.
    heard: HashMap<u64, Instant>,
    pub(super) sessions: u64,
    /// Pulses of each session.
    pulses: HashMap<u64, usize>,
    pub(super) trouble: VecDeque<Trouble>,
    /// What happened, in order.
    pub(super) history: Vec<String>,
    listeners: Vec<UnboundedSender<Hint>>,
}

/// A handle to the server, given to every instance.
#[derive(Debug, Clone)]
pub(super) struct FakeDatabase {
    pub(super) server: Arc<Mutex<Server>>,
    pub(super) ttl: Duration,
}

pub(super) struct FakeSession {
    id: u64,
    database: FakeDatabase,
}

impl FakeDatabase {
    pub(super) fn new(timing: &Timing) -> Self {
        Self { server: Arc::default(), ttl: timing.ttl() }
    }

    pub(super) fn trouble(&self, trouble: Trouble) {
        self.server.lock().unwrap().trouble.push_back(trouble);
    }

    pub(super) fn note(&self, text: impl Into<String>) {
        self.server.lock().unwrap().history.push(text.into());
    }

    pub(super) fn history(&self) -> Vec<String> {
        self.server.lock().unwrap().history.clone()
    }

    /// Waits until this has happened.
    pub(super) async fn until(&self, text: &str) {
        for _ in 0..600_000 {
            if self.server.lock().unwrap().history.iter().any(|line| line == text) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        panic!("no {text:?} in {:#?}", self.history());
    }

    /// Pulses of the first session.
    pub(super) fn pulses(&self) -> usize {
        self.server.lock().unwrap().pulses.get(&1).copied().unwrap_or(0)
    }

    /// The server ends a session, as `pg_terminate_backend` does.
    pub(super) fn terminate(&self, session: u64) {
        self.server.lock().unwrap().end(session);
    }

    /// Takes a lock as somebody who isn't Tenure, and never speaks again.
    pub(super) fn hold_as_stranger(&self, key: i64) {
        self.server.lock().unwrap().locks.insert(key, 0);
    }
}

impl Server {
    /// The server ends sessions that were silent for ttl.
    fn end_silent(&mut self, ttl: Duration) {
        let now = Instant::now();
        let silent: Vec<u64> =
            self.heard.iter().filter(|(_, heard)| now - **heard >= ttl).map(|(id, _)| *id).collect();
        for id in silent {
            self.end(id);
        }
    }

    fn end(&mut self, id: u64) {
        self.heard.remove(&id);
        self.locks.retain(|_, holder| *holder != id);
    }
}

impl FakeSession {
    /// A statement arrives; then trouble, if some was ordered.
    async fn arrive(&self) -> Result<(), AcquireError> {
        let trouble = {
            let mut server = self.database.server.lock().unwrap();
            server.end_silent(self.database.ttl);
            let Some(heard) = server.heard.get_mut(&self.id) else {
                return Err(AcquireError::Lost(lost(EndReason::IdleTimeout)));
            };
            *heard = Instant::now();
            server.trouble.pop_front()
        };
        match trouble {
            None => Ok(()),
            Some(Trouble::Late(time)) => {
                tokio::time::sleep(time).await;
                Ok(())
            }
            Some(Trouble::Lost(reason)) => Err(AcquireError::Lost(lost(reason))),
            Some(Trouble::Failed) => {
                Err(AcquireError::Failed { because: "ordered".to_owned(), advice: "none".to_owned() })
            }
        }
    }
}

fn lost(reason: EndReason) -> Lost {
    Lost { reason, detail: "ordered".to_owned() }
}

fn only_lost(error: AcquireError) -> Lost {
    match error {
        AcquireError::Lost(lost) => lost,
        AcquireError::Failed { .. } => lost(EndReason::StatementFailed),
    }
}

#[async_trait]
impl LeaseDatabase for FakeDatabase {
    type Session = FakeSession;

    async fn open(&self) -> Result<FakeSession, Verdict> {
        let mut server = self.server.lock().unwrap();
        server.sessions += 1;
        let id = server.sessions;
        server.heard.insert(id, Instant::now());
        server.history.push(format!("session {id} opened"));
        drop(server);
        Ok(FakeSession { id, database: self.clone() })
    }

    fn hints(&self, to: UnboundedSender<Hint>) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        self.server.lock().unwrap().listeners.push(to);
        Box::pin(std::future::pending())
    }
}

#[async_trait]
impl LeaseSession for FakeSession {
    async fn pulse(&mut self, held: &[i64], wanted: &[i64]) -> Result<Vec<i64>, Lost> {
        *self.database.server.lock().unwrap().pulses.entry(self.id).or_default() += 1;
        self.arrive().await.map_err(only_lost)?;
        let server = self.database.server.lock().unwrap();
        if held.iter().any(|key| server.locks.get(key) != Some(&self.id)) {
            return Err(lost(EndReason::LockMissing));
        }
        Ok(wanted.iter().filter(|key| !server.locks.contains_key(key)).copied().collect())
    }

    async fn strangers(&mut self, keys: &[i64]) -> Result<Vec<LockHolder>, Lost> {
        let server = self.database.server.lock().unwrap();
        let strangers = keys.iter().filter(|key| server.locks.get(key) == Some(&0));
        let stranger = |key: &i64| LockHolder {
            key: *key,
            pid: 1,
            application_name: "stranger".to_owned(),
            connected_since: None,
            state: None,
            state_since: None,
            is_tenure: false,
        };
        Ok(strangers.map(stranger).collect())
    }

    async fn acquire(&mut self, wanted: &[Role]) -> Result<Vec<(Role, Attempt)>, AcquireError> {
        self.arrive().await?;
        let mut server = self.database.server.lock().unwrap();
        let mut attempts = Vec::new();
        for role in wanted {
            if server.locks.contains_key(&role.key()) {
                attempts.push((*role, Attempt::Busy));
                continue;
            }
            server.locks.insert(role.key(), self.id);
            let epoch = server.epochs.entry(role.key()).or_default();
            *epoch += 1;
            let epoch = Epoch(*epoch);
            attempts.push((*role, Attempt::Won(epoch)));
            let key = role.key();
            server.listeners.retain(|listener| listener.send(Hint::Acquired(key, epoch)).is_ok());
        }
        Ok(attempts)
    }

    async fn release(&mut self, ended: &[(Role, Epoch, EndReason)]) -> Result<(), Lost> {
        self.arrive().await.map_err(only_lost)?;
        let mut server = self.database.server.lock().unwrap();
        for (role, epoch, reason) in ended {
            server.history.push(format!("{role} {epoch} unlocked: {reason}"));
            if server.locks.remove(&role.key()) != Some(self.id) {
                return Err(lost(EndReason::UnlockRefused));
            }
            let key = role.key();
            server.listeners.retain(|listener| listener.send(Hint::Released(key)).is_ok());
        }
        Ok(())
    }
}

impl Drop for FakeSession {
    fn drop(&mut self) {
        let mut server = self.database.server.lock().unwrap();
        server.end(self.id);
        server.history.push(format!("session {} dropped", self.id));
    }
}

/// A running engine on the fake, without a watchdog thread.
pub(super) struct Bench {
    pub(super) commands: UnboundedSender<Command>,
    pub(super) snapshot: watch::Receiver<Snapshot>,
    pub(super) board: Arc<Board>,
    pub(super) clock: Arc<TestClock>,
}

impl Bench {
    pub(super) fn start(database: &FakeDatabase, timing: Timing, workers: Vec<Arc<dyn Worker>>) -> Self {
        let clock = TestClock::new();
        let shared: SharedClock = clock.clone();
        let board = Arc::new(Board::new(Arc::clone(&shared), timing));
        let (commands, received) = mpsc::unbounded_channel();
        let (sender, snapshot) = watch::channel(Snapshot {
            instance: Uuid::nil(),
            session: SessionState::Opening,
            trust_remaining: None,
            roles: Vec::new(),
        });
        let engine = Engine::new(Setup {
            database: database.clone(),
            instance: Uuid::new_v4(),
            timing,
            clock: shared,
            board: Arc::clone(&board),
            workers,
            runtime: Handle::current(),
            commands: received,
            snapshot: sender,
        });
        tokio::spawn(engine.run());
        Self { commands, snapshot, board, clock }
    }

    /// Waits until this many roles are led.
    pub(super) async fn leads(&mut self, count: usize) {
        let seen = self.snapshot.wait_for(|snapshot| snapshot.led().count() == count);
        drop(tokio::time::timeout(Duration::from_secs(600), seen).await.expect("in time").expect("runs"));
    }
}

/// A worker that writes down when it begins and when nothing of it is left.
pub(super) struct Scribe {
    pub(super) role: Role,
    pub(super) database: FakeDatabase,
    /// What it does in between.
    pub(super) then: Then,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Then {
    /// Stops when it is asked to.
    Heed,
    /// Has to be dropped.
    Ignore,
    Fail,
}

struct Written(FakeDatabase, String);

impl Drop for Written {
    fn drop(&mut self) {
        self.0.note(format!("{} ends", self.1));
    }
}

#[async_trait]
impl Worker for Scribe {
    fn role(&self) -> Role {
        self.role
    }

    async fn work(&self, term: Term) -> Result<(), WorkerError> {
        let name = format!("{} {}", self.role, term.epoch());
        self.database.note(format!("{name} begins"));
        let _written = Written(self.database.clone(), name);
        match self.then {
            Then::Heed => term.draining().await,
            Then::Ignore => std::future::pending().await,
            Then::Fail => return Err("as ordered".into()),
        }
        Ok(())
    }
}

pub(super) fn scribe(database: &FakeDatabase, role: Role, then: Then) -> Arc<dyn Worker> {
    Arc::new(Scribe { role, database: database.clone(), then })
}
