//! The command line.

use chrono::{DateTime, Utc};
use clap::{Args, Parser, Subcommand};
use std::{path::PathBuf, time::Duration};

/// Leader-only background workers, elected through PostgreSQL advisory locks.
#[derive(Debug, Parser)]
#[command(name = "tenured", version, propagate_version = true)]
pub(crate) struct Cli {
    /// TOML file; may be given several times, later ones win. Without it: those that `TENURE_CONFIG` names.
    #[arg(long, value_name = "FILE", global = true)]
    pub(crate) config: Vec<PathBuf>,
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Runs the workers whose two gates are open.
    Run {
        /// Leaves the schema alone, for a database role that may not change it.
        #[arg(long)]
        no_migrate: bool,
    },
    /// Shows every worker: key, compiled, enabled, toggle, and why it would or wouldn't run.
    Workers(Output),
    /// Creates or upgrades the schema `tenure`.
    Migrate {
        /// Prints the SQL for a database administrator instead, and connects to nothing.
        #[arg(long)]
        print: bool,
    },
    /// Examines the front door, step by step; changes nothing.
    Doctor(Output),
    /// Shows who leads what since when, who stands by, recent terms, and the backlog.
    Status(Output),
    /// Asks the leader of a role to finish and hand over.
    Resign {
        /// Name of the role.
        role: String,
        /// How long to wait for the hand-over.
        #[arg(long, default_value = "60s", value_parser = duration)]
        timeout: Duration,
    },
    /// Adds a job.
    Enqueue(Enqueue),
    /// Lists and inspects jobs; retries and cancels them.
    Jobs {
        #[command(subcommand)]
        action: Option<JobsAction>,
        #[command(flatten)]
        output: Output,
    },
    /// Lists schedules with their last ticks.
    Schedules(Output),
    /// Lists the newest sweeps.
    Sweeps(Output),
    /// Parses everything, and prints the effective configuration with each value's source.
    CheckConfig,
    /// Shows it at work: a private PostgreSQL, three replicas, real jobs. Kill a leader and watch.
    Demo(Demo),
}

#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct Output {
    /// Prints one JSON document on standard output and nothing else.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Enqueue {
    /// Kind of the job: names its route.
    pub(crate) kind: String,
    /// Payload, as JSON.
    #[arg(long, default_value = "{}")]
    pub(crate) payload: String,
    /// Queue.
    #[arg(long, default_value = "default")]
    pub(crate) queue: String,
    /// Priority: higher ones go first.
    #[arg(long, default_value_t = 0, allow_negative_numbers = true)]
    pub(crate) priority: i16,
    /// When it is due, in RFC 3339; now without it.
    #[arg(long)]
    pub(crate) run_at: Option<DateTime<Utc>>,
    /// At most one unfinished job has this key.
    #[arg(long)]
    pub(crate) unique_key: Option<String>,
    /// Jobs with one ordering key run one after the other.
    #[arg(long)]
    pub(crate) ordering_key: Option<String>,
    #[command(flatten)]
    pub(crate) output: Output,
}

#[derive(Debug, Subcommand)]
pub(crate) enum JobsAction {
    /// Lists the newest jobs.
    List {
        /// Only this state: available, running, completed, discarded, cancelled.
        #[arg(long)]
        state: Option<String>,
        /// Only this kind.
        #[arg(long)]
        kind: Option<String>,
        /// At most this many.
        #[arg(long, default_value_t = 50)]
        limit: u32,
    },
    /// Shows one job.
    Show {
        /// Its number.
        id: i64,
    },
    /// Makes a job due again, with fresh attempts.
    Retry {
        /// Its number.
        id: i64,
    },
    /// Cancels a job that isn't running.
    Cancel {
        /// Its number.
        id: i64,
    },
}

#[derive(Debug, Args)]
pub(crate) struct Demo {
    /// Kills a leader every few seconds.
    #[arg(long)]
    pub(crate) kill: bool,
    /// Ends by itself after this long.
    #[arg(long = "for", value_name = "DURATION", value_parser = duration)]
    pub(crate) duration: Option<Duration>,
}

fn duration(text: &str) -> Result<Duration, humantime::DurationError> {
    humantime::parse_duration(text)
}
