//! A private server: started, stopped, and removed with all that it made.

use crate::{
    Binaries,
    account::Account,
    template::{self, SUPERUSER},
};
use rustix::process::{Pid, Signal, kill_process};
use std::{
    fmt::Write as _,
    fs, io,
    net::{Ipv4Addr, TcpListener, TcpStream},
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::{Child, Stdio},
    thread,
    time::Duration,
};
use tempfile::TempDir;
use thiserror::Error;

/// How long a server may take to answer, in steps of [`STEP`].
const START_STEPS: u32 = 3000;
/// How long a server may take to end before it is killed, in steps of [`STEP`].
const STOP_STEPS: u32 = 1000;
const STEP: Duration = Duration::from_millis(10);
/// Another process may take a port between its choice and the server's start.
const PORTS: u32 = 5;

/// Why a private server can't be had.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ServerError {
    /// PostgreSQL doesn't run as root, and there is no ordinary account to run it under.
    #[error("PostgreSQL refuses to run as root, and neither `postgres` nor `nobody` is in /etc/passwd")]
    NoAccount,
    /// A private folder can't be made or removed.
    #[error("the folder {path}")]
    Folder {
        /// Which.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// A program can't be run.
    #[error("running {program}")]
    Run {
        /// Which.
        program: &'static str,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// A program ran and failed.
    #[error("{program} failed: {said}")]
    Failed {
        /// Which.
        program: &'static str,
        /// What it said.
        said: String,
    },
}

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

/// Sets up a [`PrivatePostgres`].
#[derive(Debug, Clone)]
pub struct Builder {
    binaries: Binaries,
    settings: Vec<(String, String)>,
    template_cache: Option<PathBuf>,
}

/// A running private server. Dropping it stops it and removes its folder.
#[derive(Debug)]
pub struct PrivatePostgres {
    binaries: Binaries,
    account: Account,
    settings: Vec<(String, String)>,
    port: u16,
    child: Option<Child>,
    folder: TempDir,
}

impl Builder {
    /// Sets a server parameter. The last of one name wins.
    #[must_use]
    pub fn setting(mut self, name: &str, value: &str) -> Self {
        self.settings.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Keeps a fresh data folder in `folder` and starts from copies of it: much faster than `initdb`.
    #[must_use]
    pub fn template_cache(mut self, folder: impl Into<PathBuf>) -> Self {
        self.template_cache = Some(folder.into());
        self
    }

    /// Makes the data folder and starts the server. Returns when it answers. Blocks, at most half a minute.
    ///
    /// # Errors
    ///
    /// [`ServerError`]. Nothing is left behind.
    pub fn start(self) -> Result<PrivatePostgres, ServerError> {
        self.start_with(|binaries, account, cache, data| match cache {
            Some(cache) => template::copy_from(cache, binaries, account, data),
            None => template::initialize(binaries, account, data),
        })
    }

    /// Starts a hot standby of `primary`, from a base backup of it.
    ///
    /// # Errors
    ///
    /// [`ServerError`]. Nothing is left behind.
    pub fn start_standby_of(self, primary: &PrivatePostgres) -> Result<PrivatePostgres, ServerError> {
        let port = primary.port.to_string();
        self.start_with(|binaries, account, _, data| {
            let output = account
                .command(&binaries.path("pg_basebackup"))
                .args(["--host", "127.0.0.1", "--port", &port, "--username", SUPERUSER])
                .args(["--checkpoint", "fast", "--write-recovery-conf", "--no-sync", "--pgdata"])
                .arg(data)
                .current_dir("/")
                .output()
                .map_err(|source| ServerError::Run { program: "pg_basebackup", source })?;
            if output.status.success() {
                return Ok(());
            }
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            Err(ServerError::Failed { program: "pg_basebackup", said })
        })
    }

    fn start_with(
        self,
        fill: impl Fn(&Binaries, Account, Option<&Path>, &Path) -> Result<(), ServerError>,
    ) -> Result<PrivatePostgres, ServerError> {
        let account = Account::choose().ok_or(ServerError::NoAccount)?;
        // In the system's place for temporary files, not TMPDIR of a root user that others can't enter.
        let folder = tempfile::Builder::new()
            .prefix("tenure-pg-")
            .tempdir_in("/tmp")
            .map_err(|source| ServerError::Folder { path: PathBuf::from("/tmp"), source })?;
        let refused = |source| ServerError::Folder { path: folder.path().to_owned(), source };
        account.give(folder.path()).map_err(refused)?;
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o700)).map_err(refused)?;
        fill(&self.binaries, account, self.template_cache.as_deref(), &folder.path().join("data"))?;
        let mut server = PrivatePostgres {
            binaries: self.binaries,
            account,
            settings: self.settings,
            port: 0,
            child: None,
            folder,
        };
        for _ in 0..PORTS {
            server.port = free_port().map_err(|source| ServerError::Run { program: "postgres", source })?;
            match server.start() {
                Err(ServerError::Failed { said, .. }) if said.contains("Address already in use") => {}
                result => return result.map(|()| server),
            }
        }
        server.start().map(|()| server)
    }
}

