//! The configuration as a user meets it: layers, mistakes, and what is never shown.

use std::{
    fs,
    path::Path,
    process::{Command, Output},
};
use tempfile::TempDir;

/// Runs the binary with only these variables of ours.
fn tenured(args: &[&str], envs: &[(&str, &str)]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tenured"));
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy().into_owned();
        if text.starts_with("TENURE_")
            || text.starts_with("PG")
            || text == "DATABASE_URL"
            || text == "RUST_LOG"
        {
            command.env_remove(name);
        }
    }
    command.args(args).envs(envs.iter().copied()).output().expect("it runs")
}

fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn file(text: &str) -> (TempDir, String) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("tenure.toml");
    fs::write(&path, text).expect("a file");
    let path = path.display().to_string();
    (folder, path)
}

#[test]
fn files_come_after_defaults_and_the_environment_after_files() {
    let (_one, first) = file("[lease]\nttl = \"20s\"\nretry_interval = \"400ms\"\n");
    let (_two, second) = file("[lease]\nttl = \"25s\"\n");
    let output = tenured(
        &["check-config", "--config", &first, "--config", &second],
        &[("TENURE_LEASE__HEARTBEAT_INTERVAL", "4s")],
    );
    let text = stdout(&output);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    for line in [
        format!("lease.ttl = \"25s\"  # {second}"),
        format!("lease.retry_interval = \"400ms\"  # {first}"),
        "lease.heartbeat_interval = \"4s\"  # environment variable TENURE_LEASE__HEARTBEAT_INTERVAL"
            .to_owned(),
        "lease.safety_margin = \"3s\"  # default".to_owned(),
    ] {
        assert!(text.contains(&line), "no {line:?} in\n{text}");
    }
}

#[test]
fn an_unknown_key_is_named_with_its_source_and_the_nearest_known_one() {
    let (_folder, path) = file("[lease]\nheartbeat_intervall = \"5s\"\n");
    let output = tenured(&["check-config", "--config", &path], &[]);
    assert_eq!(output.status.code(), Some(2));
    let text = stderr(&output);
    for part in ["lease.heartbeat_intervall", &path, "heartbeat_interval`?"] {
        assert!(text.contains(part), "no {part:?} in {text}");
    }
    let output = tenured(&["check-config"], &[("TENURE_LEASE__TTLL", "5s")]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("TENURE_LEASE__TTLL"), "{}", stderr(&output));
}

#[test]
fn all_unknown_keys_are_told_at_once_and_each_variable_is_named_as_it_was_set() {
    let (_folder, path) = file("[lease]\nttll = \"5s\"\n[htp]\nlisten = \"off\"\n");
    let output = tenured(&["check-config", "--config", &path], &[("TENURE_LEAS__TTL", "1s")]);
    assert_eq!(output.status.code(), Some(2));
    let told = stderr(&output);
    let expected = [
        format!("error: `htp.listen` (in {path}): unknown key; did you mean `http.listen`?"),
        format!("error: `lease.ttll` (in {path}): unknown key; did you mean `lease.ttl`?"),
        "error: `leas.ttl` (in environment variable TENURE_LEAS__TTL): unknown key; did you mean `lease.ttl`?"
            .to_owned(),
    ];
    assert_eq!(told.lines().collect::<Vec<_>>(), expected);
}

#[test]
fn a_variable_with_one_underscore_too_few_is_refused() {
    for (variable, right) in
        [("TENURE_LEASE_TTL", "TENURE_LEASE__TTL"), ("TENURE_DATABASE_URL", "TENURE_DATABASE__URL")]
    {
        let output = tenured(&["check-config"], &[(variable, "postgres://me:hunter2@db/app")]);
        assert_eq!(output.status.code(), Some(2));
        let told = stderr(&output);
        assert!(told.contains(&format!("{variable})")) && told.contains(right), "{told}");
        assert!(!told.contains("hunter2"), "{told}");
    }
}

