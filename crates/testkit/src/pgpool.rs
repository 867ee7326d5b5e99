//! A real pgpool-II in front of a test's server.

use crate::{fetched, free_port};
use sqlx::{Connection as _, PgConnection};
use std::{fs, os::unix::fs::PermissionsExt as _, process::Child, time::Duration};
use tempfile::TempDir;

/// How long an answer is waited for. Only reached when a test fails.
const PATIENCE: Duration = Duration::from_secs(30);
/// How long one attempt may take.
const ATTEMPT: Duration = Duration::from_secs(2);
/// How often it is asked.
const STEP: Duration = Duration::from_millis(50);
/// Another process may take a port between its choice and the start.
const PORTS: u32 = 5;

/// A running pgpool-II. Stopped on drop, with all of its processes.
#[derive(Debug)]
pub struct Pgpool {
    port: u16,
    child: Child,
    folder: TempDir,
}

impl Pgpool {
    /// Starts it in front of the server on this port of 127.0.0.1. With `cache`, a backend is kept for the
    /// next client of the same user and database, after `DISCARD ALL`. `children` is the number of clients
    /// that it serves at a time.
    ///
    /// # Panics
    ///
    /// When it isn't there or doesn't answer.
    pub async fn start(server_port: u16, cache: bool, children: u32) -> Self {
        let mut said = String::new();
        for _ in 0..PORTS {
            match Self::start_on(free_port(), server_port, cache, children).await {
                Ok(pgpool) => return pgpool,
                Err(log) => said = log,
            }
        }
        panic!("pgpool-II doesn't start: {said}")
    }

    async fn start_on(port: u16, server_port: u16, cache: bool, children: u32) -> Result<Self, String> {
        let folder = tempfile::Builder::new().prefix("tenure-pgpool-").tempdir_in("/tmp").expect("a folder");
        // It writes its sockets and its process id there, as another user.
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o777)).expect("permissions");
        let place = folder.path().display();
        let config = format!(
            "backend_clustering_mode = 'raw'\nlisten_addresses = '127.0.0.1'\nport = {port}\n\
             socket_dir = '{place}'\npcp_socket_dir = '{place}'\npcp_listen_addresses = ''\n\
             pid_file_name = '{place}/pid'\nlogdir = '{place}'\nwork_dir = '{place}'\n\
             backend_hostname0 = '127.0.0.1'\nbackend_port0 = {server_port}\nbackend_weight0 = 1\n\
             backend_flag0 = 'ALWAYS_PRIMARY|DISALLOW_TO_FAILOVER'\nnum_init_children = {children}\n\
             max_pool = 1\nconnection_cache = {}\nload_balance_mode = off\nsr_check_period = 0\n",
            if cache { "on" } else { "off" },
        );
        let file = |name: &str, text: &str| {
            let path = folder.path().join(name);
            fs::write(&path, text).expect("the configuration is written");
            path
        };
        let (config, pcp, hba) = (file("conf", &config), file("pcp", ""), file("hba", ""));
        let mut program = fetched::foreign(&fetched::folder("pgpool2-bookworm"), "usr/sbin/pgpool");
        program.extend(["-n".into(), "-f".into(), config, "-F".into(), pcp, "-a".into(), hba]);
        let child = fetched::as_nobody(&program)
            .stderr(fs::File::create(folder.path().join("log")).expect("a log file"))
            .spawn()
            .expect("setpriv and unshare (util-linux) run pgpool");
        let mut pgpool = Self { port, child, folder };
        let end = tokio::time::Instant::now() + PATIENCE;
        loop {
            // An error means that there is no such child any more.
            if !matches!(pgpool.child.try_wait(), Ok(None)) {
                return Err(pgpool.log());
            }
            // An answer alone proves nothing: on a taken port it is somebody else's.
            let started = pgpool.log().contains("successfully started");
            if started && let Ok(Ok(connection)) = tokio::time::timeout(ATTEMPT, connect(&pgpool.url())).await
            {
                connection.close().await.expect("the session ends");
                return Ok(pgpool);
            }
            assert!(tokio::time::Instant::now() < end, "no answer within {PATIENCE:?}; {}", pgpool.log());
            tokio::time::sleep(STEP).await;
        }
    }

    /// URL of the database `postgres` through it. It never keeps a backend of that one.
    pub fn url(&self) -> String {
        self.url_of("postgres")
    }

    /// URL of another database through it.
    pub fn url_of(&self, database: &str) -> String {
        format!("postgres://postgres@127.0.0.1:{}/{database}", self.port)
    }

    /// All that it has logged.
    pub fn log(&self) -> String {
        String::from_utf8_lossy(&fs::read(self.folder.path().join("log")).unwrap_or_default()).into_owned()
    }
}

impl Drop for Pgpool {
    fn drop(&mut self) {
        let _already_ended = self.child.kill();
        let _reaped = self.child.wait();
    }
}

async fn connect(url: &str) -> Result<PgConnection, sqlx::Error> {
    PgConnection::connect(url).await
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{TestServer, eventually};

    #[tokio::test]
    async fn it_answers_and_leaves_no_process_behind() {
        let server = TestServer::start();
        let pgpool = Pgpool::start(server.port(), true, 4).await;
        let port = pgpool.port;
        assert!(connect(&pgpool.url()).await.is_ok());
        drop(pgpool);
        // Each of its processes has the socket that it listens on.
        eventually(PATIENCE, || async {
            std::net::TcpListener::bind(("127.0.0.1", port)).map(drop).map_err(|error| error.to_string())
        })
        .await;
    }
}
