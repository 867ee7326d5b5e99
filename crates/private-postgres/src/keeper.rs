//! Starts programs from a thread that lives as long as this process.
//!
//! The kernel's parent-death signal follows the *thread* that started a program. A caller's thread may end
//! long before its server should: an idle thread of tokio's blocking pool does after 10 seconds. So one
//! thread of our own starts them all, and only the end of the process, `kill -9` too, ends them.

use std::{
    io,
    process::{Child, Command},
    sync::{
        OnceLock,
        mpsc::{Sender, SyncSender, channel, sync_channel},
    },
    thread,
};

type Request = (Command, SyncSender<io::Result<Child>>);

static KEEPER: OnceLock<Sender<Request>> = OnceLock::new();

/// Starts `command` from the keeper's thread.
pub(crate) fn spawn(command: Command) -> io::Result<Child> {
    let gone = || io::Error::other("the thread that starts servers is gone");
    let keeper = KEEPER.get_or_init(|| {
        let (keeper, requests) = channel::<Request>();
        // Without the thread the channel has no receiver, which is the error below.
        let _thread = thread::Builder::new().name("private-postgres".to_owned()).spawn(move || {
            for (mut command, answer) in requests {
                let _caller_is_gone = answer.send(command.spawn());
            }
        });
        keeper
    });
    let (answer, started) = sync_channel(1);
    keeper.send((command, answer)).map_err(|_no_thread| gone())?;
    started.recv().map_err(|_no_thread| gone())?
}
