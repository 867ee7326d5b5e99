//! Two instances that compete through the same pooler never both lead, declared or not.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};
use tenure::{
    FrontDoor, Instance, LeaseAddress, Role, StopMode, Term, Timing, TimingConfig, Worker, WorkerError,
    async_trait, lease::SessionState, schema,
};
use tenure_front_doors::{
    Behavior, Options, Quirk, Sharing,
    matrix::{Door, Lane},
};
use tenure_testkit::{PgBouncerVersion, PoolMode, eventually};
use uuid::Uuid;

const LONG: Duration = Duration::from_secs(60);
/// How many examinations and proofs a pair makes before it is stopped.
const ROUNDS: usize = 3;

/// How many work now, and how many there ever were at once.
#[derive(Default)]
struct Actors {
    now: AtomicUsize,
    most: AtomicUsize,
    terms: AtomicUsize,
}

struct Actor(Arc<Actors>);

/// Counts down in every way in which work can end.
struct Acting(Arc<Actors>);

impl Drop for Acting {
    fn drop(&mut self) {
        self.0.now.fetch_sub(1, Ordering::SeqCst);
    }
}

#[async_trait]
impl Worker for Actor {
    fn role(&self) -> Role {
        Role::new("actor", 4711)
    }

    async fn work(&self, term: Term) -> Result<(), WorkerError> {
        let now = self.0.now.fetch_add(1, Ordering::SeqCst) + 1;
        let _acting = Acting(Arc::clone(&self.0));
        self.0.most.fetch_max(now, Ordering::SeqCst);
        self.0.terms.fetch_add(1, Ordering::SeqCst);
        term.draining().await;
        Ok(())
    }
}

fn start(address: &LeaseAddress, actors: &Arc<Actors>) -> Instance {
    let config = TimingConfig {
        retry_interval: Duration::from_millis(50),
        heartbeat_interval: Duration::from_millis(100),
        statement_timeout: Duration::from_millis(500),
        ..TimingConfig::default()
    };
    let timing = Timing::new(config).expect("a good order");
    Instance::builder(address.clone(), timing)
        .workers([Box::new(Actor(Arc::clone(actors))) as Box<dyn Worker>])
        .start(Uuid::new_v4())
        .expect("it starts")
}

/// Two compete; the one that leads is stopped and comes back. Returns how many terms there were.
async fn compete(lane: &Lane, door: Door, declared: FrontDoor) -> usize {
    let open = door.open(lane).await;
    let pool = sqlx::PgPool::connect(&open.direct).await.expect("the server answers");
    schema::migrate(&pool, schema::MIGRATIONS).await.expect("the schema is made");
    let address = LeaseAddress::parse(&open.url, declared).expect("a URL");
    let actors = Arc::new(Actors::default());
    let mut pair = [start(&address, &actors), start(&address, &actors)];
    for _ in 0..ROUNDS {
        let decided = || async {
            let seen: Vec<_> = pair.iter().map(|instance| instance.watch().snapshot()).collect();
            let closed = |session: &SessionState| matches!(session, SessionState::Closed { .. });
            let led = seen.iter().any(|snapshot| snapshot.led().count() == 1);
            if led || seen.iter().all(|snapshot| closed(&snapshot.session)) { Ok(()) } else { Err(seen) }
        };
        eventually(LONG, decided).await;
        let leader = pair.iter().position(|instance| instance.watch().snapshot().led().count() == 1);
        let leader = &mut pair[leader.unwrap_or(0)];
        leader.stop(StopMode::AtOnce);
        leader.ended().await.expect("it ends");
        *leader = start(&address, &actors);
    }
    for instance in &mut pair {
        instance.stop(StopMode::AtOnce);
        instance.ended().await.expect("it ends");
    }
    assert!(actors.most.load(Ordering::SeqCst) <= 1, "two at once through {door:?}, {declared:?}");
    actors.terms.load(Ordering::SeqCst)
}

#[tokio::test]
async fn pgbouncer_makes_no_second_leader() {
    pgbouncer(PgBouncerVersion::V1_18).await;
}

#[tokio::test]
async fn a_newer_pgbouncer_makes_no_second_leader() {
    pgbouncer(PgBouncerVersion::V1_24).await;
}

async fn pgbouncer(version: PgBouncerVersion) {
    let lane = Lane::start();
    for mode in [PoolMode::Transaction, PoolMode::Statement, PoolMode::Session] {
        for size in [1, 2, 3, 10] {
            for tolerant in [false, true] {
                for declared in [FrontDoor::Direct, FrontDoor::SessionPooler] {
                    let door = Door::PgBouncer { version, mode, size, round_robin: size == 3, tolerant };
                    let terms = compete(&lane, door, declared).await;
                    let good = mode == PoolMode::Session && declared == FrontDoor::SessionPooler && size > 1;
                    assert!(good || terms == 0, "{door:?}, {declared:?}: {terms} terms");
                    // With less, two instances with their listeners take the connections from each other.
                    assert!(!good || size < 10 || terms > 0, "{door:?}, {declared:?}: {terms} terms");
                }
            }
        }
    }
}

#[tokio::test]
async fn pgpool_makes_no_second_leader() {
    let lane = Lane::start();
    for cache in [false, true] {
        for declared in [FrontDoor::Direct, FrontDoor::SessionPooler] {
            let terms = compete(&lane, Door::Pgpool { cache }, declared).await;
            assert!(terms > 0, "pgpool-II is session-stable");
        }
    }
}

#[tokio::test]
async fn imitated_proxies_make_no_second_leader() {
    let lane = Lane::start();
    let proxy = |options, sharing, quirk| Door::Proxy(Behavior { options, sharing, quirk });
    let pool = Sharing::Transaction { reuse: true };
    let session = Sharing::Session { reuse: true };
    let own = Sharing::Session { reuse: false };
    for (door, leads) in [
        (proxy(Options::Forwarded, own, None), true),
        (proxy(Options::Set, pool, None), false),
        (proxy(Options::Set, pool, Some(Quirk::AnswersPid)), false),
        (proxy(Options::Set, Sharing::UntilStatement { word: "advisory", reuse: true }, None), false),
        (proxy(Options::Forwarded, Sharing::Transaction { reuse: false }, None), false),
        (proxy(Options::Set, Sharing::OneForAll, None), false),
        (proxy(Options::Forwarded, own, Some(Quirk::OutlivesBackend)), true),
        // These pass the examination and turn afterwards.
        (proxy(Options::Set, session, Some(Quirk::PoolsAfter(20))), true),
        (proxy(Options::Set, session, Some(Quirk::PoolsAfter(30))), true),
        (proxy(Options::Forwarded, own, Some(Quirk::MovesAfter(25))), true),
    ] {
        for declared in [FrontDoor::Direct, FrontDoor::SessionPooler] {
            let terms = compete(&lane, door, declared).await;
            assert!(leads || terms == 0, "{door:?}, {declared:?}: {terms} terms");
        }
    }
}
