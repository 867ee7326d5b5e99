//! A proxy's connection to the server.

use super::framed::Framed;
use pgwire::messages::{
    PgWireBackendMessage, PgWireFrontendMessage,
    response::{ReadyForQuery, TransactionStatus},
    simplequery::Query,
    startup::{BackendKeyData, ParameterStatus, Startup},
};
use std::{collections::BTreeMap, io};
use tokio::net::TcpStream;

/// See the module.
#[derive(Debug)]
pub(super) struct Backend {
    framed: Framed,
    pub(super) settings: Vec<(String, String)>,
    pub(super) key_data: Option<BackendKeyData>,
    /// Whether it is outside of a transaction.
    pub(super) idle: bool,
}

/// Why a backend can't be had: what the server said, for the client.
#[derive(Debug)]
pub(super) enum Refusal {
    Said(PgWireBackendMessage),
    Gone,
}

impl Backend {
    pub(super) async fn connect(port: u16, parameters: BTreeMap<String, String>) -> Result<Self, Refusal> {
        Self::try_connect(port, parameters).await.unwrap_or(Err(Refusal::Gone))
    }

    async fn try_connect(
        port: u16,
        parameters: BTreeMap<String, String>,
    ) -> io::Result<Result<Self, Refusal>> {
        let socket = TcpStream::connect(("127.0.0.1", port)).await?;
        socket.set_nodelay(true)?;
        let mut startup = Startup::new();
        startup.parameters = parameters;
        let framed = Framed::to_server(socket);
        let mut backend = Self { framed, settings: Vec::new(), key_data: None, idle: true };
        backend.framed.ask(&[PgWireFrontendMessage::Startup(startup)]).await?;
        while let Some(message) = backend.framed.next_of_server().await? {
            match message {
                PgWireBackendMessage::ParameterStatus(ParameterStatus { name, value, .. }) => {
                    backend.settings.push((name, value));
                }
                PgWireBackendMessage::BackendKeyData(data) => backend.key_data = Some(data),
                PgWireBackendMessage::ReadyForQuery(_) => return Ok(Ok(backend)),
                PgWireBackendMessage::ErrorResponse(_) => return Ok(Err(Refusal::Said(message))),
                _ => {}
            }
        }
        Ok(Err(Refusal::Gone))
    }

    /// Runs statements of the proxy's own, whose answers no client sees.
    pub(super) async fn run(&mut self, sql: &str) -> io::Result<()> {
        self.ask(&[PgWireFrontendMessage::Query(Query::new(sql.to_owned()))]).await?;
        loop {
            if let PgWireBackendMessage::ReadyForQuery(_) = self.next().await? {
                return Ok(());
            }
        }
    }

    pub(super) async fn ask(&mut self, messages: &[PgWireFrontendMessage]) -> io::Result<()> {
        self.framed.ask(messages).await
    }

    /// The next message. An end of the connection is an error. Cancel-safe.
    pub(super) async fn next(&mut self) -> io::Result<PgWireBackendMessage> {
        let message = self.framed.next_of_server().await?;
        let message = message.ok_or_else(|| io::Error::from(io::ErrorKind::UnexpectedEof))?;
        if let PgWireBackendMessage::ReadyForQuery(ReadyForQuery { status, .. }) = &message {
            self.idle = matches!(status, TransactionStatus::Idle);
        }
        Ok(message)
    }
}
