//! The watchdog: a thread that ends the process when work doesn't stop.
//!
//! A worker's future is dropped at its next await. Code that never comes to one can't be stopped from
//! within the process, and an ex-leader that acts is worse than a dead process. The watchdog needs no
//! runtime, no allocation that could wait, and no lock but the board's.

use super::board::{Board, Watch};
use crate::{Epoch, Role, telemetry};
use std::{
    sync::{Arc, mpsc},
    thread,
    time::Duration,
};

/// Exit code of a process that its watchdog ended.
pub const EXIT_CODE: i32 = 70;

/// How long the last line may take. A log pipe that nobody reads must not keep an ex-leader alive.
const LAST_LINE: Duration = Duration::from_millis(100);

/// Starts the watchdog of `board`. Its thread ends after the engine has, when nothing runs any more.
pub(crate) fn spawn(board: Arc<Board>) -> std::io::Result<()> {
    thread::Builder::new().name("tenure-watchdog".to_owned()).spawn(move || match board.watch() {
        Watch::Exit(role, epoch) => exit(role, epoch),
        Watch::Done => (),
    })?;
    Ok(())
}

fn exit(role: Role, epoch: Epoch) -> ! {
    let (written, wait) = mpsc::channel();
    // Without a thread to write it from, the line is not worth the wait.
    let writer = thread::Builder::new().spawn(move || {
        telemetry::watchdog_exit(role, epoch);
        let _receiver_waits = written.send(());
    });
    if writer.is_ok() {
        let _written_or_too_late = wait.recv_timeout(LAST_LINE);
    }
    // Not `std::process::exit`: handlers of other libraries could wait for the very thread that blocks.
    signal_hook::low_level::exit(EXIT_CODE)
}
