//! Doors that change after they were accepted: an instance leads through one, then it changes.

use super::{
    door::{Open, run as run_sql},
    residue::Residue,
    row::{Expected, Outcome},
    traffic::Traffic,
};
use std::{fmt, time::Duration};
use tenure::{
    FrontDoor, Instance, InstanceWatch, LeaseAddress, Role, Singleton, StopMode, Term, Timing, TimingConfig,
    WorkerError, async_trait, front_door::Verdict, lease::SessionState, schema,
};
use tenure_private_postgres::StopMode as ServerStop;
use tenure_testkit::{PgBouncer, eventually};
use tokio::time::Instant;
use uuid::Uuid;

/// Only reached when the test fails.
const LONG: Duration = Duration::from_secs(60);

const END: &str = "\
select pg_terminate_backend(pid) from pg_stat_activity
where application_name like 'tenure lease %' and datname = current_database()";

/// What happens to a door that an instance leads through.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// Nothing from outside: the door itself moves the session after a while.
    Time,
    /// Other clients come.
    Crowd,
    /// The backend of the lease session is ended; the door may hide it.
    BackendEnds,
    /// The address leads to a pooler from now on, and the session ends.
    PoolerInserted,
    /// The primary comes back as a standby.
    Demoted,
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Change::Time => "after a while",
            Change::Crowd => "others come",
            Change::BackendEnds => "its backend ends",
            Change::PoolerInserted => "a pooler is inserted",
            Change::Demoted => "the primary is demoted",
        })
    }
}

struct Idle;

#[async_trait]
impl Singleton for Idle {
    const ROLE: Role = Role::new("idle", 4711);
    async fn run(&self, term: Term) -> Result<(), WorkerError> {
        term.draining().await;
        Ok(())
    }
}

/// Leads through the door, changes it, and waits until the instance has noticed. What it says then of
/// the door decides; where the door can't be told from a good one again, the loss itself does.
pub(super) async fn run(change: Change, declared: FrontDoor, mut open: Open) -> Outcome {
    let pool = sqlx::PgPool::connect(&open.direct).await.expect("the server answers");
    schema::migrate(&pool, schema::MIGRATIONS).await.expect("the schema is made");
    let config = TimingConfig { heartbeat_interval: Duration::from_millis(200), ..TimingConfig::default() };
    let timing = Timing::new(config).expect("a good order");
    let address = LeaseAddress::parse(&open.url, declared).expect("a URL");
    let mut instance =
        Instance::builder(address, timing).worker(Idle).start(Uuid::new_v4()).expect("it starts");
    let watch = instance.watch();
    let epoch = eventually(LONG, || async {
        watch.snapshot().led().next().and_then(|role| role.epoch).ok_or_else(|| watch.snapshot())
    })
    .await;
    let began = Instant::now();
    let lost = || async {
        let now = watch.snapshot().led().next().and_then(|role| role.epoch);
        if now == Some(epoch) { Err(watch.snapshot()) } else { Ok(()) }
    };
    let (verdict, decided, because) = match change {
        Change::Time => {
            eventually(LONG, lost).await;
            (Expected::Refused, "heartbeat".to_owned(), String::new())
        }
        Change::Crowd => {
            let traffic = Traffic::start(&open);
            eventually(LONG, lost).await;
            traffic.stop().await;
            (Expected::Refused, "heartbeat".to_owned(), String::new())
        }
        Change::BackendEnds => {
            run_sql(&open.direct, END).await;
            eventually(LONG, lost).await;
            (Expected::Refused, "heartbeat".to_owned(), String::new())
        }
        Change::PoolerInserted => {
            let server = open.direct.parse::<sqlx::postgres::PgConnectOptions>().expect("a URL");
            let bouncer = PgBouncer::builder_for_port(server.get_port()).start().await;
            open.tunnel.as_ref().expect("a tunnel").point_at(bouncer.port());
            run_sql(&open.direct, END).await;
            refused(&watch).await
        }
        Change::Demoted => {
            let server = open.server.as_mut().expect("a server of its own");
            server.stop(ServerStop::Fast);
            std::fs::write(server.private().data_dir().join("standby.signal"), "").expect("a signal file");
            server.start_again();
            refused(&watch).await
        }
    };
    let took = began.elapsed();
    instance.stop(StopMode::AtOnce);
    instance.ended().await.expect("it ends");
    Outcome { verdict, decided, because, took, left: Residue::new() }
}

async fn refused(watch: &InstanceWatch) -> (Expected, String, String) {
    eventually(LONG, || async {
        match watch.snapshot().session {
            SessionState::Closed { verdict: Verdict::Refused { step, because, .. } } => {
                Ok((Expected::Refused, step.to_string(), because))
            }
            other => Err(other),
        }
    })
    .await
}
