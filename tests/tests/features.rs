//! The first gate, on the real binary: what is compiled in follows from the features, and nothing else.

use serde_json::{Value, json};
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    process::Command,
};

/// Role, key, toggle. A deployment API: a line is added for a new worker, and none is ever changed.
const GOLDEN: [(&str, i64, &str); 3] = [
    ("poller", 1_840_000_001, "TENURE_POLLER_ENABLED"),
    ("scheduler", 1_840_000_002, "TENURE_SCHEDULER_ENABLED"),
    ("reconciler", 1_840_000_003, "TENURE_RECONCILER_ENABLED"),
];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the workspace's root")
}

/// The features of the binary and what each switches on, from its manifest.
fn declared_features() -> BTreeMap<String, Vec<String>> {
    let output = cargo().args(["metadata", "--offline", "--no-deps", "--format-version", "1"]).output();
    let output = output.expect("cargo runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout).expect("metadata is JSON");
    let packages = metadata["packages"].as_array().expect("packages");
    let tenured = packages.iter().find(|package| package["name"] == "tenured").expect("the binary's package");
    serde_json::from_value(tenured["features"].clone()).expect("features are lists of names")
}

fn cargo() -> Command {
    let mut command = Command::new(env!("CARGO"));
    command.current_dir(root());
    command
}

/// Builds the binary with these features into a folder of their own.
fn build(features: &str) -> PathBuf {
    let folder = if features.is_empty() { "none" } else { features };
    let target = root().join("target/features").join(folder);
    let built = cargo()
        .args(["build", "--offline", "--quiet", "--package", "tenured", "--features", features])
        .arg("--target-dir")
        .arg(&target)
        // What the sets have in common is compiled once; the programs don't overwrite each other.
        .env("CARGO_BUILD_BUILD_DIR", root().join("target"))
        .output()
        .expect("cargo runs");
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    target.join("debug/tenured")
}

/// What `tenured workers --json` says in an environment that holds the toggles only, without its prose.
fn workers(program: &Path, toggles: &[(&str, &str)]) -> Vec<Value> {
    let mut command = Command::new(program);
    let output = command.args(["workers", "--json"]).env_clear().envs(toggles.iter().copied()).output();
    let output = output.expect("the binary runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let said: Value = serde_json::from_slice(&output.stdout).expect("one JSON document");
    let mut workers = said["workers"].as_array().expect("a list of workers").clone();
    for worker in workers.iter_mut().filter_map(Value::as_object_mut) {
        assert!(worker.remove("why").is_some_and(|why| why.is_string()), "{worker:?}");
    }
    workers
}

#[test]
fn the_features_are_the_workers_and_full_is_all_of_them() {
    let mut features = declared_features();
    assert_eq!(features.remove("default"), Some(vec![]), "no worker is compiled in by default");
    let mut full = features.remove("full").expect("the feature `full`");
    full.sort();
    let mut names = GOLDEN.map(|(role, _, _)| role).to_vec();
    names.sort_unstable();
    assert_eq!(full, names);
    assert_eq!(features.keys().collect::<Vec<_>>(), names);
    for (feature, enables) in features {
        assert_eq!(
            enables,
            [format!("dep:tenure-{feature}")],
            "a feature makes its worker available, no more"
        );
        assert!(root().join("workers").join(&feature).is_dir(), "workers/{feature}");
    }
}

#[test]
fn in_each_set_of_features_exactly_its_workers_can_run() {
    // Every subset, built by name; the last one as `full`.
    for set in 0..1_usize << GOLDEN.len() {
        let has = |index: usize| set >> index & 1 == 1;
        let chosen: Vec<&str> = (0..GOLDEN.len()).filter(|index| has(*index)).map(|i| GOLDEN[i].0).collect();
        let features = if chosen.len() == GOLDEN.len() { "full".to_owned() } else { chosen.join(",") };
        let program = build(&features);

        for enabled in [false, true] {
            let toggles = GOLDEN.map(|(_, _, toggle)| (toggle, if enabled { "true" } else { "" }));
            let expected: Vec<Value> = GOLDEN
                .iter()
                .enumerate()
                .map(|(index, (role, key, toggle))| {
                    let outcome = match (has(index), enabled) {
                        (true, true) => "runs",
                        (true, false) => "off",
                        (false, true) => "missing",
                        (false, false) => "absent",
                    };
                    json!({
                        "role": role, "key": key, "feature": role, "compiled": has(index),
                        "toggle": toggle, "enabled": enabled, "outcome": outcome,
                    })
                })
                .collect();
            assert_eq!(workers(&program, &toggles), expected, "features {features:?}");
        }
    }
}

#[test]
fn a_toggle_that_is_neither_on_nor_off_is_refused() {
    let program = build("");
    let mut refused = Command::new(program);
    refused.args(["workers", "--json"]).env_clear().env("TENURE_POLLER_ENABLED", "maybe");
    let output = refused.output().expect("the binary runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("TENURE_POLLER_ENABLED") && said.contains("maybe"), "{said}");
}
