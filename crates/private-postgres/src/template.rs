//! The data folder: made by `initdb`, or copied from one that was made before.

use crate::{Binaries, ServerError, account::Account, error, password::Password};
use std::{
    fs::{self, File},
    io,
    os::unix::fs::PermissionsExt as _,
    path::Path,
    process::Stdio,
};

/// The superuser of private servers. Not `tenure`: its tables would land in the schema of that name.
pub(crate) const SUPERUSER: &str = "postgres";

/// How `initdb` is run. A template is kept for each of them.
const ARGUMENTS: [&str; 9] = [
    "--username",
    SUPERUSER,
    "--encoding",
    "UTF8",
    "--locale",
    "C.UTF-8",
    // Small files: a folder is copied in a blink.
    "--wal-segsize=1",
    "--no-sync",
    "--no-instructions",
];

/// Makes `data` with `initdb`, in a folder that only the account can enter.
pub(crate) fn initialize(
    binaries: &Binaries,
    account: Account,
    data: &Path,
    password: Option<&Password>,
) -> Result<(), ServerError> {
    let program = binaries.path("initdb");
    let mut command = account.command(&program);
    command.arg("--pgdata").arg(data).args(ARGUMENTS).current_dir("/").stdin(Stdio::null());
    // Not as an argument: those can be read by everybody while it runs.
    let file = data.with_file_name("password");
    match password {
        None => command.args(["--auth", "trust"]),
        Some(password) => {
            fs::write(&file, password.reveal())
                .and_then(|()| account.give(&file))
                .map_err(|source| ServerError::Folder { path: file.clone(), source })?;
            command.args(["--auth", "scram-sha-256", "--pwfile"]).arg(&file)
        }
    };
    let output = command.output().map_err(|source| ServerError::Run { program, source })?;
    if password.is_some() {
        fs::remove_file(&file).map_err(|source| ServerError::Folder { path: file, source })?;
    }
    let said = || ServerError::Initialize { said: error::said(&output) };
    output.status.success().then_some(()).ok_or_else(said)
}

/// Makes `data` as a copy of a template in `cache`, which is made first when it isn't there.
pub(crate) fn copy_from(
    cache: &Path,
    binaries: &Binaries,
    account: Account,
    data: &Path,
) -> Result<(), ServerError> {
    let folder = |source| ServerError::Template { cache: cache.to_owned(), source };
    fs::create_dir_all(cache).map_err(folder)?;
    let program = binaries.path("postgres");
    let version = binaries.version().map_err(|source| ServerError::Run { program, source })?;
    let name = name(&version);
    // Several test processes start at once: one makes the template, the others wait for it.
    let lock = File::create(cache.join(format!("{name}.lock"))).map_err(folder)?;
    lock.lock().map_err(folder)?;
    let template = cache.join(&name);
    if !template.exists() {
        initialize(binaries, account, data, None)?;
        let unfinished = cache.join(format!("{name}.unfinished"));
        if unfinished.exists() {
            fs::remove_dir_all(&unfinished).map_err(folder)?;
        }
        copy(data, &unfinished, Account::Own).map_err(folder)?;
        fs::rename(&unfinished, &template).map_err(folder)?;
        return Ok(());
    }
    drop(lock);
    copy(&template, data, account).map_err(folder)
}

/// A folder's name for what determines the template.
fn name(version: &str) -> String {
    let made_by = format!("{version} {}", ARGUMENTS.join(" "));
    made_by.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect()
}

fn copy(from: &Path, to: &Path, account: Account) -> io::Result<()> {
    fs::create_dir(to)?;
    fs::set_permissions(to, fs::Permissions::from_mode(0o700))?;
    account.give(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy(&entry.path(), &target, account)?;
        } else {
            fs::copy(entry.path(), &target)?;
            account.give(&target)?;
        }
    }
    Ok(())
}
