//! A real PgBouncer in front of a test's server.

use crate::{TestServer, fetched, free_port};
use sqlx::{Connection as _, PgConnection, postgres::PgConnectOptions};
use std::{
    fmt::Write as _,
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::Duration,
};
use tempfile::TempDir;

/// Debian's place.
const PROGRAM: &str = "/usr/sbin/pgbouncer";
/// Another process may take a port between its choice and the start.
const PORTS: u32 = 5;
/// How long an answer is waited for. Only reached when a test fails.
const PATIENCE: Duration = Duration::from_secs(30);
/// How long one attempt may take.
const ATTEMPT: Duration = Duration::from_secs(1);
/// How often it is asked.
const STEP: Duration = Duration::from_millis(20);

/// Which PgBouncer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PgBouncerVersion {
    /// Of Debian 12, installed on this machine.
    V1_18,
    /// Of Debian 13, fetched. It knows prepared statements.
    V1_24,
}

/// When a pooler takes a server connection back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PoolMode {
    /// When the client leaves.
    Session,
    /// After each transaction.
    Transaction,
    /// After each statement.
    Statement,
}

/// Sets up a [`PgBouncer`].
#[derive(Debug, Clone)]
pub struct PgBouncerBuilder {
    server_port: u16,
    version: PgBouncerVersion,
    mode: PoolMode,
    pool_size: u32,
    ignore: String,
    round_robin: bool,
    reset: bool,
}

/// A running PgBouncer. Stopped on drop.
#[derive(Debug)]
pub struct PgBouncer {
    port: u16,
    child: Child,
    folder: TempDir,
}

impl PgBouncer {
    /// A transaction pooler of 10 connections with stock settings, in front of `server`.
    pub fn builder(server: &TestServer) -> PgBouncerBuilder {
        Self::builder_for_port(server.port())
    }

    /// The same in front of whatever server listens on this port of 127.0.0.1.
    pub fn builder_for_port(server_port: u16) -> PgBouncerBuilder {
        PgBouncerBuilder {
            server_port,
            version: PgBouncerVersion::V1_18,
            mode: PoolMode::Transaction,
            pool_size: 10,
            ignore: String::new(),
            round_robin: false,
            reset: true,
        }
    }

    /// URL of the database `postgres` through the pooler.
    pub fn url(&self) -> String {
        self.url_of("postgres")
    }

    /// URL of another database through the pooler.
    pub fn url_of(&self, database: &str) -> String {
        format!("postgres://postgres@127.0.0.1:{}/{database}", self.port)
    }

    /// The port on 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// All that it has logged.
    pub fn log(&self) -> String {
        String::from_utf8_lossy(&fs::read(self.folder.path().join("log")).unwrap_or_default()).into_owned()
    }

    fn has_ended(&mut self) -> bool {
        // An error means that there is no such child any more.
        !matches!(self.child.try_wait(), Ok(None))
    }
}

impl Drop for PgBouncer {
    fn drop(&mut self) {
        let _already_ended = self.child.kill();
        let _reaped = self.child.wait();
    }
}

impl PgBouncerVersion {
    fn program(self) -> Vec<PathBuf> {
        match self {
            PgBouncerVersion::V1_18 => {
                assert!(Path::new(PROGRAM).exists(), "this test needs {PROGRAM}: just setup");
                vec![PROGRAM.into()]
            }
            PgBouncerVersion::V1_24 => {
                fetched::foreign(&fetched::folder("pgbouncer-trixie"), "usr/sbin/pgbouncer")
            }
        }
    }
}

impl PgBouncerBuilder {
    /// Which version; 1.18 otherwise.
    #[must_use]
    pub fn version(mut self, version: PgBouncerVersion) -> Self {
        self.version = version;
        self
    }

    /// The pool mode.
    #[must_use]
    pub fn mode(mut self, mode: PoolMode) -> Self {
        self.mode = mode;
        self
    }

    /// Server connections in the pool.
    #[must_use]
    pub fn pool_size(mut self, size: u32) -> Self {
        self.pool_size = size;
        self
    }

    /// `ignore_startup_parameters`.
    #[must_use]
    pub fn ignore_startup_parameters(mut self, names: &str) -> Self {
        names.clone_into(&mut self.ignore);
        self
    }

    /// `server_round_robin`.
    #[must_use]
    pub fn round_robin(mut self, on: bool) -> Self {
        self.round_robin = on;
        self
    }

