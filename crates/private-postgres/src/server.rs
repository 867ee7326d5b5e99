//! A private server: started, stopped, and removed with all that it made.

use crate::{
    Binaries, Builder, ServerError, account::Account, error, keeper, password::Password, template::SUPERUSER,
};
use rustix::process::{Pid, Signal, kill_process};
use std::{
    fmt::Write as _,
    fs::{self, File},
    io,
    net::{Ipv4Addr, TcpStream},
    path::{Path, PathBuf},
    process::{Child, Stdio},
    thread,
    time::Duration,
};
use tempfile::TempDir;

/// How long a server may take to answer.
const START_LIMIT: Duration = Duration::from_secs(30);
/// How long a server may take to end before it is told so more firmly. PostgreSQL's own bound for an
/// immediate stop is 5 seconds.
const STOP_LIMIT: Duration = Duration::from_secs(10);
/// How often it is looked.
const STEP: Duration = Duration::from_millis(10);

/// How to stop a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StopMode {
    /// Waits for clients to leave.
    Smart,
    /// Ends their sessions.
    Fast,
    /// As a crash: recovery at the next start.
    Immediate,
}

/// A running private server. Dropping it stops it and removes its folder, in a panic too.
///
/// It listens on 127.0.0.1 only. Unless it has a [password](Builder::password), every user of this machine
/// can use it while it runs. It dies with this process, also by `kill -9` where `setpriv` (util-linux) is there; the folder
/// that such an end leaves is removed by the next start of any private server.
#[derive(Debug)]
pub struct PrivatePostgres {
    pub(crate) binaries: Binaries,
    pub(crate) account: Account,
    pub(crate) settings: Vec<(String, String)>,
    pub(crate) password: Option<Password>,
    pub(crate) port: u16,
    pub(crate) log_file: PathBuf,
    pub(crate) child: Option<Child>,
    pub(crate) folder: TempDir,
    /// Held after the folder's removal: it tells others that the folder has an owner.
    #[expect(dead_code, reason = "held for its lock")]
    pub(crate) owner: File,
}

impl PrivatePostgres {
    /// A server from these binaries.
    pub fn builder(binaries: Binaries) -> Builder {
        Builder::new(binaries)
    }

    /// The port on 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// URL of a database, for the superuser, with the password if there is one. There is always a database
    /// called `postgres`.
    pub fn url(&self, database: &str) -> String {
        let password = self.password.as_ref().map(|password| format!(":{}", password.reveal()));
        format!("postgres://{SUPERUSER}{}@127.0.0.1:{}/{database}", password.unwrap_or_default(), self.port)
    }

    /// The folder that holds all that the server made.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The data folder, in [`PrivatePostgres::folder`].
    pub fn data_dir(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    /// Process id of the postmaster, while it runs.
    pub fn pid(&self) -> Option<u32> {
        self.child.as_ref().map(Child::id)
    }

    /// All that the server has logged.
    pub fn log(&self) -> String {
        String::from_utf8_lossy(&fs::read(&self.log_file).unwrap_or_default()).into_owned()
    }

    pub(crate) fn password(&self) -> Option<&Password> {
        self.password.as_ref()
    }

    pub(crate) fn settings(&self) -> &[(String, String)] {
        &self.settings
    }

    /// Starts a server that was stopped, on the port it had. Returns when it answers; at once when it was
    /// never stopped. Blocks, at most half a minute.
    ///
    /// # Errors
    ///
    /// [`ServerError`], with the last lines of the server's log.
    pub fn start(&mut self) -> Result<(), ServerError> {
        self.start_on(self.port)
    }

    /// Stops the server and starts it again, with its data and on its port.
    ///
    /// # Errors
    ///
    /// As [`PrivatePostgres::start`].
    pub fn restart(&mut self, mode: StopMode) -> Result<(), ServerError> {
        self.stop(mode);
        self.start()
    }

    pub(crate) fn start_on(&mut self, port: u16) -> Result<(), ServerError> {
        if self.child.is_some() {
            return Ok(());
        }
        self.port = port;
        self.configure()?;
        let logged = fs::metadata(&self.log_file).map_or(0, |found| found.len());
        let child = self.launch()?;
        let pid = child.id();
        // From here on dropping this server stops it.
        let child = self.child.insert(child);
        for _ in 0..START_LIMIT.as_millis() / STEP.as_millis() {
            // An error means that there is no such child any more.
            if !matches!(child.try_wait(), Ok(None)) {
                self.child = None;
                return Err(ServerError::Ended { log: self.logged_since(logged) });
            }
            if is_ready(&self.folder.path().join("data"), pid, port) {
                return Ok(());
            }
            thread::sleep(STEP);
        }
        self.end(&[Signal::QUIT]);
        Err(ServerError::Silent { seconds: START_LIMIT.as_secs(), log: self.logged_since(logged) })
    }

    fn configure(&self) -> Result<(), ServerError> {
        let socket = self.folder.path().display().to_string();
        let ours = [
            ("listen_addresses", "127.0.0.1"),
            ("unix_socket_directories", socket.as_str()),
            // A crash of the server loses nothing; only one of the machine would.
            ("fsync", "off"),
            ("full_page_writes", "off"),
            ("shared_buffers", "16MB"),
            ("max_wal_size", "64MB"),
            // A standby that was stopped for a while finds what it missed.
            ("wal_keep_size", "64MB"),
            ("logging_collector", "off"),
        ];
        let theirs = self.settings.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        let mut config = String::new();
        for (name, value) in ours.into_iter().chain(theirs) {
            let _infallible = writeln!(config, "{name} = '{}'", value.replace('\'', "''"));
        }
        let path = self.data_dir().join("postgresql.conf");
        fs::write(&path, config)
            .and_then(|()| self.account.give(&path))
            .map_err(|source| ServerError::Folder { path, source })
    }

    fn launch(&self) -> Result<Child, ServerError> {
        let log = File::options()
            .append(true)
            .create(true)
            .open(&self.log_file)
            .map_err(|source| ServerError::Folder { path: self.log_file.clone(), source })?;
        let program = self.binaries.path("postgres");
        let mut command = self.account.command(&program);
        command
            .arg("-D")
            .arg(self.data_dir())
            .args(["-p", &self.port.to_string()])
            .current_dir("/")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log);
        keeper::spawn(command).map_err(|source| ServerError::Run { program, source })
    }

