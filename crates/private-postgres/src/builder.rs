//! Sets up a private server: an empty one, or a standby of another.

use crate::{
    Binaries, PrivatePostgres, ServerError, abandoned,
    account::Account,
    error,
    password::Password,
    template::{self, SUPERUSER},
};
use std::{
    fs,
    net::{Ipv4Addr, TcpListener},
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
};

/// Another process may take a port between its choice and the server's start.
const PORTS: u32 = 5;

/// Sets up a [`PrivatePostgres`].
#[derive(Debug, Clone)]
pub struct Builder {
    binaries: Binaries,
    settings: Vec<(String, String)>,
    template_cache: Option<PathBuf>,
    port: Option<u16>,
    log_file: Option<PathBuf>,
    password: Option<Password>,
}

impl Builder {
    pub(crate) fn new(binaries: Binaries) -> Self {
        Self {
            binaries,
            settings: Vec::new(),
            template_cache: None,
            port: None,
            log_file: None,
            password: None,
        }
    }

    /// Sets a server parameter. The last of one name wins.
    #[must_use]
    pub fn setting(mut self, name: &str, value: &str) -> Self {
        self.settings.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Listens on this port of 127.0.0.1 instead of a free one.
    #[must_use]
    pub fn port(mut self, port: u16) -> Self {
        self.port = Some(port);
        self
    }

    /// Appends the server's log to this file, which stays, instead of one in the private folder.
    #[must_use]
    pub fn log_file(mut self, file: impl Into<PathBuf>) -> Self {
        self.log_file = Some(file.into());
        self
    }

    /// Keeps a fresh data folder in `folder` and starts from copies of it: much faster than `initdb`.
    ///
    /// All copies have the same system identifier, as a primary and its standby do. Two servers that must
    /// look unrelated need their own `initdb`: leave the cache out for one of them.
    #[must_use]
    pub fn template_cache(mut self, folder: impl Into<PathBuf>) -> Self {
        self.template_cache = Some(folder.into());
        self
    }

    /// Lets the superuser in by this password only (SCRAM). Of letters and digits: it becomes part of the URL.
    ///
    /// Without one, every user of this machine is let in, and a superuser can run programs as the account
    /// that the server runs under. A server with a password isn't made from the template.
    #[must_use]
    pub fn password(mut self, password: &str) -> Self {
        self.password = Some(Password::new(password));
        self
    }

    /// Makes the data folder and starts the server. Returns when it answers. Blocks, at most half a minute.
    /// May be called on any thread: the server's life is tied to the process, not to the thread.
    ///
    /// # Errors
    ///
    /// [`ServerError`]. Nothing is left behind.
    pub fn start(self) -> Result<PrivatePostgres, ServerError> {
        let (cache, password) = (self.template_cache.clone(), self.password.clone());
        self.start_with(|binaries, account, data| match (&cache, &password) {
            (Some(cache), None) => template::copy_from(cache, binaries, account, data),
            (_, password) => template::initialize(binaries, account, data, password.as_ref()),
        })
    }

    /// Starts a hot standby of `primary`, from a base backup of it, with the primary's settings unless this
    /// builder has others: a standby with less room than its primary refuses to follow. Its password is the
    /// primary's.
    ///
    /// # Errors
    ///
    /// [`ServerError`]. Nothing is left behind.
    pub fn start_standby_of(mut self, primary: &PrivatePostgres) -> Result<PrivatePostgres, ServerError> {
        let port = primary.port().to_string();
        self.settings = [primary.settings(), &self.settings].concat();
        self.password = primary.password().cloned();
        let password = self.password.clone();
        self.start_with(|binaries, account, data| {
            let program = binaries.path("pg_basebackup");
            let output = account
                .command(&program)
                .env("PGPASSWORD", password.as_ref().map_or("", Password::reveal))
                .args(["--host", "127.0.0.1", "--port", &port, "--username", SUPERUSER])
                .args(["--checkpoint", "fast", "--write-recovery-conf", "--no-sync", "--pgdata"])
                .arg(data)
                .current_dir("/")
                .output()
                .map_err(|source| ServerError::Run { program, source })?;
            let said = || ServerError::BaseBackup { said: error::said(&output) };
            output.status.success().then_some(()).ok_or_else(said)
        })
    }

    fn start_with(
        self,
        fill: impl FnOnce(&Binaries, Account, &Path) -> Result<(), ServerError>,
    ) -> Result<PrivatePostgres, ServerError> {
        let account = Account::choose().ok_or(ServerError::NoAccount)?;
        // In the system's place for temporary files, not TMPDIR of a root user that others can't enter.
        let place = Path::new("/tmp");
        abandoned::remove_from(place, account);
        let folder = tempfile::Builder::new()
            .prefix(abandoned::PREFIX)
            .tempdir_in(place)
            .map_err(|source| ServerError::Folder { path: place.to_owned(), source })?;
        let refused = |source| ServerError::Folder { path: folder.path().to_owned(), source };
        let owner = abandoned::own(folder.path()).map_err(refused)?;
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o700)).map_err(refused)?;
        account.give(folder.path()).map_err(refused)?;
        fill(&self.binaries, account, &folder.path().join("data"))?;
        let log_file = self.log_file.unwrap_or_else(|| folder.path().join("log"));
        let mut server = PrivatePostgres {
            binaries: self.binaries,
            account,
            settings: self.settings,
            password: self.password,
            port: 0,
            log_file,
            child: None,
            folder,
            owner,
        };
        if let Some(port) = self.port {
            return server.start_on(port).map(|()| server);
        }
        for _ in 1..PORTS {
            match server.start_on(free_port()?) {
                Err(ServerError::Ended { log }) if log.contains("Address already in use") => {}
                result => return result.map(|()| server),
            }
        }
        server.start_on(free_port()?).map(|()| server)
    }
}

fn free_port() -> Result<u16, ServerError> {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
        .and_then(|listener| listener.local_addr())
        .map(|address| address.port())
        .map_err(ServerError::Port)
}
