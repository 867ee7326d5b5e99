//! A real PgBouncer in front of a test's server.

use crate::{TestServer, eventually, free_port};
use sqlx::{Connection as _, PgConnection, postgres::PgConnectOptions};
use std::{
    fmt::Write as _,
    fs,
    os::unix::fs::PermissionsExt as _,
    path::Path,
    process::{Child, Command, Stdio},
    time::Duration,
};
use tempfile::TempDir;

/// Debian's place.
const PROGRAM: &str = "/usr/sbin/pgbouncer";

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
    mode: PoolMode,
    pool_size: u32,
    ignore: String,
    round_robin: bool,
}

/// A running PgBouncer. Stopped on drop.
#[derive(Debug)]
pub struct PgBouncer {
    port: u16,
    child: Child,
    _folder: TempDir,
}

impl PgBouncer {
    /// A transaction pooler of 10 connections with stock settings, in front of `server`.
    pub fn builder(server: &TestServer) -> PgBouncerBuilder {
        PgBouncerBuilder {
            server_port: server.port(),
            mode: PoolMode::Transaction,
            pool_size: 10,
            ignore: String::new(),
            round_robin: false,
        }
    }

    /// URL of the database `postgres` through the pooler.
    pub fn url(&self) -> String {
        format!("postgres://tenure@127.0.0.1:{}/postgres", self.port)
    }
}

impl Drop for PgBouncer {
    fn drop(&mut self) {
        let _already_ended = self.child.kill();
        let _reaped = self.child.wait();
    }
}

impl PgBouncerBuilder {
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

    /// Starts it, and returns when it answers.
    ///
    /// # Panics
    ///
    /// When PgBouncer isn't installed or doesn't answer.
    pub async fn start(self) -> PgBouncer {
        assert!(Path::new(PROGRAM).exists(), "this test needs PgBouncer: apt-get install pgbouncer");
        let folder =
            tempfile::Builder::new().prefix("tenure-pgbouncer-").tempdir_in("/tmp").expect("a folder");
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).expect("permissions");
        let port = free_port();
        let mode = match self.mode {
            PoolMode::Session => "session",
            PoolMode::Transaction => "transaction",
            PoolMode::Statement => "statement",
        };
        // `any` lets everybody in, as the user that is named with the database.
        let mut config = format!(
            "[databases]\n* = user=tenure host=127.0.0.1 port={}\n[pgbouncer]\nlisten_addr = 127.0.0.1\n\
             listen_port = {port}\nunix_socket_dir =\nauth_type = any\npool_mode = {mode}\n\
             default_pool_size = {}\nserver_round_robin = {}\n",
            self.server_port,
            self.pool_size,
            u8::from(self.round_robin),
        );
        if !self.ignore.is_empty() {
            let _infallible = writeln!(config, "ignore_startup_parameters = {}", self.ignore);
        }
        let file = folder.path().join("pgbouncer.ini");
        fs::write(&file, config).expect("the configuration is written");
        let log = folder.path().join("log");
        // It refuses to run as root; it writes nothing, so any ordinary user will do.
        let child = Command::new("/usr/bin/setpriv")
            .args(["--pdeathsig", "KILL"])
            .args(if rustix::process::geteuid().is_root() {
                &["--reuid=nobody", "--regid=nogroup", "--clear-groups"][..]
            } else {
                &[]
            })
            .arg(PROGRAM)
            .arg(&file)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(fs::File::create(&log).expect("a log file"))
            .spawn()
            .expect("pgbouncer starts");
        let bouncer = PgBouncer { port, child, _folder: folder };
        let options: PgConnectOptions = bouncer.url().parse().expect("a URL");
        let options = options.extra_float_digits(None);
        eventually(Duration::from_secs(30), || async {
            match PgConnection::connect_with(&options).await {
                Ok(connection) => connection.close().await.map_err(|error| error.to_string()),
                Err(error) => Err(format!("{error}; {}", fs::read_to_string(&log).unwrap_or_default())),
            }
        })
        .await;
        bouncer
    }
}
