//! How each front door is made.

use crate::{Behavior, Proxy, Tunnel};
use sqlx::{Connection as _, PgConnection, postgres::PgConnectOptions};
use std::{
    any::Any,
    sync::atomic::{AtomicUsize, Ordering},
};
use tenure_testkit::{PgBouncer, PgBouncerVersion, Pgpool, PoolMode, TestServer};

/// What answers on the lease address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Door {
    /// The server itself.
    Server,
    /// The server itself, of this major version.
    Major(u32),
    /// A server that streams from another one.
    Standby,
    /// A standby that was promoted.
    Promoted,
    /// A primary whose database begins transactions read-only.
    ReadOnly,
    /// A server whose advisory-lock functions always say yes.
    StubLocks,
    /// A server that doesn't show where its log is, and so no timeline.
    HiddenLog,
    /// A server that has no advisory locks.
    NoLocks,
    /// Nothing listens there.
    Nobody,
    /// A tunnel that passes bytes on.
    Tunnel,
    /// A tunnel that ends TLS.
    TlsTunnel,
    /// A balancer that sends each connection to the next of two servers.
    TwoServers,
    /// A proxy that speaks the protocol.
    Proxy(Behavior),
    /// PgBouncer.
    PgBouncer {
        /// Which one.
        version: PgBouncerVersion,
        /// When it takes a backend back.
        mode: PoolMode,
        /// How many backends it has.
        size: u32,
        /// `server_round_robin`.
        round_robin: bool,
        /// Whether unknown startup options are ignored, instead of refused.
        tolerant: bool,
    },
    /// PgBouncer in session mode that doesn't clean what it hands on.
    UncleanPgBouncer(PgBouncerVersion),
    /// pgpool-II, which keeps a backend for the next client or doesn't.
    Pgpool {
        /// `connection_cache`.
        cache: bool,
    },
}

/// Each of pgpool-II's processes serves one client and keeps a backend of its own.
const CHILDREN: u32 = 10;

/// What rows that run one after the other share.
#[derive(Debug)]
pub struct Lane {
    server: TestServer,
    own_databases: AtomicUsize,
}

impl Lane {
    /// A lane with a server of its own.
    pub fn start() -> Self {
        Self { server: TestServer::start(), own_databases: AtomicUsize::new(0) }
    }

    /// A database that no other row sees, for doors that change it.
    async fn own_database(&self) -> String {
        let name = format!("own{}", self.own_databases.fetch_add(1, Ordering::Relaxed));
        self.server.create_database(&name).await;
        name
    }
}

/// A door that stands open. What it needs ends on drop.
pub struct Open {
    /// The lease address.
    pub url: String,
    /// The address of the server itself, to look behind the door.
    pub direct: String,
    /// Whether backends outlive their clients.
    pub pooled: bool,
    /// How many clients at once have to come until every next one finds a backend.
    pub(super) clients: usize,
    /// The tunnel, when there is one to be moved.
    pub(super) tunnel: Option<Tunnel>,
    /// The proxy, when there is one.
    pub(super) proxy: Option<Proxy>,
    /// The server, when it is this door's alone.
    pub(super) server: Option<TestServer>,
    /// What only has to go on.
    kept: Option<Box<dyn Any + Send>>,
}

impl Open {
    /// The door's port on 127.0.0.1.
    ///
    /// # Panics
    ///
    /// Never: the address is one of ours.
    pub fn port(&self) -> u16 {
        self.url.parse::<PgConnectOptions>().expect("a URL").get_port()
    }

    fn move_to(&mut self, server: TestServer) {
        self.url = server.url();
        self.direct.clone_from(&self.url);
        self.server = Some(server);
    }

    fn lead_through(&mut self, tunnel: Tunnel) {
        self.url = tunnel.url();
        self.tunnel = Some(tunnel);
    }

    fn pool(&mut self, url: String, pooler: impl Any + Send) {
        self.url = url;
        self.pooled = true;
        self.kept = Some(Box::new(pooler));
    }
}