#[test]
fn an_empty_variable_counts_as_unset() {
    let envs = [
        ("TENURE_CONFIG", ""),
        ("DATABASE_URL", ""),
        ("TENURE_LEASE_DATABASE_URL", ""),
        ("TENURE_LEASE__TTL", ""),
        ("TENURE_POLLER_ENABLED", ""),
    ];
    let output = tenured(&["check-config"], &envs);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(stdout(&output).contains("database.url = (not set)  # default"), "{}", stdout(&output));
}

#[test]
fn the_variable_for_files_takes_colons_and_commas() {
    let (_one, first) = file("[lease]\nttl = \"20s\"\n");
    let (_two, second) = file("[lease]\nttl = \"25s\"\n");
    for list in [format!("{first}:{second}"), format!("{first}, {second}")] {
        let output = tenured(&["check-config"], &[("TENURE_CONFIG", &list)]);
        let line = format!("lease.ttl = \"25s\"  # {second}");
        assert!(stdout(&output).contains(&line), "{}{}", stdout(&output), stderr(&output));
    }
}

#[test]
fn the_systematic_name_of_the_database_wins_over_the_usual_one() {
    let envs = [
        ("DATABASE_URL", "postgres://a/one"),
        ("TENURE_DATABASE__URL", "postgres://a/two"),
        ("TENURE_LEASE_DATABASE_URL", "postgres://a/three"),
    ];
    let text = stdout(&tenured(&["check-config"], &envs));
    for line in [
        "database.url = \"postgres://a/two\"  # environment variable TENURE_DATABASE__URL",
        "database.lease_url = \"postgres://a/three\"  # environment variable TENURE_LEASE_DATABASE_URL",
    ] {
        assert!(text.contains(line), "no {line:?} in\n{text}");
    }
}

#[test]
fn a_value_of_the_wrong_type_is_named_with_its_key_and_source() {
    for (variable, value, key) in [
        ("TENURE_LEASE__TTL", "soon", "lease.ttl"),
        ("TENURE_HTTP__LISTEN", "9464", "http.listen"),
        ("TENURE_LOG__FORMAT", "xml", "log.format"),
        ("TENURE_LOG__LEVEL", "inof", "log.level"),
        ("TENURE_DATABASE__MAX_CONNECTIONS", "many", "database.max_connections"),
        ("TENURE_DATABASE__MAX_CONNECTIONS", "0", "database.max_connections"),
        ("DATABASE_URL", "12345", "database.url"),
    ] {
        let output = tenured(&["check-config"], &[(variable, value)]);
        assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
        let start = format!("error: `{key}` (in environment variable {variable}): ");
        assert!(stderr(&output).starts_with(&start), "{}", stderr(&output));
    }
}

#[test]
fn the_effective_configuration_is_one_line_for_each_key() {
    let envs = [("DATABASE_URL", "postgres://me:hunter2@db/app"), ("TENURE_HTTP__LISTEN", "off")];
    let text = stdout(&tenured(&["check-config"], &envs));
    let of_workers = ["poller.", "scheduler.", "reconciler."];
    let lines: Vec<_> =
        text.lines().filter(|line| !of_workers.iter().any(|section| line.starts_with(section))).collect();
    assert_eq!(
        lines,
        [
            "database.lease_url = (not set)  # default",
            "database.max_connections = 10  # default",
            "database.url = \"postgres://me:***@db/app\"  # environment variable DATABASE_URL",
            "http.listen = \"off\"  # environment variable TENURE_HTTP__LISTEN",
            "lease.drain_timeout = \"30s\"  # default",
            "lease.front_door = \"direct\"  # default",
            "lease.heartbeat_interval = \"5s\"  # default",
            "lease.retry_interval = \"500ms\"  # default",
            "lease.safety_margin = \"3s\"  # default",
            "lease.statement_timeout = \"3s\"  # default",
            "lease.ttl = \"15s\"  # default",
            "log.format = (not set)  # default",
            "log.level = \"info\"  # default",
        ]
    );
}

