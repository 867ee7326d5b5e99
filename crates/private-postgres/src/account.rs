//! The account that the server runs under. PostgreSQL refuses to run as root.

use std::{
    fs,
    os::unix::{fs::chown, process::CommandExt as _},
    path::Path,
    process::Command,
};

/// Ordinary accounts that may be there, best first.
const CANDIDATES: [&str; 2] = ["postgres", "nobody"];

/// Whom to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Account {
    /// This process isn't root: stay who we are.
    Own,
    /// This process is root: become this user and group.
    Other { uid: u32, gid: u32 },
}

impl Account {
    /// Decides by who runs this process. `None` when it is root and there is no ordinary account.
    pub(crate) fn choose() -> Option<Self> {
        if !rustix::process::geteuid().is_root() {
            return Some(Account::Own);
        }
        let passwd = fs::read_to_string("/etc/passwd").ok()?;
        CANDIDATES.iter().find_map(|name| find(&passwd, name))
    }

    /// Its user id.
    pub(crate) fn uid(self) -> u32 {
        match self {
            Account::Own => rustix::process::geteuid().as_raw(),
            Account::Other { uid, .. } => uid,
        }
    }

    /// Gives a file or folder to the account.
    pub(crate) fn give(self, path: &Path) -> std::io::Result<()> {
        match self {
            Account::Own => Ok(()),
            Account::Other { uid, gid } => chown(path, Some(uid), Some(gid)),
        }
    }

    /// A command that runs `program` as the account, in a process group of its own, so that Ctrl-C on the
    /// terminal leaves it to its owner.
    ///
    /// Where `setpriv` is there (util-linux), the kernel ends the program with SIGQUIT when the *thread*
    /// that starts it ends, also by `kill -9`: what is to live longer is started by the [keeper](crate::keeper).
    pub(crate) fn command(self, program: &Path) -> Command {
        let with_parent = Path::new("/usr/bin/setpriv");
        let mut command;
        if with_parent.exists() {
            command = Command::new(with_parent);
            command.args(["--pdeathsig", "QUIT"]);
            if let Account::Other { uid, gid } = self {
                command.arg(format!("--reuid={uid}")).arg(format!("--regid={gid}")).arg("--clear-groups");
            }
            command.arg(program);
        } else {
            command = Command::new(program);
            if let Account::Other { uid, gid } = self {
                command.uid(uid).gid(gid);
            }
        }
        command.process_group(0);
        // Nothing of the caller's PostgreSQL settings applies to a private server.
        for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("PG")) {
            command.env_remove(name);
        }
        command.env("LC_ALL", "C.UTF-8");
        command
    }
}

fn find(passwd: &str, name: &str) -> Option<Account> {
    passwd.lines().find_map(|line| {
        let mut fields = line.split(':');
        let (user, _password) = (fields.next()?, fields.next()?);
        let (uid, gid) = (fields.next()?.parse().ok()?, fields.next()?.parse().ok()?);
        (user == name).then_some(Account::Other { uid, gid })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_account_is_found_by_its_name() {
        let passwd = "root:x:0:0::/root:/bin/sh\nnobody:x:65534:65533::/:/sbin/nologin\n";
        assert_eq!(find(passwd, "nobody"), Some(Account::Other { uid: 65534, gid: 65533 }));
        assert_eq!(find(passwd, "postgres"), None);
    }
}