impl PrivatePostgres {
    /// A server from these binaries.
    pub fn builder(binaries: Binaries) -> Builder {
        Builder { binaries, settings: Vec::new(), template_cache: None }
    }

    /// The port on 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// URL of a database, for the superuser.
    pub fn url(&self, database: &str) -> String {
        format!("postgres://{SUPERUSER}@127.0.0.1:{}/{database}", self.port)
    }

    /// The folder that holds all that the server made.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Process id of the postmaster, while it runs.
    pub fn pid(&self) -> Option<u32> {
        self.child.as_ref().map(Child::id)
    }

    /// All that the server has logged.
    pub fn log(&self) -> String {
        fs::read_to_string(self.log_file()).unwrap_or_default()
    }

    fn log_file(&self) -> PathBuf {
        self.folder.path().join("log")
    }

    /// Starts a server that was stopped, on the port it had. Returns when it answers.
    ///
    /// # Errors
    ///
    /// [`ServerError`], with the last lines of the server's log.
    pub fn start(&mut self) -> Result<(), ServerError> {
        let run = |source| ServerError::Run { program: "postgres", source };
        let data = self.folder.path().join("data");
        let mut config = String::new();
        for (name, value) in [
            ("listen_addresses", "127.0.0.1"),
            ("unix_socket_directories", &self.folder.path().display().to_string()),
            // A crash of the server loses nothing; only one of the machine would.
            ("fsync", "off"),
            ("full_page_writes", "off"),
            ("shared_buffers", "16MB"),
            ("max_wal_size", "64MB"),
            ("logging_collector", "off"),
        ] {
            let _infallible = writeln!(config, "{name} = '{value}'");
        }
        for (name, value) in &self.settings {
            let _infallible = writeln!(config, "{name} = '{}'", value.replace('\'', "''"));
        }
        let folder = |source| ServerError::Folder { path: data.clone(), source };
        let file = data.join("postgresql.conf");
        fs::write(&file, config).and_then(|()| self.account.give(&file)).map_err(folder)?;
        let log = fs::OpenOptions::new().append(true).create(true).open(self.log_file()).map_err(folder)?;
        let mut child = self
            .account
            .command(&self.binaries.path("postgres"))
            .arg("-D")
            .arg(&data)
            .args(["-p", &self.port.to_string()])
            .current_dir("/")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .map_err(run)?;
        for _ in 0..START_STEPS {
            if child.try_wait().map_err(run)?.is_some() {
                return Err(self.failed());
            }
            if self.is_ready(&data) {
                self.child = Some(child);
                return Ok(());
            }
            thread::sleep(STEP);
        }
        let error = self.failed();
        self.child = Some(child);
        self.end(Signal::QUIT);
        Err(error)
    }

    /// The postmaster writes its state into the eighth line of its pid file.
    fn is_ready(&self, data: &Path) -> bool {
        let state = fs::read_to_string(data.join("postmaster.pid")).unwrap_or_default();
        let ready = state.lines().nth(7).is_some_and(|line| matches!(line.trim(), "ready" | "standby"));
        ready && TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)).is_ok()
    }

    fn failed(&self) -> ServerError {
        let log = self.log();
        let tail: Vec<&str> = log.lines().rev().take(8).collect();
        let said = tail.into_iter().rev().collect::<Vec<_>>().join("\n");
        ServerError::Failed { program: "postgres", said }
    }

    /// Stops the server and keeps its data. Returns when the process has ended.
    pub fn stop(&mut self, mode: StopMode) {
        self.end(match mode {
            StopMode::Smart => Signal::TERM,
            StopMode::Fast => Signal::INT,
            StopMode::Immediate => Signal::QUIT,
        });
    }

    /// Makes a standby a primary. Returns when it accepts writes.
    ///
    /// # Errors
    ///
    /// [`ServerError`], when it doesn't become one.
    pub fn promote(&self) -> Result<(), ServerError> {
        let output = self
            .account
            .command(&self.binaries.path("pg_ctl"))
            .args(["promote", "--wait", "--silent", "--pgdata"])
            .arg(self.folder.path().join("data"))
            .current_dir("/")
            .output()
            .map_err(|source| ServerError::Run { program: "pg_ctl", source })?;
        if output.status.success() {
            return Ok(());
        }
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        Err(ServerError::Failed { program: "pg_ctl", said })
    }

    fn end(&mut self, signal: Signal) {
        let Some(mut child) = self.child.take() else { return };
        if let Some(pid) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) {
            let _already_ended = kill_process(pid, signal);
        }
        for _ in 0..STOP_STEPS {
            // An error means that there is no such child any more.
            if !matches!(child.try_wait(), Ok(None)) {
                return;
            }
            thread::sleep(STEP);
        }
        let _already_ended = child.kill();
        let _reaped = child.wait();
    }
}

impl Drop for PrivatePostgres {
    fn drop(&mut self) {
        self.end(Signal::QUIT);
    }
}

fn free_port() -> io::Result<u16> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port())
}