#[test]
fn each_violated_inequality_is_said() {
    let (_folder, path) = file("[lease]\nttl = \"5s\"\nretry_interval = \"1ms\"\n");
    let output = tenured(&["check-config", "--config", &path], &[]);
    assert_eq!(output.status.code(), Some(2));
    let text = stderr(&output);
    assert!(text.contains("retry_interval is 1ms"), "{text}");
    assert!(text.contains("heartbeat_interval (5s) plus statement_timeout (3s)"), "{text}");
}

#[test]
fn a_missing_file_is_named() {
    let output = tenured(&["check-config", "--config", "/nowhere/tenure.toml"], &[]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("/nowhere/tenure.toml"), "{}", stderr(&output));
}

#[test]
fn no_mistake_in_a_file_shows_the_password_in_it() {
    for text in [
        "[database]\nurl = \"postgres://me:hunter2@db/app\n",
        "[database]\nurl = postgres://me:hunter2@db/app\n",
        "[database]\nurl = \"postgres://me:hunter2@db/app\" x\n",
        "[database]\nurl = [\"postgres://me:hunter2@db/app\"]\n",
        "[database]\nmax_connections = \"postgres://me:hunter2@db/app\"\n",
        "[database]\nlease_urll = \"postgres://me:hunter2@db/app\"\n",
        "[lease]\nttl = \"postgres://me:hunter2@db/app\"\n",
        "database = \"hunter2\"\n",
        "[http]\nlisten = \"postgres://me:hunter2@db/app\"\n",
        "[log]\nlevel = \"postgres://me:hunter2@db/app\"\n",
        "[log]\nformat = \"postgres://me:hunter2@db/app\"\n",
        "[lease]\nfront_door = \"postgres://me:hunter2@db/app\"\n",
        "[database]\nurl = \"postgres://me:hunter2@db/app\"\nurl = \"postgres://me:hunter2@db/app\"\n",
        "[database]\n\"postgres://me:hunter2@db/app\" = 1\n",
        "\"postgres://me:hunter2@db/app\" = 1\n",
        "[lease]\nttll = \"1s\"\n[database]\nurl = \"postgres://me:hunter2@[db/app\"\n",
    ] {
        let (_folder, path) = file(text);
        let output = tenured(&["check-config", "--config", &path], &[]);
        let shown = format!("{}{}", stdout(&output), stderr(&output));
        assert_eq!(output.status.code(), Some(2), "{text}: {shown}");
        assert!(!shown.contains("hunter2"), "{text}: {shown}");
    }
}

#[cfg(feature = "full")]
#[test]
fn no_mistake_in_the_section_of_a_worker_shows_the_password_in_it() {
    let url = "\"postgres://me:hunter2@db/app\"";
    for text in [
        format!("[poller]\npoll_interval = {url}\n"),
        format!("[poller.routes.x]\ntype = {url}\n"),
        "[poller.routes.x]\ntype = \"http\"\nurl = \"ftp://me:hunter2@h/\"\n".to_owned(),
        format!("[poller.routes.{url}]\ntype = \"sql\"\nstatement = \"\"\n"),
        format!("[scheduler.schedules.a]\nkind = \"k\"\ncron = {url}\n"),
        format!("[scheduler.schedules.a]\nkind = \"k\"\ncron = \"* * * * *\"\ntime_zone = {url}\n"),
        format!("[scheduler.schedules.a]\nkind = \"k\"\ncron = \"* * * * *\"\nmisfire = {url}\n"),
        format!("[reconciler.sweeps.a]\ntable = {url}\ncolumn = \"c\"\nretention = \"1d\"\n"),
    ] {
        let (_folder, path) = file(&text);
        let output = tenured(&["check-config", "--config", &path], &[]);
        let shown = format!("{}{}", stdout(&output), stderr(&output));
        assert_eq!(output.status.code(), Some(2), "{text}: {shown}");
        assert!(!shown.contains("hunter2"), "{text}: {shown}");
    }
}

