//! `tenured demo`: a private PostgreSQL, three replicas as real processes, real jobs.
//!
//! It needs nothing but PostgreSQL's binaries, and leaves nothing behind: replicas and server end with
//! it, also when it is killed, and their folders are removed.

mod replica;
mod scene;
mod show;

use crate::{cli::Demo, exit::Failure, run::gates};
use replica::{Line, Replica};
use scene::Scene;
use show::Show;
use std::{io::IsTerminal as _, time::Duration};
use tenure::Signals;
use tokio::{
    io::{AsyncBufReadExt as _, BufReader},
    sync::mpsc::{self, UnboundedSender},
    time::{Instant, MissedTickBehavior, interval},
};

/// Names of the replicas.
const NAMES: [&str; 3] = ["A", "B", "C"];
/// How often a leader is killed with `--kill`.
const KILL_EVERY: Duration = Duration::from_secs(5);
/// How often a job is added.
const ENQUEUE_EVERY: Duration = Duration::from_millis(250);
/// How often the table is shown.
const TABLE_EVERY: Duration = Duration::from_secs(4);
/// How long a killed replica stays away.
const RESTART_AFTER: Duration = Duration::from_secs(2);

/// Plays the demo until its time is over or a signal comes.
pub(crate) async fn run(options: &Demo) -> Result<(), Failure> {
    if !gates()?.iter().any(|gate| gate.compiled) {
        return Err(crate::exit::usage(
            "this binary has no worker in it; build the demo with `cargo run --features full -- demo`",
        ));
    }
    let mut signals = Signals::listen().map_err(|error| Failure::Other(error.to_string()))?;
    say!("starting a private PostgreSQL …");
    let scene = tokio::select! {
        scene = Scene::set() => scene?,
        _ = signals.next() => return Ok(()),
    };
    let (lines, mut read) = mpsc::unbounded_channel();
    let mut replicas = Vec::new();
    for name in NAMES {
        replicas.push(Replica::start(name, &scene, lines.clone())?);
    }
    let pids: Vec<String> =
        replicas.iter().map(|replica| format!("{} (pid {})", replica.name, replica.pid)).collect();
    say!("three replicas of this binary: {}", pids.join(", "));
    if options.kill {
        say!(
            "every {} s the leader of a role is killed with kill -9; watch who takes over\n",
            KILL_EVERY.as_secs()
        );
    } else if std::io::stdin().is_terminal() {
        say!("press k and Enter to kill the leader of a role with kill -9, Ctrl-C to end\n");
    } else {
        say!("end it with Ctrl-C or SIGTERM\n");
    }
    let mut show = Show::new();
    let end = options.duration.map(|duration| Instant::now() + duration);
    let mut keys = keys(options);
    let (mut kill, mut enqueue, mut table) = (every(KILL_EVERY), every(ENQUEUE_EVERY), every(TABLE_EVERY));
    let mut restart: Vec<(Instant, usize)> = Vec::new();
    let mut turn = 0;
    let result = loop {
        let next_restart = restart.iter().map(|(at, _)| *at).min();
        tokio::select! {
            biased;
            _ = signals.next() => break Ok(()),
            () = sleep_until(end) => break Ok(()),
            Some(line) = read.recv() => show.note(&line),
            () = sleep_until(next_restart) => {
                let now = Instant::now();
                for (_, index) in restart.extract_if(.., |(at, _)| *at <= now) {
                    match Replica::start(NAMES[index], &scene, lines.clone()) {
                        Ok(replica) => {
                            show.say(&format!("{} is started again (pid {})", replica.name, replica.pid));
                            replicas[index] = replica;
                        }
                        Err(failure) => return Err(failure),
                    }
                }
            }
            _ = kill.tick(), if options.kill => {
                kill_a_leader(&mut replicas, &mut show, &mut restart, &mut turn);
            }
            Some(()) = keys.recv() => kill_a_leader(&mut replicas, &mut show, &mut restart, &mut turn),
            _ = enqueue.tick() => {
                if let Err(failure) = scene.enqueue().await {
                    break Err(failure);
                }
            }
            _ = table.tick() => match scene.counts().await {
                Ok(counts) => show.table(&counts),
                Err(failure) => break Err(failure),
            },
        }
    };
    let counts = scene.counts().await;
    show.say("ending: the replicas drain and hand over");
    for replica in &replicas {
        replica.ask_to_stop();
    }
    for replica in &mut replicas {
        replica.end().await;
    }
    if let Ok(counts) = &counts {
        show.summary(counts);
    }
    drop(scene);
    say!("everything is stopped and removed");
    result?;
    if counts?.doubled > 0 {
        return Err(Failure::Other("a job was done twice, which must never happen".to_owned()));
    }
    Ok(())
}

fn kill_a_leader(
    replicas: &mut [Replica],
    show: &mut Show,
    restart: &mut Vec<(Instant, usize)>,
    turn: &mut usize,
) {
    // Roles in turn, so that each is seen to change hands.
    let Some((role, name)) = show.leader(*turn) else { return };
    *turn += 1;
    let Some(index) = replicas.iter().position(|replica| replica.name == name) else { return };
    if restart.iter().any(|(_, waiting)| *waiting == index) {
        return;
    }
    show.killed(replicas[index].name, replicas[index].pid, &role);
    replicas[index].kill();
    restart.push((Instant::now() + RESTART_AFTER, index));
}

fn every(period: Duration) -> tokio::time::Interval {
    let mut ticks = interval(period);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    // The first tick comes at once, and nothing has happened yet.
    ticks.reset();
    ticks
}

async fn sleep_until(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}

/// One message for each `k` that is typed.
fn keys(options: &Demo) -> mpsc::UnboundedReceiver<()> {
    let (sender, keys) = mpsc::unbounded_channel();
    if !options.kill && std::io::stdin().is_terminal() {
        tokio::spawn(type_keys(sender));
    } else {
        // Kept open: a closed channel would be read for ever.
        tokio::spawn(async move { sender.closed().await });
    }
    keys
}

async fn type_keys(sender: UnboundedSender<()>) {
    let mut typed = BufReader::new(tokio::io::stdin()).lines();
    while let Ok(Some(line)) = typed.next_line().await {
        if line.trim().eq_ignore_ascii_case("k") && sender.send(()).is_err() {
            return;
        }
    }
    sender.closed().await;
}
