//! Tunnels that pass bytes on: plain, ending TLS, in turn to several servers, cutting off.

use rustls::{ServerConfig, pki_types::PrivateKeyDer};
use std::{
    io,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
};
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, split},
    net::{TcpListener, TcpStream},
    sync::Notify,
    task::{AbortHandle, JoinSet},
};
use tokio_rustls::TlsAcceptor;

/// A client's request for TLS: length, then a code that is no protocol version.
const TLS_REQUEST: [u8; 8] = [0, 0, 0, 8, 4, 210, 22, 47];

/// A tunnel on a free port of 127.0.0.1. Ends with all of its connections on drop.
#[derive(Debug)]
pub struct Tunnel {
    port: u16,
    state: Arc<State>,
    task: AbortHandle,
}

#[derive(Debug)]
struct State {
    /// Where connections go, in turn.
    targets: Mutex<Vec<u16>>,
    accepted: AtomicUsize,
    /// Bytes that may still pass, both directions of all connections together.
    budget: AtomicUsize,
    cut: Notify,
    /// Bytes that have passed.
    passed: AtomicUsize,
}

impl Tunnel {
    /// Passes on what comes, byte for byte.
    pub async fn plain(target: u16) -> Self {
        Self::start(vec![target], usize::MAX, None).await
    }

    /// Takes TLS from the client, with a certificate of its own, and speaks plainly to the server.
    pub async fn ending_tls(target: u16) -> Self {
        let certified = rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("a certificate");
        let key = PrivateKeyDer::try_from(certified.signing_key.serialize_der()).expect("a key");
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("versions")
            .with_no_client_auth()
            .with_single_cert(vec![certified.cert.der().clone()], key)
            .expect("a server configuration");
        Self::start(vec![target], usize::MAX, Some(TlsAcceptor::from(Arc::new(config)))).await
    }

    /// Sends each connection to the next server.
    pub async fn in_turn(targets: &[u16]) -> Self {
        Self::start(targets.to_vec(), usize::MAX, None).await
    }

    /// Cuts all connections off once so many bytes have passed, in both directions together.
    pub async fn cutting_after(target: u16, bytes: usize) -> Self {
        Self::start(vec![target], bytes, None).await
    }

    /// Where it listens.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// URL of the database `postgres` through it, without TLS.
    pub fn url(&self) -> String {
        self.url_of("postgres")
    }

    /// URL of another database through it, without TLS.
    pub fn url_of(&self, database: &str) -> String {
        format!("postgres://postgres@127.0.0.1:{}/{database}?sslmode=disable", self.port)
    }

    /// Sends every new connection elsewhere, as a name that moves does. Those that are open stay.
    pub fn point_at(&self, target: u16) {
        *self.state.targets.lock().unwrap_or_else(PoisonError::into_inner) = vec![target];
    }

    /// How many bytes have passed, in both directions together.
    pub fn passed(&self) -> usize {
        self.state.passed.load(Ordering::Relaxed)
    }

    async fn start(targets: Vec<u16>, budget: usize, tls: Option<TlsAcceptor>) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("a free port");
        let port = listener.local_addr().expect("an address").port();
        let state = Arc::new(State {
            targets: Mutex::new(targets),
            accepted: AtomicUsize::new(0),
            budget: AtomicUsize::new(budget),
            cut: Notify::new(),
            passed: AtomicUsize::new(0),
        });
        let task = tokio::spawn(accept(listener, Arc::clone(&state), tls)).abort_handle();
        Self { port, state, task }
    }
}

impl Drop for Tunnel {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn accept(listener: TcpListener, state: Arc<State>, tls: Option<TlsAcceptor>) {
    // Connections end with this task.
    let mut connections = JoinSet::new();
    loop {
        let Ok((client, _)) = listener.accept().await else { continue };
        while connections.try_join_next().is_some() {}
        let (state, tls) = (Arc::clone(&state), tls.clone());
        connections.spawn(async move {
            // Whatever goes wrong, the connection ends; that is all there is to tell.
            let _ended = connect(client, &state, tls).await;
        });
    }
}

async fn connect(mut client: TcpStream, state: &State, tls: Option<TlsAcceptor>) -> io::Result<()> {
    client.set_nodelay(true)?;
    let target = {
        let targets = state.targets.lock().unwrap_or_else(PoisonError::into_inner);
        targets[state.accepted.fetch_add(1, Ordering::Relaxed) % targets.len()]
    };
    let server = TcpStream::connect(("127.0.0.1", target)).await?;
    server.set_nodelay(true)?;
    let Some(acceptor) = tls else { return join(client, server, state).await };
    let mut request = [0; TLS_REQUEST.len()];
    client.read_exact(&mut request).await?;
    if request != TLS_REQUEST {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "the client doesn't ask for TLS"));
    }
    client.write_all(b"S").await?;
    join(acceptor.accept(client).await?, server, state).await
}

async fn join(
    client: impl AsyncRead + AsyncWrite,
    server: impl AsyncRead + AsyncWrite,
    state: &State,
) -> io::Result<()> {
    let ((from_client, to_client), (from_server, to_server)) = (split(client), split(server));
    tokio::select! {
        () = state.cut.notified() => Ok(()),
        ended = pass(from_client, to_server, state) => ended,
        ended = pass(from_server, to_client, state) => ended,
    }
}

async fn pass(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    state: &State,
) -> io::Result<()> {
    let mut buffer = vec![0; 16 * 1024];
    loop {
        let read = from.read(&mut buffer).await?;
        if read == 0 {
            return Ok(());
        }
        let take = |left: usize| Some(left.saturating_sub(read));
        let left = state.budget.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).unwrap_or(0);
        let allowed = read.min(left);
        to.write_all(&buffer[..allowed]).await?;
        to.flush().await?;
        state.passed.fetch_add(allowed, Ordering::Relaxed);
        if allowed < read {
            state.cut.notify_waiters();
            return Ok(());
        }
    }
}
