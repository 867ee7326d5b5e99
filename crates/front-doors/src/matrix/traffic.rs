//! Other clients of a door.

use super::door::Open;
use sqlx::{Connection as _, PgConnection, postgres::PgConnectOptions};
use std::time::Duration;
use tenure_testkit::eventually;
use tokio::{
    sync::watch,
    task::JoinSet,
    time::{sleep, timeout},
};

/// How many clients are at work.
const CLIENTS: usize = 3;
/// Longer than it takes to be let in.
const PATIENCE: Duration = Duration::from_secs(5);

fn options(url: &str) -> PgConnectOptions {
    let options: PgConnectOptions = url.parse().expect("a URL");
    // Stock poolers refuse this startup parameter.
    options.extra_float_digits(None).application_name("another client")
}

/// Clients come, ask something and go: a pool has backends from now on.
pub async fn warm_up(open: &Open) {
    // A door may not let them in; then it stays as it is.
    let _cold = timeout(PATIENCE, async {
        let mut connections = Vec::new();
        for _ in 0..open.clients {
            let mut connection = PgConnection::connect_with(&options(&open.url)).await?;
            sqlx::raw_sql("select 1").execute(&mut connection).await?;
            connections.push(connection);
        }
        for connection in connections {
            connection.close().await?;
        }
        Ok::<_, sqlx::Error>(())
    })
    .await;
    if let Some(proxy) = open.proxy.as_ref().filter(|_| open.pooled) {
        eventually(PATIENCE, || async { if proxy.idle() > 0 { Ok(()) } else { Err("the pool is empty") } })
            .await;
    }
}

/// One client comes and leaves a setting, a temporary table and a lock on its session.
pub async fn make_dirty(open: &Open) {
    let _not_let_in = timeout(PATIENCE, async {
        let mut connection = PgConnection::connect_with(&options(&open.url)).await?;
        for statement in [
            "select set_config('tenure.stamp', 'somebody', false)",
            "create temporary table left_behind (it integer)",
            "select pg_advisory_lock(4711)",
        ] {
            sqlx::raw_sql(statement).execute(&mut connection).await?;
        }
        connection.close().await
    })
    .await;
}

/// Clients at work, until they are stopped.
pub(super) struct Traffic {
    clients: JoinSet<()>,
    stop: watch::Sender<bool>,
}

impl Traffic {
    pub(super) fn start(open: &Open) -> Self {
        let (stop, stopped) = watch::channel(false);
        let mut clients = JoinSet::new();
        for _ in 0..CLIENTS {
            let (options, stopped) = (options(&open.url), stopped.clone());
            clients.spawn(async move {
                while !*stopped.borrow() {
                    let _failed = timeout(PATIENCE, visit(&options)).await;
                }
            });
        }
        Self { clients, stop }
    }

    pub(super) async fn stop(self) {
        self.stop.send_replace(true);
        self.clients.join_all().await;
    }
}

/// A few transactions on one connection: the next visit is somebody else's turn.
async fn visit(options: &PgConnectOptions) -> Result<(), sqlx::Error> {
    let mut connection = PgConnection::connect_with(options).await?;
    for _ in 0..5 {
        sqlx::raw_sql("select pg_sleep(0.002)").execute(&mut connection).await?;
        sleep(Duration::from_millis(1)).await;
    }
    connection.close().await
}