    /// The end of what was logged after the first `bytes`.
    fn logged_since(&self, bytes: u64) -> String {
        let log = fs::read(&self.log_file).unwrap_or_default();
        let new = usize::try_from(bytes).ok().and_then(|start| log.get(start..)).unwrap_or_default();
        error::tail(&String::from_utf8_lossy(new))
    }

    /// Stops the server and keeps its data. Returns when the process has ended. A server that takes longer
    /// than 10 seconds (a client that stays, for [`StopMode::Smart`]) is stopped immediately, as by a crash.
    pub fn stop(&mut self, mode: StopMode) {
        match mode {
            StopMode::Smart => self.end(&[Signal::TERM, Signal::QUIT]),
            StopMode::Fast => self.end(&[Signal::INT, Signal::QUIT]),
            StopMode::Immediate => self.end(&[Signal::QUIT]),
        }
    }

    /// Makes a standby a primary. Returns when it accepts writes.
    ///
    /// # Errors
    ///
    /// [`ServerError`], when it doesn't become one.
    pub fn promote(&self) -> Result<(), ServerError> {
        let program = self.binaries.path("pg_ctl");
        let output = self
            .account
            .command(&program)
            .args(["promote", "--wait", "--silent", "--pgdata"])
            .arg(self.data_dir())
            .current_dir("/")
            .output()
            .map_err(|source| ServerError::Run { program, source })?;
        let said = || ServerError::Promote { said: error::said(&output) };
        output.status.success().then_some(()).ok_or_else(said)
    }

    /// Sends each signal in turn and waits for the end; kills the server when none of them helped.
    fn end(&mut self, signals: &[Signal]) {
        let Some(mut child) = self.child.take() else { return };
        for signal in signals {
            if let Some(pid) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) {
                // It may have ended by itself. Its id is ours until it is waited for.
                let _already_ended = kill_process(pid, *signal);
            }
            for _ in 0..STOP_LIMIT.as_millis() / STEP.as_millis() {
                // An error means that there is no such child any more.
                if !matches!(child.try_wait(), Ok(None)) {
                    return;
                }
                thread::sleep(STEP);
            }
        }
        let _already_ended = child.kill();
        let _reaped: io::Result<_> = child.wait();
    }
}

impl Drop for PrivatePostgres {
    fn drop(&mut self) {
        self.end(&[Signal::QUIT]);
    }
}

/// The postmaster writes its id into the first line of its pid file and its state into the eighth. A file
/// of an earlier, crashed run may still be there, so the id has to be this one's.
fn is_ready(data: &Path, pid: u32, port: u16) -> bool {
    let file = fs::read_to_string(data.join("postmaster.pid")).unwrap_or_default();
    let lines: Vec<&str> = file.lines().map(str::trim).collect();
    let ready = matches!(lines.get(7), Some(&("ready" | "standby")));
    ready
        && lines.first().is_some_and(|first| *first == pid.to_string())
        && TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    #[test]
    fn a_pid_file_of_an_earlier_run_does_not_look_ready() {
        let data = tempfile::tempdir().unwrap();
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let file = |pid, state| format!("{pid}\n/d\n0\n5432\n/s\n127.0.0.1\n1 2\n{state}   \n");
        fs::write(data.path().join("postmaster.pid"), file(41, "ready")).unwrap();
        assert!(is_ready(data.path(), 41, port));
        assert!(!is_ready(data.path(), 42, port));
        fs::write(data.path().join("postmaster.pid"), file(41, "starting")).unwrap();
        assert!(!is_ready(data.path(), 41, port));
    }
}
