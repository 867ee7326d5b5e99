//! A real process under test, and the events that it logs.

use crate::Event;
use rustix::process::{Pid, Signal, kill_process};
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
    /// It is killed with the thread that calls this, also when the test itself is killed: call it on a thread
    /// that lives as long as the replica should, as the runtime's do, not by `spawn_blocking`.
    ///
    /// # Panics
    ///
    /// When it can't be started, or outside of a runtime.
    pub fn spawn<A: AsRef<OsStr>>(program: impl AsRef<Path>, args: &[A], envs: &[(&str, &str)]) -> Self {
        let program = program.as_ref();
        assert!(program.exists(), "no program {}", program.display());
        // It becomes the program: the process id stays.
        let mut command = Command::new("/usr/bin/setpriv");
        command
            .args(["--pdeathsig", "KILL"])
            .arg(program)
            .args(args)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        for (name, _) in std::env::vars_os().filter(|(name, _)| is_setting(&name.to_string_lossy())) {
            command.env_remove(&name);
        }
        command.envs(envs.iter().copied());
        let mut child = command.spawn().expect("setpriv (util-linux) starts programs");
        let pid = running(&child).expect("it was just started");
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

    /// Waits for the first event that `wanted` accepts, whether it was logged before or will be. Loses nothing
    /// when it is cancelled.
    ///
    /// # Panics
    ///
    /// When it isn't logged within a minute, or the process ends without it; with the whole log.
    pub async fn wait_event(&mut self, what: &str, wanted: impl FnMut(&Event) -> bool) -> Event {
        self.wait_event_within(PATIENCE, what, wanted).await
    }

    /// As [`Replica::wait_event`], with another limit than a minute.
    ///
    /// # Panics
    ///
    /// As [`Replica::wait_event`].
    pub async fn wait_event_within(
        &mut self,
        limit: Duration,
        what: &str,
        mut wanted: impl FnMut(&Event) -> bool,
    ) -> Event {
        let end = Instant::now() + limit;
        loop {
            self.grown.mark_unchanged();
            if let Some(event) = self.with_log(|log| log.events.iter().find(|event| wanted(event)).cloned()) {
                return event;
            }
            let grown = tokio::time::timeout_at(end, self.grown.changed()).await;
            assert!(grown.is_ok(), "no {what} within {limit:?}:\n{}", self.raw_log());
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
    /// When its end was already waited for: the id may be another process's by now.
    pub fn signal(&self, signal: Signal) {
        let pid = running(&self.child).expect("its end was already waited for");
        kill_process(pid, signal).expect("a child that wasn't waited for can be signalled");
    }

    /// Kills it, as a power failure would, and waits for its end. When this is cancelled it is killed anyway.
    ///
    /// # Panics
    ///
    /// As [`Replica::signal`].
    pub async fn kill(&mut self) -> ExitStatus {
        self.signal(Signal::KILL);
        self.wait_exit().await
    }

    /// Waits for its end, and until all that it wrote was read.
    ///
    /// # Panics
    ///
    /// When it doesn't end within a minute.
    pub async fn wait_exit(&mut self) -> ExitStatus {
        self.wait_exit_within(PATIENCE).await
    }

    /// As [`Replica::wait_exit`], with another limit than a minute.
    ///
    /// # Panics
    ///
    /// When it doesn't end within `limit`.
    pub async fn wait_exit_within(&mut self, limit: Duration) -> ExitStatus {
        let Ok(status) = tokio::time::timeout(limit, self.child.wait()).await else {
            panic!("still running after {limit:?}:\n{}", self.raw_log())
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

/// Whether a variable of this process's environment would change what a replica does.
fn is_setting(name: &str) -> bool {
    ["TENURE_", "DATABASE_URL", "PG", "RUST_LOG"].iter().any(|prefix| name.starts_with(prefix))
}

/// The process id, as long as it is certainly this child's.
fn running(child: &Child) -> Option<Pid> {
    child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw)
}

/// Reads to the end, whatever the bytes are: a process whose pipe nobody reads would block in its next line.
async fn read(
    stream: impl AsyncRead + Unpin,
    log: Arc<Mutex<Log>>,
    grow: watch::Sender<usize>,
    note: impl Fn(&mut Log, &str),
) {
    let mut stream = BufReader::new(stream);
    let mut line = Vec::new();
    while let Ok(1..) = stream.read_until(b'\n', &mut line).await {
        let text = String::from_utf8_lossy(&line);
        note(&mut log.lock().unwrap_or_else(PoisonError::into_inner), text.trim_end_matches(['\n', '\r']));
        grow.send_modify(|count| *count += 1);
        line.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_of_the_machine_do_not_reach_a_replica() {
        for name in ["TENURE_POLLER_ENABLED", "DATABASE_URL", "PGHOST", "RUST_LOG"] {
            assert!(is_setting(name), "{name}");
        }
        for name in ["PATH", "HOME", "RUST_BACKTRACE"] {
            assert!(!is_setting(name), "{name}");
        }
    }
}
