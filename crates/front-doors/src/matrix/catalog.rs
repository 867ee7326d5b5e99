//! Every row of the matrix.

use super::{
    door::Door,
    row::{Expected, Row, State},
    underway::Change,
};
use crate::{Behavior, Options, Quirk, Sharing};
use tenure::{FrontDoor, front_door::Step};
use tenure_testkit::{PgBouncerVersion, PoolMode};

/// All rows, in the order of the table.
pub fn rows() -> Vec<Row> {
    let mut rows = servers();
    rows.extend(tunnels());
    rows.extend(proxies());
    rows.extend(changes());
    rows.extend(pgpools());
    rows.extend(pgbouncers());
    rows
}

fn row(name: &'static str, variant: impl Into<String>, door: Door, expected: Expected) -> Row {
    let (declared, state) = (FrontDoor::Direct, State::Cold);
    Row { name, variant: variant.into(), door, state, declared, expected, only: None }
}

impl Row {
    fn state(mut self, state: State) -> Self {
        self.state = state;
        self
    }

    fn declared(mut self) -> Self {
        self.declared = FrontDoor::SessionPooler;
        self
    }

    fn only(mut self, step: Step) -> Self {
        self.only = Some(step);
        self
    }
}

fn servers() -> Vec<Row> {
    use Expected::{Accepted, Refused, Unreachable};
    let versions = [14, 15, 16, 17, 18]
        .map(|major| row("PostgreSQL", format!("{major}, primary"), Door::Major(major), Accepted));
    let mut rows = versions.to_vec();
    rows.extend([
        row("PostgreSQL", "primary", Door::Server, Accepted),
        row("PostgreSQL", "primary", Door::Server, Accepted).declared(),
        row("PostgreSQL", "primary", Door::Server, Accepted).state(State::Busy),
        row("PostgreSQL", "primary", Door::Server, Accepted).state(State::Polluted),
        row("PostgreSQL", "hot standby", Door::Standby, Refused).only(Step::Role),
        row("PostgreSQL", "hot standby", Door::Standby, Refused).declared(),
        row("PostgreSQL", "promoted standby", Door::Promoted, Accepted),
        row("PostgreSQL", "transactions read-only", Door::ReadOnly, Refused).only(Step::Role),
        row(
            "advisory locks are stubs",
            "always true for a session, real in a transaction",
            Door::StubLocks,
            Refused,
        )
        .only(Step::Exclusion),
        row(
            "advisory locks are stubs",
            "always true for a session, real in a transaction",
            Door::StubLocks,
            Refused,
        )
        .declared(),
        row("PostgreSQL", "primary, wal_level kept low by the service", Door::HiddenLog, Accepted),
        row("no advisory locks", "the function doesn't exist", Door::NoLocks, Refused),
        row("nothing", "a port where nobody listens", Door::Nobody, Unreachable),
    ]);
    rows
}

fn tunnels() -> Vec<Row> {
    use Expected::{Accepted, Refused};
    vec![
        row("tunnel", "plain TCP", Door::Tunnel, Accepted),
        row("tunnel", "plain TCP", Door::Tunnel, Accepted).state(State::Busy),
        row("tunnel", "ends TLS", Door::TlsTunnel, Accepted),
        row("balancer", "each connection to the next of two servers", Door::TwoServers, Refused),
        row("balancer", "each connection to the next of two servers", Door::TwoServers, Refused).declared(),
    ]
}

/// PostgreSQL before 14.
const TOO_OLD: Quirk = Quirk::RefusesSetting { name: "idle_session_timeout", code: "42704" };
/// Some managed services.
const MANAGED: Quirk = Quirk::RefusesSetting { name: "client_connection_check_interval", code: "42501" };

fn proxies() -> Vec<Row> {
    use Expected::{Accepted, Refused};
    let proxy = |variant: &str, behavior: Behavior, expected| {
        row("imitated proxy", variant, Door::Proxy(behavior), expected)
    };
    let passes = Behavior::default();
    let session = Behavior { sharing: Sharing::Session { reuse: true }, ..passes };
    let pooled = Behavior { sharing: Sharing::Transaction { reuse: true }, ..passes };
    let fresh = Behavior { sharing: Sharing::Transaction { reuse: false }, ..passes };
    let set = |behavior: Behavior| Behavior { options: Options::Set, ..behavior };
    let known = |behavior: Behavior| Behavior { options: Options::SetIfKnown, ..behavior };
    let dropped = |behavior: Behavior| Behavior { options: Options::Dropped, ..behavior };
    let pins = |word, reuse| Behavior { sharing: Sharing::UntilStatement { word, reuse }, ..passes };
    let quirk = |quirk, behavior: Behavior| Behavior { quirk: Some(quirk), ..behavior };
    let one = Behavior { sharing: Sharing::OneForAll, ..passes };
    let mut rows = vec![
        proxy("a backend for each client", passes, Accepted),
        proxy("a backend for each client", passes, Accepted).declared(),
        proxy("a backend for each client, no key data", quirk(Quirk::HidesKeyData, passes), Accepted),
        proxy("a backend for each client, options by SET", set(passes), Accepted),
        proxy("session pool, cold, known options by SET", known(session), Refused).only(Step::Canary),
        proxy("session pool, cold, known options by SET", known(session), Accepted).declared(),
        proxy("session pool, options by SET", set(session), Refused).state(State::Idle).only(Step::Age),
        proxy("session pool, options by SET", set(session), Accepted).state(State::Idle).declared(),
        proxy("session pool, options dropped", dropped(session), Refused).state(State::Idle),
        proxy("session pool, options dropped", dropped(session), Accepted).state(State::Idle).declared(),
        proxy("a backend for each transaction", fresh, Refused).only(Step::Stability),
        proxy("a backend for each transaction", fresh, Refused).declared(),
        proxy(
            "every second connection to another database",
            quirk(Quirk::AlternatesDatabase, passes),
            Refused,
        ),
        proxy("moves a session after 10 transactions", quirk(Quirk::MovesAfter(10), passes), Refused),
        proxy("moves a session after 3 transactions", quirk(Quirk::MovesAfter(3), passes), Refused),
        proxy("an old server: no idle_session_timeout", quirk(TOO_OLD, passes), Refused),
        proxy("an old server: no idle_session_timeout", quirk(TOO_OLD, passes), Refused).declared(),
        proxy("nobody may set client_connection_check_interval", quirk(MANAGED, passes), Accepted),
        proxy("nobody may set client_connection_check_interval", quirk(MANAGED, passes), Accepted).declared(),
    ];
    for (variant, behavior) in [
        ("transaction pool, options by SET", set(pooled)),
        ("transaction pool, options dropped", dropped(pooled)),
        ("transaction pool, answers the pid itself", quirk(Quirk::AnswersPid, set(pooled))),
        ("transaction pool, pins at an advisory lock, options by SET", set(pins("advisory", true))),
        ("a backend for each transaction, pins at an advisory lock", pins("advisory", false)),
        ("a backend for each transaction, pins at set_config", pins("set_config", false)),
        ("one session for all", one),
        ("one session for all, options by SET", set(one)),
    ] {
        for state in [State::Cold, State::Idle, State::Busy, State::Polluted] {
            rows.push(proxy(variant, behavior, Refused).state(state));
            rows.push(proxy(variant, behavior, Refused).state(state).declared());
        }
    }
    rows
}

