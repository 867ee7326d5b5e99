//! Real servers: what starts them, what ends them, and what they say when they can't start.

use rustix::process::{Pid, test_kill_process};
use std::{
    net::{TcpListener, TcpStream},
    path::Path,
    process::Command,
    thread,
};
use tenure_private_postgres::{Binaries, Builder, PrivatePostgres, ServerError, StopMode};

fn builder() -> Builder {
    let cache = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/private-postgres");
    PrivatePostgres::builder(Binaries::find().unwrap()).template_cache(cache)
}

fn runs(pid: u32) -> bool {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw).expect("a process id");
    test_kill_process(pid).is_ok()
}

#[test]
fn a_server_outlives_the_thread_that_started_it() {
    let server = thread::spawn(|| builder().start().unwrap()).join().unwrap();
    // Were it tied to the thread, it would have been told to end by now, and would have by the time that
    // another has started. Its process id says nothing: nobody has waited for it.
    let _other = builder().start().unwrap();
    TcpStream::connect(("127.0.0.1", server.port())).unwrap();
    assert!(!server.log().contains("shutdown request"), "{}", server.log());
}

#[test]
fn a_server_is_removed_in_a_panic_too() {
    let (sender, receiver) = std::sync::mpsc::channel();
    let panicked = thread::spawn(move || {
        let server = builder().start().unwrap();
        sender.send((server.pid().unwrap(), server.folder().to_owned())).unwrap();
        panic!("as a failing test does");
    })
    .join();
    assert!(panicked.is_err());
    let (pid, folder) = receiver.recv().unwrap();
    assert!(!runs(pid) && !folder.exists());
}

#[test]
fn a_server_that_cannot_start_says_why_and_leaves_nothing() {
    let log = tempfile::NamedTempFile::new().unwrap();
    let error = builder().setting("max_connections", "many").log_file(log.path()).start().unwrap_err();
    let ServerError::Ended { log: tail } = &error else { panic!("{error}") };
    assert!(tail.contains("max_connections"), "{error}");
    // The log file is the caller's and stays.
    assert!(std::fs::read_to_string(log.path()).unwrap().contains("max_connections"));
}

#[test]
fn a_port_that_is_asked_for_is_used_or_refused() {
    let taken = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let port = taken.local_addr().unwrap().port();
    let error = builder().port(port).start().unwrap_err();
    assert!(error.to_string().contains("Address already in use"), "{error}");
    drop(taken);
    assert_eq!(builder().port(port).start().unwrap().port(), port);
}

#[test]
fn a_restarted_server_is_another_process_on_the_same_port() {
    let mut server = builder().start().unwrap();
    let (pid, port) = (server.pid().unwrap(), server.port());
    for mode in [StopMode::Smart, StopMode::Fast, StopMode::Immediate] {
        server.restart(mode).unwrap();
        assert_ne!(server.pid().unwrap(), pid);
        assert_eq!(server.port(), port);
    }
    server.stop(StopMode::Fast);
    assert_eq!(server.pid(), None);
    assert!(!runs(pid));
}

#[test]
fn a_standby_follows_a_primary_with_more_room_than_the_defaults() {
    let primary = builder().setting("max_connections", "150").start().unwrap();
    let standby = builder().start_standby_of(&primary).unwrap();
    assert!(!standby.log().contains("insufficient parameter settings"), "{}", standby.log());
    standby.promote().unwrap();
}

#[test]
fn a_server_needs_no_cache() {
    let server = PrivatePostgres::builder(Binaries::find().unwrap()).start().unwrap();
    assert!(server.data_dir().join("PG_VERSION").exists());
}

#[test]
fn a_server_with_a_password_lets_nobody_in_without_it() {
    let server = builder().password("secret42").start().unwrap();
    assert!(!format!("{server:?}").contains("secret42"));
    assert!(psql(&server.url("postgres")));
    assert!(!psql(&server.url("postgres").replace("secret42", "another")));
    assert!(!psql(&server.url("postgres").replace(":secret42", "")));
    let standby = builder().start_standby_of(&server).unwrap();
    assert!(psql(&standby.url("postgres")));
    assert!(!psql(&standby.url("postgres").replace("secret42", "another")));
}

/// Whether a statement can be run at this address.
fn psql(url: &str) -> bool {
    let mut command = Command::new(Binaries::find().unwrap().path("psql"));
    command.args(["--no-password", "--no-psqlrc", "--quiet", "--command", "select 1", url]);
    let output = command.env_remove("PGPASSWORD").env("PGPASSFILE", "/dev/null").output().unwrap();
    output.status.success()
}

#[test]
fn missing_binaries_are_named_with_their_program() {
    let error = PrivatePostgres::builder(Binaries::in_folder("/nowhere")).start().unwrap_err();
    assert!(error.to_string().contains("/nowhere/initdb"), "{error}");
}
