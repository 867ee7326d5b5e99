//! Finds PostgreSQL's server binaries.

use std::{
    env,
    path::{Path, PathBuf},
    process::Command,
};
use thiserror::Error;

/// The folder that holds `initdb`, `postgres` and the rest of one server version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Binaries {
    folder: PathBuf,
}

/// There are no server binaries on this machine, or not where one was told to look.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error(
    "no PostgreSQL server binaries (initdb, postgres) found in {}; install them, on Debian or Ubuntu with \
     `apt-get install postgresql`, or name their folder in TENURE_PG_BIN",
    looked.iter().map(|place| place.display().to_string()).collect::<Vec<_>>().join(", ")
)]
pub struct FindError {
    /// Where they were looked for.
    pub looked: Vec<PathBuf>,
}

/// Where Debian keeps one folder for each server version.
const DEBIAN: &str = "/usr/lib/postgresql";

impl Binaries {
    /// Looks in the folder that `TENURE_PG_BIN` names and nowhere else when it is set; otherwise on PATH,
    /// where `pg_config` points, and in Debian's place, newest version first.
    ///
    /// # Errors
    ///
    /// [`FindError`] with the places that were looked in.
    pub fn find() -> Result<Self, FindError> {
        let places = match env::var_os("TENURE_PG_BIN").filter(|folder| !folder.is_empty()) {
            Some(folder) => vec![PathBuf::from(folder)],
            None => places(),
        };
        match places.iter().find_map(|folder| server_folder(folder)) {
            Some(folder) => Ok(Self { folder }),
            None => Err(FindError { looked: places }),
        }
    }

    /// The binaries in `folder`.
    pub fn in_folder(folder: impl Into<PathBuf>) -> Self {
        Self { folder: folder.into() }
    }

    /// Path of one of them.
    pub fn path(&self, program: &str) -> PathBuf {
        self.folder.join(program)
    }

    /// The server's version, as `postgres --version` prints it.
    ///
    /// # Errors
    ///
    /// When it can't be run.
    pub fn version(&self) -> std::io::Result<String> {
        let output = Command::new(self.path("postgres")).arg("--version").output()?;
        Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    }
}

/// The folder where `initdb` really is, if the server is there too. On PATH it may be a lone link.
fn server_folder(folder: &Path) -> Option<PathBuf> {
    let initdb = folder.join("initdb").canonicalize().ok()?;
    let real = initdb.parent()?;
    real.join("postgres").is_file().then(|| real.to_owned())
}

fn places() -> Vec<PathBuf> {
    let mut places: Vec<PathBuf> =
        env::var_os("PATH").map(|path| env::split_paths(&path).collect()).unwrap_or_default();
    let pg_config = Command::new("pg_config").arg("--bindir").output();
    if let Some(output) = pg_config.ok().filter(|output| output.status.success()) {
        places.push(PathBuf::from(String::from_utf8_lossy(&output.stdout).trim()));
    }
    let mut versions: Vec<(u32, PathBuf)> = Path::new(DEBIAN)
        .read_dir()
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| Some((entry.file_name().to_str()?.parse().ok()?, entry.path().join("bin"))))
        .collect();
    versions.sort_by(|a, b| b.cmp(a));
    if versions.is_empty() {
        places.push(PathBuf::from(DEBIAN));
    }
    places.extend(versions.into_iter().map(|(_, folder)| folder));
    places
}