#[test]
fn a_route_shows_no_secret_in_any_build() {
    let text = "[poller.routes.\"a.b\"]\ntype = \"http\"\nurl = \"https://me:hunter2@h/x?token=hunter2\"\n";
    let (_folder, path) = file(text);
    let output = tenured(&["check-config", "--config", &path], &[]);
    let shown = stdout(&output);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(!shown.contains("hunter2"), "{shown}");
    let line = if cfg!(feature = "poller") {
        format!("poller.routes.a.b.url = \"https://h/x\"  # {path}")
    } else {
        format!("# [poller] is not interpreted: the worker isn't compiled in  # {path}")
    };
    assert!(shown.contains(&line), "no {line:?} in\n{shown}");
}

#[test]
fn no_malformed_url_shows_its_password() {
    for url in [
        "me:hunter2@db/app",
        "postgres:me:hunter2@db/app",
        "mysql://me:hunter2@db/app",
        "postgres://me:hunter2@[db/app",
        "postgres://me:1/hunter2@db/app",
        "postgres://me:hunter2@db:port/app",
        "hunter2",
    ] {
        for command in ["check-config", "run", "status", "doctor", "migrate"] {
            let output = tenured(&[command], &[("DATABASE_URL", url), ("TENURE_POLLER_ENABLED", "true")]);
            let shown = format!("{}{}", stdout(&output), stderr(&output));
            assert_eq!(output.status.code(), Some(2), "{command} {url}: {shown}");
            assert!(!shown.contains("hunter2"), "{command} {url}: {shown}");
        }
    }
}

#[test]
fn a_good_url_is_shown_without_its_password() {
    let envs = [
        ("DATABASE_URL", "postgres://me:hunter2@127.0.0.1:1/app"),
        ("TENURE_LEASE_DATABASE_URL", "postgres://me@127.0.0.1:1/app?password=hunter2"),
    ];
    for args in
        [&["check-config"][..], &["status"], &["doctor"], &["doctor", "--json"], &["migrate"], &["jobs"]]
    {
        let output = tenured(args, &envs);
        let shown = format!("{}{}", stdout(&output), stderr(&output));
        assert!(!shown.contains("hunter2"), "{args:?}: {shown}");
    }
    let output = tenured(&["check-config"], &envs);
    assert!(stdout(&output).contains("postgres://me:***@127.0.0.1:1/app"), "{}", stdout(&output));
}

#[test]
fn a_misspelled_level_is_refused() {
    let output = tenured(&["check-config"], &[("TENURE_LOG__LEVEL", "inof")]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("log.level"), "{}", stderr(&output));
}

#[test]
fn a_database_that_cannot_be_reached_exits_with_75_and_a_bad_toggle_with_2() {
    let nowhere = [("DATABASE_URL", "postgres://me@127.0.0.1:1/db")];
    for command in ["status", "migrate", "doctor", "jobs", "schedules", "sweeps"] {
        let output = tenured(&[command], &nowhere);
        assert_eq!(output.status.code(), Some(75), "{command}: {}", stderr(&output));
    }
    for command in ["workers", "run", "check-config"] {
        let output = tenured(&[command], &[("TENURE_SCHEDULER_ENABLED", "perhaps")]);
        assert_eq!(output.status.code(), Some(2), "{command}: {}", stderr(&output));
        let text = stderr(&output);
        assert!(text.contains("TENURE_SCHEDULER_ENABLED") && text.contains("perhaps"), "{text}");
    }
    assert_eq!(tenured(&["no-such-command"], &[]).status.code(), Some(2));
    assert_eq!(tenured(&["status"], &[]).status.code(), Some(2), "no database is configured");
}

