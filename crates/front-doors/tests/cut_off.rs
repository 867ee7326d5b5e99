//! An examination that is cut off at any byte leaves nothing behind on any backend.

use rand::{RngExt as _, SeedableRng as _, rngs::StdRng};
use tenure::{
    FrontDoor, LeaseAddress, Timing,
    front_door::{Examination, examine},
};
use tenure_front_doors::{
    Behavior, Options, Sharing, Tunnel,
    matrix::{Door, Lane, Open, residue},
};
use tenure_testkit::{PgBouncerVersion, PoolMode, eventually};

/// How many examinations of each door are cut off. `TENURE_TEST_CUTS` asks for more.
const CUTS: usize = 40;
const LONG: std::time::Duration = std::time::Duration::from_secs(30);

fn number(variable: &str, otherwise: u64) -> u64 {
    std::env::var(variable).map_or(otherwise, |text| text.parse().expect("a number"))
}

async fn examined(open: &Open, declared: FrontDoor, tunnel: &Tunnel) -> Examination {
    let database = open.direct.rsplit('/').next().expect("a database");
    let address = LeaseAddress::parse(&tunnel.url_of(database), declared).expect("a URL");
    examine(&address, &Timing::default()).await
}

async fn cut_everywhere(door: Door, declared: FrontDoor) {
    let seed = number("TENURE_TEST_SEED", rand::random());
    let mut random = StdRng::seed_from_u64(seed);
    let lane = Lane::start();
    let open = door.open(&lane).await;
    let port = open.port();
    let before = residue(&open).await;
    let whole = Tunnel::plain(port).await;
    let uncut = examined(&open, declared, &whole).await;
    let (length, verdict) = (whole.passed(), uncut.verdict);
    let cuts = number("TENURE_TEST_CUTS", CUTS as u64);
    for _ in 0..cuts {
        let bytes = random.random_range(0..length);
        let tunnel = Tunnel::cutting_after(port, bytes).await;
        let examination = examined(&open, declared, &tunnel).await;
        drop(tunnel);
        let left = || async {
            let now = residue(&open).await;
            let new: Vec<_> = now.difference(&before).cloned().collect();
            if new.is_empty() { Ok(()) } else { Err((new, examination.clone(), bytes, seed)) }
        };
        eventually(LONG, left).await;
    }
    eprintln!("{door:?}, {declared:?}: {length} bytes to {verdict:?}, cut {cuts} times, seed {seed}");
}

fn proxy(options: Options, sharing: Sharing) -> Door {
    Door::Proxy(Behavior { options, sharing, ..Behavior::default() })
}

fn pgbouncer(mode: PoolMode, size: u32) -> Door {
    Door::PgBouncer { version: PgBouncerVersion::V1_18, mode, size, round_robin: false, tolerant: true }
}

macro_rules! cut {
    ($($name:ident: $door:expr, $declared:ident;)*) => {
        $(#[tokio::test]
        async fn $name() {
            cut_everywhere($door, FrontDoor::$declared).await;
        })*
    };
}

cut! {
    postgresql_itself: Door::Server, Direct;
    a_hot_standby: Door::Standby, Direct;
    stub_locks: Door::StubLocks, Direct;
    pgbouncer_in_transaction_mode: pgbouncer(PoolMode::Transaction, 10), Direct;
    pgbouncer_in_transaction_mode_wrongly_declared: pgbouncer(PoolMode::Transaction, 10), SessionPooler;
    a_small_pgbouncer_in_transaction_mode_wrongly_declared: pgbouncer(PoolMode::Transaction, 2), SessionPooler;
    pgbouncer_in_statement_mode_wrongly_declared: pgbouncer(PoolMode::Statement, 3), SessionPooler;
    pgbouncer_in_session_mode: pgbouncer(PoolMode::Session, 10), SessionPooler;
    a_backend_for_each_transaction: proxy(Options::Forwarded, Sharing::Transaction { reuse: false }), Direct;
    a_pool_with_options_by_set: proxy(Options::Set, Sharing::Transaction { reuse: true }), SessionPooler;
    a_session_pool_with_options_by_set: proxy(Options::Set, Sharing::Session { reuse: true }), SessionPooler;
    a_cold_session_pool: proxy(Options::Set, Sharing::Session { reuse: true }), Direct;
    a_pool_that_pins_at_a_lock:
        proxy(Options::Set, Sharing::UntilStatement { word: "advisory", reuse: true }), SessionPooler;
    one_session_for_all: proxy(Options::Dropped, Sharing::OneForAll), SessionPooler;
}
