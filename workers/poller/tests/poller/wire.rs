//! A relay that counts what a client sends to the server.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream, tcp::OwnedReadHalf},
    task::JoinHandle,
};

/// Frontend messages by their type: `Q` is a simple query, `P` a parse, `S` a sync.
pub(crate) type Counts = BTreeMap<char, usize>;

pub(crate) struct Relay {
    pub(crate) port: u16,
    counts: Arc<Mutex<Counts>>,
    task: JoinHandle<()>,
}

impl Relay {
    pub(crate) async fn to(server: String) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let counts: Arc<Mutex<Counts>> = Arc::default();
        let shared = Arc::clone(&counts);
        let task = tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let (from_client, mut to_client) = client.into_split();
                let (mut from_server, to_server) = TcpStream::connect(&server).await.unwrap().into_split();
                tokio::spawn(async move { tokio::io::copy(&mut from_server, &mut to_client).await });
                tokio::spawn(count(from_client, to_server, Arc::clone(&shared)));
            }
        });
        Self { port, counts, task }
    }

    /// What was sent since the last call.
    pub(crate) fn take(&self) -> Counts {
        std::mem::take(&mut *self.counts.lock().unwrap())
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Passes messages on until the client closes. Messages without a type come first: a request for TLS, to
/// which the server answers no, and the startup packet.
async fn count(
    mut client: OwnedReadHalf,
    mut server: tokio::net::tcp::OwnedWriteHalf,
    counts: Arc<Mutex<Counts>>,
) -> std::io::Result<()> {
    const STARTUP: u32 = 196_608;
    loop {
        let length = client.read_u32().await?;
        let mut rest = vec![0; length as usize - 4];
        client.read_exact(&mut rest).await?;
        server.write_all(&[&length.to_be_bytes()[..], &rest].concat()).await?;
        if rest[..4] == STARTUP.to_be_bytes() {
            break;
        }
    }
    loop {
        let kind = client.read_u8().await?;
        let length = client.read_u32().await?;
        let mut rest = vec![0; length as usize - 4];
        client.read_exact(&mut rest).await?;
        *counts.lock().unwrap().entry(char::from(kind)).or_default() += 1;
        server.write_all(&[&[kind][..], &length.to_be_bytes(), &rest].concat()).await?;
    }
}