    /// Whether a server connection is cleaned when a client leaves it, in session mode.
    #[must_use]
    pub fn reset(mut self, on: bool) -> Self {
        self.reset = on;
        self
    }

    /// Starts it, and returns when it answers. It dies with the thread that polls this, at the latest: in a
    /// test that is the runtime's.
    ///
    /// # Panics
    ///
    /// When PgBouncer isn't installed or doesn't answer within half a minute.
    pub async fn start(self) -> PgBouncer {
        let mut said = String::new();
        for _ in 0..PORTS {
            match self.start_on(free_port()).await {
                Ok(bouncer) => return bouncer,
                Err(log) => said = log,
            }
        }
        panic!("PgBouncer doesn't start: {said}")
    }

    /// Starts it on a port that may be taken by now; then it ends, and the error is its log.
    async fn start_on(&self, port: u16) -> Result<PgBouncer, String> {
        let folder =
            tempfile::Builder::new().prefix("tenure-pgbouncer-").tempdir_in("/tmp").expect("a folder");
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).expect("permissions");
        let file = folder.path().join("pgbouncer.ini");
        fs::write(&file, self.config(port)).expect("the configuration is written");
        // It refuses to run as root; it writes nothing, so any ordinary user will do.
        let child = Command::new("/usr/bin/setpriv")
            .args(["--pdeathsig", "KILL"])
            .args(if rustix::process::geteuid().is_root() {
                &["--reuid=nobody", "--regid=nogroup", "--clear-groups"][..]
            } else {
                &[]
            })
            .args(self.version.program())
            .arg(&file)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(fs::File::create(folder.path().join("log")).expect("a log file"))
            .spawn()
            .expect("setpriv (util-linux) runs pgbouncer");
        let mut bouncer = PgBouncer { port, child, folder };
        let options: PgConnectOptions = bouncer.url().parse().expect("a URL");
        let options = options.extra_float_digits(None);
        let listening = format!("listening on 127.0.0.1:{port}\n");
        let end = tokio::time::Instant::now() + PATIENCE;
        loop {
            if bouncer.has_ended() {
                return Err(bouncer.log());
            }
            // An answer alone proves nothing: on a taken port it is somebody else's, and may come before
            // ours has found that out and ended.
            if !bouncer.log().contains(&listening) && tokio::time::Instant::now() < end {
                tokio::time::sleep(STEP).await;
                continue;
            }
            let answer = tokio::time::timeout(ATTEMPT, PgConnection::connect_with(&options)).await;
            match answer {
                Ok(Ok(connection)) => {
                    connection.close().await.expect("the session ends");
                    return Ok(bouncer);
                }
                _not_yet if tokio::time::Instant::now() < end => tokio::time::sleep(STEP).await,
                seen => panic!("no answer within {PATIENCE:?}, last {seen:?}; {}", bouncer.log()),
            }
        }
    }

    fn config(&self, port: u16) -> String {
        let mode = match self.mode {
            PoolMode::Session => "session",
            PoolMode::Transaction => "transaction",
            PoolMode::Statement => "statement",
        };
        // `any` lets everybody in, as the user that is named with the database.
        let mut config = format!(
            "[databases]\n* = user=postgres host=127.0.0.1 port={}\n[pgbouncer]\nlisten_addr = 127.0.0.1\n\
             listen_port = {port}\nunix_socket_dir =\nauth_type = any\npool_mode = {mode}\n\
             default_pool_size = {}\nserver_round_robin = {}\n",
            self.server_port,
            self.pool_size,
            u8::from(self.round_robin),
        );
        if !self.reset {
            config.push_str("server_reset_query =\n");
        }
        if !self.ignore.is_empty() {
            let _infallible = writeln!(config, "ignore_startup_parameters = {}", self.ignore);
        }
        config
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn both_versions_answer() {
        let server = TestServer::start();
        for version in [PgBouncerVersion::V1_18, PgBouncerVersion::V1_24] {
            let bouncer = PgBouncer::builder(&server).version(version).start().await;
            assert!(!bouncer.log().is_empty());
        }
    }

    #[tokio::test]
    async fn a_port_that_was_taken_meanwhile_is_noticed() {
        let server = TestServer::start();
        let silent = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap();
        for taken in [silent.local_addr().unwrap().port(), server.port()] {
            let log = PgBouncer::builder(&server).start_on(taken).await.unwrap_err();
            assert!(log.contains("in use"), "{log}");
        }
    }
}
