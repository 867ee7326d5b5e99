//! Processes under test, stood in for by a shell.

use std::time::Duration;
use tenure_testkit::{Replica, Signal};

fn shell(script: &str, envs: &[(&str, &str)]) -> Replica {
    Replica::spawn("/bin/sh", &["-c", script], envs)
}

#[tokio::test]
async fn an_event_is_found_before_and_after_it_is_logged() {
    let mut replica = shell(
        r#"echo '{"event":"first","role":"w","epoch":7,"instance":"i"}' >&2
           echo out
           echo 'not JSON' >&2
           echo '{"event":"second","role":"w"}' >&2
           exec sleep 600"#,
        &[],
    );
    let second = replica.wait_for("second", "w").await;
    let first = replica.wait_event("the first", |event| event.name() == "first").await;
    assert_eq!((first.epoch(), first.instance(), second.epoch()), (7, "i", 0));
    assert!(first.at <= second.at);
    assert_eq!(replica.events().len(), 2);
    assert_eq!(replica.events_named("second").len(), 1);
    assert!(replica.raw_log().contains("not JSON"));
    assert!(!replica.kill().await.success());
    assert_eq!(replica.stdout(), "out\n");
}

#[tokio::test]
#[should_panic(expected = "ended without a third event")]
async fn a_process_that_ends_is_not_waited_for_in_vain() {
    shell("echo bye >&2", &[]).wait_event("a third event", |_| false).await;
}

#[tokio::test]
#[should_panic(expected = "no answer within")]
async fn a_wait_is_bounded() {
    shell("exec sleep 600", &[]).wait_event_within(Duration::from_millis(50), "answer", |_| false).await;
}

#[tokio::test]
async fn bytes_that_are_no_text_do_not_end_the_log() {
    let mut replica = shell(r#"printf '\377\n{"event":"after"}\n' >&2; exec sleep 600"#, &[]);
    replica.wait_event("the line after", |event| event.name() == "after").await;
}

#[tokio::test]
async fn the_exit_code_and_all_output_are_there_after_the_exit() {
    let mut replica = shell("echo last; exit 3", &[]);
    assert_eq!(replica.wait_exit().await.code(), Some(3));
    assert_eq!(replica.stdout(), "last\n");
}

#[tokio::test]
async fn only_the_given_settings_are_in_the_environment() {
    // Cargo sets CARGO_MANIFEST_DIR for tests: the rest of the environment is inherited.
    let script = "env | grep -E '^(TENURE_|DATABASE_URL|PG|CARGO_MANIFEST_DIR)' | cut -d= -f1 | sort";
    let mut replica = shell(script, &[("TENURE_LEASE__TTL", "5s")]);
    replica.wait_exit().await;
    assert_eq!(replica.stdout(), "CARGO_MANIFEST_DIR\nTENURE_LEASE__TTL\n");
}

#[tokio::test]
#[should_panic(expected = "already waited for")]
async fn a_process_that_was_waited_for_is_never_signalled() {
    let mut replica = shell("true", &[]);
    replica.wait_exit().await;
    replica.signal(Signal::KILL);
}
