//! One replica: a real process of this binary, and the events that it logs.

use super::scene::Scene;
use crate::exit::Failure;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::{path::Path, process::Stdio, time::Duration};
use tokio::{
    io::{AsyncBufReadExt as _, BufReader},
    process::{Child, Command},
    sync::mpsc::UnboundedSender,
    time::Instant,
};

/// How long a replica may take to drain before it is killed.
const DRAIN: Duration = Duration::from_secs(10);

/// A running replica.
pub(super) struct Replica {
    pub(super) name: &'static str,
    pub(super) pid: u32,
    child: Child,
}

/// A line of its log.
pub(super) struct Line {
    pub(super) replica: &'static str,
    pub(super) at: Instant,
    pub(super) fields: Value,
}

impl Replica {
    /// Starts one, in a process group of its own, so that Ctrl-C reaches the demo alone.
    ///
    /// Where `setpriv` is there, the kernel stops the replica when the demo is killed.
    pub(super) fn start(
        name: &'static str,
        scene: &Scene,
        lines: UnboundedSender<Line>,
    ) -> Result<Self, Failure> {
        let failed = |error: std::io::Error| Failure::Other(format!("starting replica {name}: {error}"));
        let program = std::env::current_exe().map_err(failed)?;
        let with_parent = Path::new("/usr/bin/setpriv");
        let mut command = if with_parent.exists() {
            let mut command = Command::new(with_parent);
            command.args(["--pdeathsig", "KILL"]).arg(program);
            command
        } else {
            Command::new(program)
        };
        for (variable, _) in std::env::vars_os() {
            if variable.to_string_lossy().starts_with("TENURE_") || variable == "RUST_LOG" {
                command.env_remove(variable);
            }
        }
        let mut child = command
            .arg("run")
            .arg("--config")
            .arg(scene.config())
            .env("DATABASE_URL", scene.url())
            .env("TENURE_HTTP__LISTEN", "off")
            .env("TENURE_LOG__FORMAT", "json")
            .env("TENURE_POLLER_ENABLED", "true")
            .env("TENURE_SCHEDULER_ENABLED", "true")
            .env("TENURE_RECONCILER_ENABLED", "true")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .process_group(0)
            .kill_on_drop(true)
            .spawn()
            .map_err(failed)?;
        let pid = child.id().unwrap_or_default();
        if let Some(log) = child.stderr.take() {
            tokio::spawn(async move {
                let mut log = BufReader::new(log).lines();
                while let Ok(Some(line)) = log.next_line().await {
                    let Ok(fields) = serde_json::from_str(&line) else { continue };
                    if lines.send(Line { replica: name, at: Instant::now(), fields }).is_err() {
                        return;
                    }
                }
            });
        }
        Ok(Self { name, pid, child })
    }

    /// `kill -9`.
    pub(super) fn kill(&mut self) {
        let _already_ended = self.child.start_kill();
    }

    /// SIGTERM: drain, hand over, end.
    pub(super) fn ask_to_stop(&self) {
        // `None` once it has ended: its number may be somebody else's by now.
        let Some(pid) = self.child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw) else {
            return;
        };
        let _already_ended = kill_process(pid, Signal::TERM);
    }

    /// Waits for the end; kills it when that takes too long.
    pub(super) async fn end(&mut self) {
        if tokio::time::timeout(DRAIN, self.child.wait()).await.is_err() {
            let _already_ended = self.child.kill().await;
        }
    }
}