#[test]
fn workers_says_of_each_what_its_gates_are() {
    let output = tenured(
        &["workers", "--json"],
        &[("TENURE_POLLER_ENABLED", "YES"), ("TENURE_SCHEDULER_ENABLED", "0")],
    );
    assert_eq!(output.status.code(), Some(0));
    let document: serde_json::Value = serde_json::from_slice(&output.stdout).expect("one JSON document");
    let expected = [
        ("poller", 1_840_000_001, cfg!(feature = "poller"), "TENURE_POLLER_ENABLED", true),
        ("scheduler", 1_840_000_002, cfg!(feature = "scheduler"), "TENURE_SCHEDULER_ENABLED", false),
        ("reconciler", 1_840_000_003, cfg!(feature = "reconciler"), "TENURE_RECONCILER_ENABLED", false),
    ];
    let workers = document["workers"].as_array().expect("a list");
    assert_eq!(workers.len(), expected.len());
    for (worker, (role, key, compiled, toggle, enabled)) in workers.iter().zip(expected) {
        let outcome = match (compiled, enabled) {
            (true, true) => "runs",
            (true, false) => "off",
            (false, true) => "missing",
            (false, false) => "absent",
        };
        assert_eq!(worker["role"], role);
        assert_eq!(worker["key"], key);
        assert_eq!(worker["compiled"], compiled, "{role}");
        assert_eq!(worker["toggle"], toggle);
        assert_eq!(worker["enabled"], enabled, "{role}");
        assert_eq!(worker["outcome"], outcome, "{role}");
        assert!(!worker["why"].as_str().unwrap_or_default().is_empty());
    }
}

#[test]
fn a_misspelled_toggle_is_warned_of() {
    let output = tenured(&["workers"], &[("TENURE_POLER_ENABLED", "true")]);
    assert_eq!(output.status.code(), Some(0));
    assert!(stdout(&output).contains("TENURE_POLER_ENABLED"), "{}", stdout(&output));
}

#[test]
fn the_section_of_a_worker_that_is_not_compiled_in_is_taken() {
    let text =
        "[poller]\nbatch_size = 5\n[scheduler]\npoll_interval = \"10s\"\n[reconciler]\ninterval = \"40s\"\n";
    let (_folder, path) = file(text);
    let output = tenured(&["check-config", "--config", &path], &[]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
}

#[cfg(feature = "full")]
#[test]
fn the_documented_defaults_are_the_defaults() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../config/default.toml");
    let path = path.display().to_string();
    let values = |output: &Output| -> Vec<String> {
        let text = stdout(output);
        text.lines().filter_map(|line| line.split_once("  # ")).map(|(value, _)| value.to_owned()).collect()
    };
    let documented = tenured(&["check-config", "--config", &path], &[]);
    assert_eq!(documented.status.code(), Some(0), "{}", stderr(&documented));
    let defaults = tenured(&["check-config"], &[]);
    assert_eq!(values(&documented), values(&defaults));
    // Every key is there, and set to that value, or there as a comment when it has no default.
    let file = fs::read_to_string(&path).expect("the file");
    for line in values(&defaults) {
        let (key, value) = line.split_once(" = ").expect("a key and a value");
        let name = key.rsplit('.').next().expect("a name");
        let found = file.lines().any(|line| {
            let line = line.trim_start_matches("# ");
            line.strip_prefix(name).is_some_and(|rest| {
                let set = rest.trim_start().trim_start_matches('=').trim();
                rest.trim_start().starts_with('=') && (value == "(not set)" || set == value)
            })
        });
        assert!(found, "config/default.toml lacks {key} = {value}");
    }
}

#[test]
fn json_commands_print_one_document_and_nothing_else() {
    let output = tenured(&["workers", "--json"], &[]);
    assert!(serde_json::from_slice::<serde_json::Value>(&output.stdout).is_ok());
    assert!(output.stderr.is_empty(), "{}", stderr(&output));
    assert!(Path::new(env!("CARGO_BIN_EXE_tenured")).exists());
}
