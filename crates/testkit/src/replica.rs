//! A real process under test, and the events that it logs.

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::{
    ffi::OsStr,
    path::Path,
    process::{ExitStatus, Stdio},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncRead, BufReader},
    process::{Child, Command},
    sync::watch,
    task::JoinHandle,
    time::Instant,
};

/// How long an event is waited for. Only reached when a test fails.
const PATIENCE: Duration = Duration::from_secs(60);

/// One line of a process's JSON log.
#[derive(Debug, Clone)]
pub struct Event {
    /// When it was read here.
    pub at: Instant,
    /// All of its fields.
    pub fields: Value,
}

impl Event {
    /// The field `event`.
    pub fn name(&self) -> &str {
        self.text("event")
    }

    /// A text field; empty when it isn't there.
    pub fn text(&self, field: &str) -> &str {
        self.fields[field].as_str().unwrap_or_default()
    }

    /// The field `role`.
    pub fn role(&self) -> &str {
        self.text("role")
    }

    /// The field `epoch`; 0 when it isn't there.
    pub fn epoch(&self) -> i64 {
        self.fields["epoch"].as_i64().unwrap_or(0)
    }

    /// Whether it is this event of this role.
    pub fn is(&self, name: &str, role: &str) -> bool {
        self.name() == name && self.role() == role
    }
}

#[derive(Debug, Default)]
struct Log {
    events: Vec<Event>,
    raw: String,
    stdout: String,
}

/// A process under test. Killed on drop.
#[derive(Debug)]
pub struct Replica {
    child: Child,
    pid: Pid,
    log: Arc<Mutex<Log>>,
    grown: watch::Receiver<usize>,
    readers: Vec<JoinHandle<()>>,
}

impl Replica {
    /// Starts `program`. Its environment has none of this process's settings for Tenure or PostgreSQL.
    ///
    /// # Panics
    ///
    /// When it can't be started.
    pub fn spawn<A: AsRef<OsStr>>(program: impl AsRef<Path>, args: &[A], envs: &[(&str, &str)]) -> Self {
        let mut command = Command::new(program.as_ref());
        command
            .args(args)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        for (name, _) in std::env::vars_os() {
            let text = name.to_string_lossy();
            if ["TENURE_", "DATABASE_URL", "PG", "RUST_LOG"].iter().any(|prefix| text.starts_with(prefix)) {
                command.env_remove(&name);
            }
        }
        command.envs(envs.iter().copied());
        let mut child = command.spawn().unwrap_or_else(|e| panic!("{}: {e}", program.as_ref().display()));
        let pid = child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw).expect("it runs");
        let log = Arc::new(Mutex::new(Log::default()));
        let (grow, grown) = watch::channel(0);
        let stderr = child.stderr.take().expect("piped");
        let stdout = child.stdout.take().expect("piped");
        let readers = vec![
            tokio::spawn(read(stderr, Arc::clone(&log), grow.clone(), |log, line| {
                log.raw.push_str(line);
                log.raw.push('\n');
                if let Ok(fields) = serde_json::from_str(line) {
                    log.events.push(Event { at: Instant::now(), fields });
                }
            })),
            tokio::spawn(read(stdout, Arc::clone(&log), grow, |log, line| {
                log.stdout.push_str(line);
                log.stdout.push('\n');
            })),
        ];
        Self { child, pid, log, grown, readers }
    }

    /// Waits for an event that was or will be logged.
    ///
    /// # Panics
    ///
    /// When it isn't logged within a minute, or the process ends without it; with the whole log.
    pub async fn wait_event(&mut self, what: &str, mut wanted: impl FnMut(&Event) -> bool) -> Event {
        let end = Instant::now() + PATIENCE;
        loop {
            self.grown.mark_unchanged();
            if let Some(event) = self.with_log(|log| log.events.iter().find(|event| wanted(event)).cloned()) {
                return event;
            }
            let grown = tokio::time::timeout_at(end, self.grown.changed()).await;
            assert!(grown.is_ok(), "no {what} within {PATIENCE:?}:\n{}", self.raw_log());
            assert!(matches!(grown, Ok(Ok(()))), "the process ended without {what}:\n{}", self.raw_log());
        }
    }

    /// Waits for an event of a role.
    pub async fn wait_for(&mut self, name: &str, role: &str) -> Event {
        self.wait_event(&format!("{name} of {role}"), |event| event.is(name, role)).await
    }

    /// All events so far.
    pub fn events(&self) -> Vec<Event> {
        self.with_log(|log| log.events.clone())
    }

    /// All events of this name so far.
    pub fn events_named(&self, name: &str) -> Vec<Event> {
        self.with_log(|log| log.events.iter().filter(|event| event.name() == name).cloned().collect())
    }

    /// All that it wrote to standard error.
    pub fn raw_log(&self) -> String {
        self.with_log(|log| log.raw.clone())
    }

    /// All that it wrote to standard output.
    pub fn stdout(&self) -> String {
        self.with_log(|log| log.stdout.clone())
    }

    /// Its process id.
    pub fn pid(&self) -> i32 {
        self.pid.as_raw_nonzero().get()
    }

    /// Sends a signal.
    ///
    /// # Panics
    ///
    /// When it was already waited for.
    pub fn signal(&self, signal: Signal) {
        kill_process(self.pid, signal).expect("the process is still ours");
    }

    /// Waits for its end, and until all that it wrote was read.
    ///
    /// # Panics
    ///
    /// When it doesn't end within a minute.
    pub async fn wait_exit(&mut self) -> ExitStatus {
        let Ok(status) = tokio::time::timeout(PATIENCE, self.child.wait()).await else {
            panic!("still running after {PATIENCE:?}:\n{}", self.raw_log())
        };
        for reader in self.readers.drain(..) {
            // A grandchild may keep the pipe open.
            let _read_to_the_end = tokio::time::timeout(Duration::from_secs(5), reader).await;
        }
        status.expect("the process is ours")
    }

    fn with_log<T>(&self, look: impl FnOnce(&Log) -> T) -> T {
        look(&self.log.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

async fn read(
    stream: impl AsyncRead + Unpin,
    log: Arc<Mutex<Log>>,
    grow: watch::Sender<usize>,
    note: impl Fn(&mut Log, &str),
) {
    let mut lines = BufReader::new(stream).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        note(&mut log.lock().unwrap_or_else(PoisonError::into_inner), &line);
        grow.send_modify(|count| *count += 1);
    }
}