const STUBS: &str = "\
create or replace function pg_catalog.pg_try_advisory_lock(bigint) returns boolean language sql as 'select true';
create or replace function pg_catalog.pg_advisory_unlock(bigint) returns boolean language sql as 'select true'";
const NO_LOCKS: &str = "alter function pg_catalog.pg_try_advisory_lock(bigint) rename to another_name";

/// Fails with the code that Aurora gives.
const HIDDEN_LOG: &str = "\
create sequence never_used;
create or replace function pg_catalog.pg_current_wal_lsn() returns pg_lsn language sql as
$$ select currval('public.never_used')::text::pg_lsn $$";

impl Door {
    /// Makes it.
    ///
    /// # Panics
    ///
    /// When something it needs isn't there.
    pub async fn open(self, lane: &Lane) -> Open {
        let database = match self {
            // pgpool-II never keeps a backend of the database `postgres`.
            Door::ReadOnly | Door::StubLocks | Door::NoLocks | Door::HiddenLog | Door::Pgpool { .. } => {
                lane.own_database().await
            }
            _ => "postgres".to_owned(),
        };
        let server = &lane.server;
        let direct = server.url_of(&database);
        let mut open = Open {
            url: direct.clone(),
            direct,
            pooled: false,
            clients: 1,
            tunnel: None,
            proxy: None,
            server: None,
            kept: None,
        };
        match self {
            Door::Server => {}
            Door::Nobody => {
                open.url = format!("postgres://postgres@127.0.0.1:{}/x", tenure_testkit::free_port());
            }
            Door::StubLocks => run(&open.direct, STUBS).await,
            Door::HiddenLog => run(&open.direct, HIDDEN_LOG).await,
            Door::NoLocks => run(&open.direct, NO_LOCKS).await,
            Door::ReadOnly => {
                let read_only = format!("alter database {database} set default_transaction_read_only = on");
                run(&open.direct, &read_only).await;
            }
            Door::Major(version) => open.move_to(TestServer::start_major(version)),
            Door::Standby | Door::Promoted => {
                let standby = server.start_standby();
                if self == Door::Promoted {
                    standby.promote();
                }
                open.move_to(standby);
            }
            Door::Tunnel => open.lead_through(Tunnel::plain(server.port()).await),
            Door::TlsTunnel => {
                open.lead_through(Tunnel::ending_tls(server.port()).await);
                open.url = open.url.replace("sslmode=disable", "sslmode=require");
            }
            Door::TwoServers => {
                let other = TestServer::start();
                open.lead_through(Tunnel::in_turn(&[server.port(), other.port()]).await);
                open.server = Some(other);
            }
            Door::Proxy(behavior) => {
                let proxy = Proxy::start(behavior, server.port()).await;
                open.url = proxy.url_of(&database);
                open.pooled = behavior.reuses();
                open.proxy = Some(proxy);
            }
            Door::PgBouncer { version, mode, size, round_robin, tolerant } => {
                let ignored = if tolerant { "extra_float_digits,options" } else { "" };
                let bouncer = PgBouncer::builder(server)
                    .version(version)
                    .mode(mode)
                    .pool_size(size)
                    .round_robin(round_robin)
                    .ignore_startup_parameters(ignored)
                    .start()
                    .await;
                open.pool(bouncer.url_of(&database), bouncer);
            }
            Door::UncleanPgBouncer(version) => {
                let builder = PgBouncer::builder(server).version(version).mode(PoolMode::Session);
                let bouncer = builder.reset(false).start().await;
                open.pool(bouncer.url_of(&database), bouncer);
            }
            Door::Pgpool { cache } => {
                let pgpool = Pgpool::start(server.port(), cache, CHILDREN).await;
                open.pool(pgpool.url_of(&database), pgpool);
                open.pooled = cache;
                open.clients = CHILDREN as usize;
            }
        }
        open
    }
}

pub(super) async fn run(url: &str, sql: &str) {
    let mut connection = PgConnection::connect(url).await.expect("the server answers");
    sqlx::raw_sql(sqlx::AssertSqlSafe(sql.to_owned())).execute(&mut connection).await.expect("it agrees");
    connection.close().await.expect("the session ends");
}
