//! A socket that carries messages.

use bytes::BytesMut;
use pgwire::messages::{DecodeContext, PgWireBackendMessage, PgWireFrontendMessage, ProtocolVersion};
use std::io;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

/// A socket, what was read ahead from it, and where the protocol is.
#[derive(Debug)]
pub(super) struct Framed {
    socket: TcpStream,
    ahead: BytesMut,
    context: DecodeContext,
}

impl Framed {
    /// A socket on which a client's first message is awaited.
    pub(super) fn of_client(socket: TcpStream) -> Self {
        Self { socket, ahead: BytesMut::new(), context: DecodeContext::new(ProtocolVersion::PROTOCOL3_0) }
    }

    /// A socket to a server, which speaks when it is spoken to.
    pub(super) fn to_server(socket: TcpStream) -> Self {
        let mut framed = Self::of_client(socket);
        framed.begin();
        framed
    }

    /// The client won't ask for encryption any more.
    pub(super) fn is_plain(&mut self) {
        self.context.awaiting_frontend_ssl = false;
    }

    /// The startup message is over.
    pub(super) fn begin(&mut self) {
        self.is_plain();
        self.context.awaiting_frontend_startup = false;
    }

    /// The client's next message, `None` when it left. Cancel-safe.
    pub(super) async fn next_of_client(&mut self) -> io::Result<Option<PgWireFrontendMessage>> {
        loop {
            let decoded = PgWireFrontendMessage::decode(&mut self.ahead, &self.context);
            if let Some(message) = decoded.map_err(io::Error::other)? {
                return Ok(Some(message));
            }
            if self.socket.read_buf(&mut self.ahead).await? == 0 {
                return Ok(None);
            }
        }
    }

    /// The server's next message, `None` when it left. Cancel-safe.
    pub(super) async fn next_of_server(&mut self) -> io::Result<Option<PgWireBackendMessage>> {
        loop {
            let decoded = PgWireBackendMessage::decode(&mut self.ahead, &self.context);
            if let Some(message) = decoded.map_err(io::Error::other)? {
                return Ok(Some(message));
            }
            if self.socket.read_buf(&mut self.ahead).await? == 0 {
                return Ok(None);
            }
        }
    }

    pub(super) async fn answer(&mut self, messages: &[PgWireBackendMessage]) -> io::Result<()> {
        let mut bytes = BytesMut::new();
        for message in messages {
            message.encode(&mut bytes).map_err(io::Error::other)?;
        }
        self.socket.write_all(&bytes).await
    }

    pub(super) async fn ask(&mut self, messages: &[PgWireFrontendMessage]) -> io::Result<()> {
        let mut bytes = BytesMut::new();
        for message in messages {
            message.encode(&mut bytes).map_err(io::Error::other)?;
        }
        self.socket.write_all(&bytes).await
    }

    /// One byte outside of any message: the answer to a request for encryption.
    pub(super) async fn byte(&mut self, byte: u8) -> io::Result<()> {
        self.socket.write_all(&[byte]).await
    }
}
