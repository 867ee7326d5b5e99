//! What `just setup` fetches into `target/servers`, since the machine doesn't have it.

use std::{
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

/// The folder of one of the fetched things.
///
/// # Panics
///
/// When it isn't there, with how to get it.
pub(crate) fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/servers").join(name);
    folder.canonicalize().unwrap_or_else(|_| panic!("this test needs target/servers/{name}: just setup"))
}

/// Runs a program as an ordinary user, for poolers refuse root. It dies with the thread that starts it, at
/// the latest, and takes all processes along that it has started, and their shared memory: they have
/// namespaces of their own.
pub(crate) fn as_nobody(program: &[PathBuf]) -> Command {
    let root = rustix::process::geteuid().is_root();
    let mut command = Command::new("/usr/bin/setpriv");
    command.args(["--pdeathsig", "KILL", "/usr/bin/unshare", "--pid", "--ipc", "--fork", "--kill-child"]);
    if root {
        // Becoming somebody else forgets what --kill-child has arranged, so it is said again.
        command.args(["/usr/bin/setpriv", "--pdeathsig", "KILL"]);
        command.args(["--reuid=nobody", "--regid=nogroup", "--clear-groups"]);
    } else {
        command.arg("--user");
    }
    command.args(program).stdin(Stdio::null()).stdout(Stdio::null());
    command
}

/// A program of a Debian release that isn't this machine's, started by its own loader.
pub(crate) fn foreign(folder: &Path, program: &str) -> Vec<PathBuf> {
    let libraries = |top: &str| folder.join(top).join("x86_64-linux-gnu");
    let (new, old) = (libraries("usr/lib"), libraries("lib"));
    let loader = |place: &Path| place.join("ld-linux-x86-64.so.2");
    let loader = if loader(&new).exists() { loader(&new) } else { loader(&old) };
    let search = format!("{}:{}", new.display(), old.display());
    vec![loader, "--library-path".into(), search.into(), folder.join(program)]
}
