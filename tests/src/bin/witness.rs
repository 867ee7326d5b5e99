//! A service whose workers write down every act, so that a test can tell who acted when.
//!
//! `witness URL ROLES` leads the roles `w0`, `w1`, … `WITNESS_MODE` says how its workers behave.

use sqlx::{PgPool, postgres::PgPoolOptions};
use std::{env, sync::Arc, time::Duration};
use tenure::{
    FrontDoor, Instance, LeaseAddress, Role, Signals, Term, Timing, Worker, WorkerError, async_trait,
};
use tenure_tests::{acts::PAUSE, cluster::timing};
use uuid::Uuid;

/// How a worker behaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    /// Acts until it should stop.
    Act,
    /// Acts, and doesn't care about being asked to finish.
    IgnoreDrain,
    /// Blocks its thread for ever after its first act.
    Block,
    /// Takes every connection of the pool and gives none back.
    Hog,
    /// Fails at once.
    Fail,
    /// Panics at once.
    Panic,
    /// Returns at once.
    Return,
    /// Leaves a task behind that goes on trying fenced writes after the term.
    Rogue,
    /// Does nothing at all.
    Idle,
}

struct Witness {
    role: Role,
    mode: Mode,
    pool: PgPool,
}

impl Witness {
    async fn unfenced_act(&self, term: &Term) -> Result<(), sqlx::Error> {
        sqlx::query("insert into act (role, epoch, instance, fenced) values ($1, $2, $3, false)")
            .bind(self.role.name())
            .bind(term.epoch().0)
            .bind(term.instance())
            .execute(&self.pool)
            .await?;
        Ok(())
    }

    async fn act_until_stopped(&self, term: &Term, stop: impl Fn(&Term) -> bool) -> Result<(), WorkerError> {
        while !stop(term) {
            self.unfenced_act(term).await?;
            fenced_act(&self.pool, term).await?;
            tokio::time::sleep(PAUSE).await;
        }
        Ok(())
    }
}

async fn fenced_act(pool: &PgPool, term: &Term) -> Result<(), tenure::FenceError> {
    let mut tx = term.begin_fenced(pool).await?;
    let inserted = sqlx::query("insert into act (role, epoch, instance, fenced) values ($1, $2, $3, true)")
        .bind(term.role().name())
        .bind(term.epoch().0)
        .bind(term.instance())
        .execute(&mut *tx)
        .await;
    if let Err(error) = inserted {
        return Err(term.fence_error(error));
    }
    tx.commit().await
}

#[async_trait]
impl Worker for Witness {
    fn role(&self) -> Role {
        self.role
    }

    async fn work(&self, term: Term) -> Result<(), WorkerError> {
        match self.mode {
            Mode::Act => self.act_until_stopped(&term, Term::is_draining).await,
            Mode::IgnoreDrain => self.act_until_stopped(&term, |_| false).await,
            Mode::Block => {
                self.unfenced_act(&term).await?;
                tracing::info!(event = "witness.blocking", role = self.role.name());
                loop {
                    std::thread::park();
                }
            }
            Mode::Hog => {
                let mut taken = Vec::new();
                while let Ok(connection) = self.pool.acquire().await {
                    taken.push(connection);
                    tracing::info!(
                        event = "witness.took",
                        role = self.role.name(),
                        connections = taken.len()
                    );
                }
                std::future::pending().await
            }
            Mode::Fail => Err("as it was told to".into()),
            Mode::Panic => panic!("as it was told to"),
            Mode::Return => Ok(()),
            Mode::Rogue => {
                let (pool, rogue) = (self.pool.clone(), term.clone());
                tokio::spawn(async move {
                    loop {
                        if let Err(error) = fenced_act(&pool, &rogue).await {
                            let (fenced, error) = (error.is_fenced(), error.to_string());
                            tracing::info!(event = "witness.refused", fenced, error, epoch = rogue.epoch().0);
                            if fenced {
                                return;
                            }
                        }
                        tokio::time::sleep(PAUSE).await;
                    }
                });
                term.ended().await;
                Ok(())
            }
            Mode::Idle => {
                term.draining().await;
                Ok(())
            }
        }
    }
}

#[tokio::main(worker_threads = 2)]
async fn main() -> Result<(), WorkerError> {
    tracing_subscriber::fmt()
        .json()
        .flatten_event(true)
        .with_writer(std::io::stderr)
        .with_env_filter("info,sqlx=warn")
        .init();
    let mut signals = Signals::listen()?;
    let url = env::args().nth(1).ok_or("usage: witness URL ROLES")?;
    let roles: u32 = env::args().nth(2).ok_or("usage: witness URL ROLES")?.parse()?;
    let mode = match env::var("WITNESS_MODE").as_deref() {
        Err(_) | Ok("act") => Mode::Act,
        Ok("ignore-drain") => Mode::IgnoreDrain,
        Ok("block") => Mode::Block,
        Ok("hog") => Mode::Hog,
        Ok("fail") => Mode::Fail,
        Ok("panic") => Mode::Panic,
        Ok("return") => Mode::Return,
        Ok("rogue") => Mode::Rogue,
        Ok("idle") => Mode::Idle,
        Ok(other) => return Err(format!("unknown WITNESS_MODE {other}").into()),
    };
    let timing = if env::var_os("WITNESS_DEFAULT_TIMING").is_some() { Timing::default() } else { timing() };
    let pool = PgPoolOptions::new().max_connections(4).connect_lazy(&url)?;
    let workers = (0..roles).map(|index| {
        // A role's name lives as long as the process: there are few, made once.
        let name: &'static str = Box::leak(format!("w{index}").into_boxed_str());
        let role = Role::new(name, 7000 + i64::from(index));
        Box::new(Witness { role, mode, pool: pool.clone() }) as Box<dyn Worker>
    });
    let instance = Instance::builder(LeaseAddress::parse(&url, FrontDoor::Direct)?, timing)
        .workers(workers)
        .start(Uuid::new_v4())?;
    let watch = Arc::new(instance.watch());
    tokio::spawn(async move {
        // A line per second with the trust that is left, for tests that look at health.
        loop {
            tokio::time::sleep(Duration::from_secs(1)).await;
            let snapshot = watch.snapshot();
            let trust_ms = snapshot.trust_remaining.map(|left| left.as_millis());
            tracing::debug!(event = "witness.trust", ready = snapshot.is_ready(), trust_ms);
        }
    });
    Ok(instance.run_until_signal(&mut signals).await?)
}
