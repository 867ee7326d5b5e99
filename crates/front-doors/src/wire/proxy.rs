//! A proxy in front of a server, on a free port of 127.0.0.1.

use super::{
    backend::{Backend, Refusal},
    behavior::{Behavior, Sharing},
    client::Client,
};
use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
};
use tokio::{
    net::TcpListener,
    sync::{OwnedSemaphorePermit, Semaphore},
    task::{AbortHandle, JoinSet},
};

/// More than any test needs.
const BACKENDS: usize = 20;

/// A running proxy. Ends with all of its connections on drop.
#[derive(Debug)]
pub struct Proxy {
    port: u16,
    house: Arc<House>,
    task: AbortHandle,
}

impl Proxy {
    /// Starts one that behaves as given, in front of the server on this port of 127.0.0.1.
    ///
    /// # Panics
    ///
    /// When no port is free.
    pub async fn start(behavior: Behavior, server: u16) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("a free port");
        let port = listener.local_addr().expect("an address").port();
        let house = Arc::new(House::new(behavior, server));
        let shared = Arc::clone(&house);
        let task = tokio::spawn(async move {
            // Connections end with this task.
            let mut connections = JoinSet::new();
            loop {
                let Ok((socket, _)) = listener.accept().await else { continue };
                while connections.try_join_next().is_some() {}
                // A failure ends the connection, as it would end a proxy's.
                connections.spawn(Client::serve(socket, Arc::clone(&shared)));
            }
        });
        Self { port, house, task: task.abort_handle() }
    }

    /// Where it listens.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// How many backends wait for a client.
    pub fn idle(&self) -> usize {
        self.house.idle.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// URL of the database `postgres` through it.
    pub fn url(&self) -> String {
        self.url_of("postgres")
    }

    /// URL of another database through it.
    pub fn url_of(&self, database: &str) -> String {
        format!("postgres://postgres@127.0.0.1:{}/{database}", self.port)
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// What the connections of one proxy share.
#[derive(Debug)]
pub(super) struct House {
    pub(super) behavior: Behavior,
    server: u16,
    idle: Mutex<Vec<Backend>>,
    permits: Arc<Semaphore>,
    clients: AtomicUsize,
}

/// A backend that is taken from the pool, with its place in it.
#[derive(Debug)]
pub(super) struct Taken {
    pub(super) backend: Backend,
    _place: OwnedSemaphorePermit,
}

impl House {
    fn new(behavior: Behavior, server: u16) -> Self {
        let size = if behavior.sharing == Sharing::OneForAll { 1 } else { BACKENDS };
        Self {
            behavior,
            server,
            idle: Mutex::new(Vec::new()),
            permits: Arc::new(Semaphore::new(size)),
            clients: AtomicUsize::new(0),
        }
    }

    /// The client's number, counted from 0.
    pub(super) fn greet(&self) -> usize {
        self.clients.fetch_add(1, Ordering::Relaxed)
    }

    /// The backend that was given back last, or else a new one.
    pub(super) async fn take(&self, parameters: &BTreeMap<String, String>) -> Result<Taken, Refusal> {
        let place = Arc::clone(&self.permits).acquire_owned().await.map_err(|_closed| Refusal::Gone)?;
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let backend = match idle {
            Some(backend) => backend,
            None => Backend::connect(self.server, parameters.clone()).await?,
        };
        Ok(Taken { backend, _place: place })
    }

    /// Takes a backend back, for the next one who asks.
    pub(super) fn give_back(&self, taken: Taken) {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).push(taken.backend);
    }
}