fn changes() -> Vec<Row> {
    let changing = |name, variant: &str, door, change| {
        row(name, variant, door, Expected::Refused).state(State::Underway(change))
    };
    let proxy = |quirk| Door::Proxy(Behavior { quirk: Some(quirk), ..Behavior::default() });
    vec![
        changing(
            "imitated proxy",
            "outlives the backend",
            proxy(Quirk::OutlivesBackend),
            Change::BackendEnds,
        ),
        changing("imitated proxy", "moves a session", proxy(Quirk::MovesAfter(40)), Change::Time),
        changing("imitated proxy", "becomes a transaction pool", proxy(Quirk::PoolsAfter(40)), Change::Crowd),
        changing("PostgreSQL", "primary", Door::Server, Change::BackendEnds),
        changing(
            "PostgreSQL",
            "primary, wal_level kept low by the service",
            Door::HiddenLog,
            Change::BackendEnds,
        ),
        changing("tunnel", "plain TCP", Door::Tunnel, Change::PoolerInserted),
        changing("PostgreSQL", "promoted standby", Door::Promoted, Change::Demoted),
    ]
}

fn pgpools() -> Vec<Row> {
    let mut rows = Vec::new();
    for state in [State::Cold, State::Idle, State::Busy, State::Polluted] {
        for (cache, variant) in [(false, "connection_cache off"), (true, "connection_cache on")] {
            let door = Door::Pgpool { cache };
            // It keeps a backend only for a client with the same startup packet, and no two of ours are.
            rows.push(row("pgpool-II 4.3", variant, door, Expected::Accepted).state(state));
            rows.push(row("pgpool-II 4.3", variant, door, Expected::Accepted).state(state).declared());
        }
    }
    rows
}

fn pgbouncers() -> Vec<Row> {
    let mut rows = Vec::new();
    for version in [PgBouncerVersion::V1_18, PgBouncerVersion::V1_24] {
        for state in [State::Idle, State::Polluted] {
            let (name, door) = (pgbouncer_name(version), Door::UncleanPgBouncer(version));
            let unclean = row(name, "session mode, no reset query", door, Expected::Refused);
            rows.push(unclean.state(state).declared());
        }
        for mode in [PoolMode::Transaction, PoolMode::Statement, PoolMode::Session] {
            for size in [1, 2, 3, 10] {
                for round_robin in [false, true] {
                    for tolerant in [false, true] {
                        let door = Door::PgBouncer { version, mode, size, round_robin, tolerant };
                        for state in [State::Idle, State::Busy, State::Polluted] {
                            rows.extend(pgbouncer(door, state));
                        }
                    }
                }
            }
        }
    }
    rows
}

/// As it is, and declared where that makes a difference: then no startup options are sent.
fn pgbouncer_name(version: PgBouncerVersion) -> &'static str {
    match version {
        PgBouncerVersion::V1_18 => "PgBouncer 1.18",
        PgBouncerVersion::V1_24 => "PgBouncer 1.24",
    }
}

fn pgbouncer(door: Door, state: State) -> Vec<Row> {
    let Door::PgBouncer { version, mode, size, round_robin, tolerant } = door else { return Vec::new() };
    let name = pgbouncer_name(version);
    let word = match mode {
        PoolMode::Transaction => "transaction",
        PoolMode::Statement => "statement",
        PoolMode::Session => "session",
    };
    let turn = if round_robin { ", round robin" } else { "" };
    let options = if tolerant { ", options ignored" } else { "" };
    let variant = format!("{word} mode, {size} backends{turn}{options}");
    let mut rows = vec![row(name, &*variant, door, Expected::Refused).state(state)];
    if !tolerant {
        // With one backend there is no second session, and nobody could stand by.
        let sessions = mode == PoolMode::Session && size > 1;
        let expected = if sessions { Expected::Accepted } else { Expected::Refused };
        rows.push(row(name, variant, door, expected).state(state).declared());
    }
    rows
}
