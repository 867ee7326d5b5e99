//! Folders whose owner was killed before it could remove them, and how the next start removes them.
//!
//! A process that dies by `kill -9` or Ctrl-C runs no destructors. Its server dies with it, its folder
//! stays. So each owner holds a lock on a file in its folder, which the kernel releases with the process:
//! a folder with a free lock, and without a running server, is nobody's.

use crate::account::Account;
use rustix::process::{Pid, test_kill_process};
use std::{
    fs::{self, File},
    io,
    os::unix::fs::MetadataExt as _,
    path::Path,
};

/// What the names of private folders begin with.
pub(crate) const PREFIX: &str = "tenure-pg-";

const LOCK: &str = "owner.lock";

/// Marks `folder` as owned until the returned file is closed.
pub(crate) fn own(folder: &Path) -> io::Result<File> {
    // Locked before it gets its name, so that nobody finds it free.
    let unnamed = folder.join("owner.new");
    let file = File::create(&unnamed)?;
    file.lock()?;
    fs::rename(&unnamed, folder.join(LOCK))?;
    Ok(file)
}

/// Removes the folders in `place` that nobody owns any more. What can't be removed stays: it isn't ours,
/// or the next start will try again.
pub(crate) fn remove_from(place: &Path, account: Account) {
    for entry in place.read_dir().into_iter().flatten().flatten() {
        let ours = entry.file_name().to_string_lossy().starts_with(PREFIX)
            && entry.metadata().is_ok_and(|found| found.is_dir() && found.uid() == account.uid());
        if ours && let Some(_owner) = take(&entry.path()) {
            let _next_time = fs::remove_dir_all(entry.path());
        }
    }
}

/// The lock of a folder that nobody owns.
fn take(folder: &Path) -> Option<File> {
    let file = File::open(folder.join(LOCK)).ok()?;
    file.try_lock().ok()?;
    let pid_file = fs::read_to_string(folder.join("data/postmaster.pid")).unwrap_or_default();
    let server = pid_file.lines().next().and_then(|pid| pid.trim().parse().ok()).and_then(Pid::from_raw);
    let runs = server.is_some_and(|pid| test_kill_process(pid) != Err(rustix::io::Errno::SRCH));
    (!runs).then_some(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder_in(place: &Path, name: &str) -> std::path::PathBuf {
        let folder = place.join(name);
        fs::create_dir(&folder).unwrap();
        folder
    }

    #[test]
    fn only_folders_without_an_owner_are_removed() {
        let place = tempfile::tempdir().unwrap();
        let owned = folder_in(place.path(), "tenure-pg-owned");
        let abandoned = folder_in(place.path(), "tenure-pg-abandoned");
        let unmarked = folder_in(place.path(), "tenure-pg-unmarked");
        let foreign = folder_in(place.path(), "something-else");
        let _owner = own(&owned).unwrap();
        drop(own(&abandoned).unwrap());
        drop(own(&foreign).unwrap());
        remove_from(place.path(), Account::Own);
        assert!(owned.exists() && unmarked.exists() && foreign.exists());
        assert!(!abandoned.exists());
    }

    #[test]
    fn a_folder_stays_while_its_server_still_runs() {
        let place = tempfile::tempdir().unwrap();
        let folder = folder_in(place.path(), "tenure-pg-dying");
        drop(own(&folder).unwrap());
        fs::create_dir(folder.join("data")).unwrap();
        let pid_file = folder.join("data/postmaster.pid");
        fs::write(&pid_file, format!("{}\n", std::process::id())).unwrap();
        remove_from(place.path(), Account::Own);
        assert!(folder.exists());
        fs::remove_file(pid_file).unwrap();
        remove_from(place.path(), Account::Own);
        assert!(!folder.exists());
    }
}
