//! The README's first command.
#![cfg(feature = "full")]

use std::{collections::BTreeSet, fs};
use tenure_testkit::{Replica, Signal};

/// Folders of demos and private servers, of this test's own temporary place.
fn folders(place: &std::path::Path) -> BTreeSet<String> {
    fs::read_dir(place)
        .expect("a folder")
        .flatten()
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .filter(|name| name.starts_with("tenure-"))
        .collect()
}

fn pids(output: &str) -> Vec<i32> {
    output.split("(pid ").skip(1).filter_map(|rest| rest.split(')').next()?.parse().ok()).collect()
}

fn runs(pid: i32) -> bool {
    // A number that was given to another process meanwhile isn't a replica of ours.
    fs::read(format!("/proc/{pid}/cmdline"))
        .is_ok_and(|line| String::from_utf8_lossy(&line).contains("tenured\0run"))
}

#[tokio::test]
async fn the_demo_shows_leaders_and_hand_overs_and_leaves_nothing() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().display().to_string();
    let mut demo = Replica::spawn(
        env!("CARGO_BIN_EXE_tenured"),
        &["demo", "--kill", "--for", "14s"],
        &[("TMPDIR", &path)],
    );
    let status = demo.wait_exit().await;
    let output = demo.stdout();
    assert_eq!(status.code(), Some(0), "{output}\n{}", demo.raw_log());
    for role in ["poller", "scheduler", "reconciler"] {
        assert!(output.contains(&format!("leads {role} (epoch")), "{output}");
    }
    assert!(output.contains("ms after the kill"), "{output}");
    assert!(output.contains(" 0 done twice"), "{output}");
    assert!(!output.contains(" 0 jobs done"), "{output}");
    assert_eq!(folders(place.path()), BTreeSet::new());
    let replicas = pids(&output);
    assert!(replicas.len() > 3, "{output}");
    assert!(replicas.into_iter().all(|pid| !runs(pid)), "{output}");
}

#[tokio::test]
async fn a_signal_ends_the_demo_clean() {
    let mut demo = Replica::spawn(env!("CARGO_BIN_EXE_tenured"), &["demo"], &[]);
    tenure_testkit::eventually(std::time::Duration::from_secs(60), || async {
        let output = demo.stdout();
        if output.contains("leads poller") { Ok(()) } else { Err(output) }
    })
    .await;
    demo.signal(Signal::INT);
    assert_eq!(demo.wait_exit().await.code(), Some(0), "{}", demo.raw_log());
    assert!(demo.stdout().contains("everything is stopped and removed"));
    assert!(pids(&demo.stdout()).into_iter().all(|pid| !runs(pid)));
}

#[tokio::test]
async fn without_the_servers_binaries_the_demo_says_how_to_get_them() {
    let mut demo = Replica::spawn(env!("CARGO_BIN_EXE_tenured"), &["demo"], &[("TENURE_PG_BIN", "/nowhere")]);
    assert_eq!(demo.wait_exit().await.code(), Some(1));
    assert!(demo.raw_log().contains("apt-get install postgresql"), "{}", demo.raw_log());
}
