//! One client of a proxy.

use super::{
    backend::Refusal,
    behavior::{Options, Quirk, Sharing},
    framed::Framed,
    proxy::{House, Taken},
};
use bytes::{BufMut as _, BytesMut};
use pgwire::messages::{
    PgWireBackendMessage as Answer, PgWireFrontendMessage as Asked, SslNegotiationMetaMessage,
    data::{DataRow, FieldDescription, RowDescription},
    response::{CommandComplete, ErrorResponse, ReadyForQuery, TransactionStatus},
    startup::{Authentication, BackendKeyData, ParameterStatus},
};
use std::{collections::BTreeMap, io, sync::Arc};
use tokio::net::TcpStream;

/// What a proxy says when a bare `SELECT pg_backend_pid()` is asked.
const OWN_PID: &str = "4242";
/// PostgreSQL's type `int4`.
const INT4: u32 = 23;

/// See the module.
pub(super) struct Client {
    socket: Framed,
    house: Arc<House>,
    /// What its backends are told when they are made.
    parameters: BTreeMap<String, String>,
    /// What they are told by SET when they are taken.
    set: Option<String>,
    taken: Option<Taken>,
    pinned: bool,
    transactions: usize,
}

impl Client {
    /// Serves one connection until it ends.
    pub(super) async fn serve(socket: TcpStream, house: Arc<House>) -> io::Result<()> {
        socket.set_nodelay(true)?;
        let Some(mut client) = Self::greet(Framed::of_client(socket), house).await? else { return Ok(()) };
        let ended = client.talk().await;
        client.leave().await?;
        ended
    }

    /// Reads the startup packet, and answers as a server would.
    async fn greet(mut socket: Framed, house: Arc<House>) -> io::Result<Option<Self>> {
        let mut parameters = loop {
            match socket.next_of_client().await? {
                Some(Asked::SslNegotiation(SslNegotiationMetaMessage::None)) => socket.is_plain(),
                Some(Asked::SslNegotiation(_)) => socket.byte(b'N').await?,
                Some(Asked::Startup(startup)) => break startup.parameters,
                _ => return Ok(None),
            }
        };
        socket.begin();
        let number = house.greet();
        let behavior = house.behavior;
        if behavior.quirk == Some(Quirk::AlternatesDatabase) && number % 2 == 1 {
            parameters.insert("database".to_owned(), "template1".to_owned());
        }
        if let Some(Quirk::RefusesSetting { name, code }) = behavior.quirk
            && parameters.get("options").is_some_and(|options| options.contains(name))
        {
            socket.answer(&[refused("FATAL", name, code)]).await?;
            return Ok(None);
        }
        let mut set = None;
        if behavior.options != Options::Forwarded {
            let options = parameters.remove("options").unwrap_or_default();
            set = statements(&options, behavior.options);
        }
        let pinned = matches!(behavior.sharing, Sharing::Session { .. });
        let mut client = Self { socket, house, parameters, set, taken: None, pinned, transactions: 0 };
        if let Err(refusal) = client.take().await {
            if let Refusal::Said(error) = refusal {
                client.socket.answer(&[error]).await?;
            }
            return Ok(None);
        }
        let mut greeting = vec![Answer::Authentication(Authentication::Ok)];
        if let Some(taken) = &client.taken {
            for (name, value) in &taken.backend.settings {
                greeting.push(Answer::ParameterStatus(ParameterStatus::new(name.clone(), value.clone())));
            }
            if let Some(BackendKeyData { pid, secret_key, .. }) = &taken.backend.key_data
                && behavior.quirk != Some(Quirk::HidesKeyData)
            {
                greeting.push(Answer::BackendKeyData(BackendKeyData::new(*pid, secret_key.clone())));
            }
        }
        greeting.push(ready());
        client.socket.answer(&greeting).await?;
        client.give_back();
        Ok(Some(client))
    }

    fn has(&self, quirk: Quirk) -> bool {
        self.house.behavior.quirk == Some(quirk)
    }

    async fn talk(&mut self) -> io::Result<()> {
        while let Some(asked) = self.listen().await? {
            if self.has(Quirk::AnswersPid) && is_bare_pid(&asked) {
                self.socket.answer(&own_pid()).await?;
                continue;
            }
            if let Some(Quirk::RefusesSetting { name, code }) = self.house.behavior.quirk
                && asked.iter().any(|message| statement(message).contains(&format!("set_config('{name}'")))
            {
                self.socket.answer(&[refused("ERROR", name, code), ready()]).await?;
                continue;
            }
            if let Sharing::UntilStatement { word, .. } = self.house.behavior.sharing {
                self.pinned |= asked.iter().any(|message| statement(message).to_lowercase().contains(word));
            }
            if let Err(refusal) = self.take().await {
                return Err(io::Error::other(format!("{refusal:?}")));
            }
            match self.relay(asked).await {
                Err(_gone) if self.has(Quirk::OutlivesBackend) => {
                    self.taken = None;
                    self.socket.answer(&[lost(), ready()]).await?;
                }
                other => other?,
            }
            self.give_back();
        }
        Ok(())
    }

    /// What the client asks next, up to the point where it waits for the answer. Meanwhile whatever the
    /// backend says is passed on.
    async fn listen(&mut self) -> io::Result<Option<Vec<Asked>>> {
        let outlives = self.has(Quirk::OutlivesBackend);
        let mut asked = Vec::new();
        loop {
            let message = match &mut self.taken {
                None => self.socket.next_of_client().await?,
                Some(taken) => tokio::select! {
                    message = self.socket.next_of_client() => message?,
                    said = taken.backend.next() => {
                        match said {
                            Ok(said) if !outlives => {
                                self.socket.answer(&[said]).await?;
                            }
                            Err(gone) if !outlives => return Err(gone),
                            Ok(_farewell) => {}
                            Err(_gone) => self.taken = None,
                        }
                        continue;
                    }
                },
            };
            match message {
                None | Some(Asked::Terminate(_)) => return Ok(None),
                Some(message) => {
                    let waits = matches!(message, Asked::Query(_) | Asked::Sync(_));
                    asked.push(message);
                    if waits {
                        return Ok(Some(asked));
                    }
                }
            }
        }
    }

    async fn relay(&mut self, asked: Vec<Asked>) -> io::Result<()> {
        let Some(taken) = &mut self.taken else { return Err(io::ErrorKind::NotConnected.into()) };
        taken.backend.ask(&asked).await?;
        loop {
            let said = taken.backend.next().await?;
            let over = matches!(said, Answer::ReadyForQuery(_));
            self.socket.answer(&[said]).await?;
            if over {
                break;
            }
        }
        self.transactions += usize::from(taken.backend.idle);
        if self.has(Quirk::MovesAfter(self.transactions)) {
            self.taken = None;
        }
        Ok(())
    }

    /// Has a backend from now on.
    async fn take(&mut self) -> Result<(), Refusal> {
        if self.taken.is_none() {
            let mut taken = self.house.take(&self.parameters).await?;
            if let Some(set) = &self.set {
                taken.backend.run(set).await.map_err(|_| Refusal::Gone)?;
            }
            self.taken = Some(taken);
        }
        Ok(())
    }

    /// Lets the backend go, if this is the moment.
    fn give_back(&mut self) {
        let idle = self.taken.as_ref().is_some_and(|taken| taken.backend.idle);
        if let Some(Quirk::PoolsAfter(limit)) = self.house.behavior.quirk
            && self.transactions >= limit
            && idle
        {
            return self.return_it();
        }
        match self.house.behavior.sharing {
            Sharing::OneForAll => self.return_it(),
            Sharing::Transaction { reuse } | Sharing::UntilStatement { reuse, .. }
                if idle && !self.pinned =>
            {
                if reuse {
                    self.return_it();
                } else {
                    self.taken = None;
                }
            }
            _ => {}
        }
    }

    fn return_it(&mut self) {
        if let Some(taken) = self.taken.take() {
            self.house.give_back(taken);
        }
    }

    /// The client has left. A backend in a transaction ends with it; one that others share goes on, clean.
    async fn leave(mut self) -> io::Result<()> {
        let sharing = self.house.behavior.sharing;
        if sharing == Sharing::OneForAll && self.taken.is_none() {
            self.taken = self.house.take(&self.parameters).await.ok();
        }
        let reuse = self.house.behavior.reuses();
        if let Some(taken) = &mut self.taken
            && reuse
        {
            if sharing == Sharing::OneForAll {
                taken.backend.run("rollback").await?;
            }
            if taken.backend.idle {
                taken.backend.run("discard all").await?;
                self.return_it();
            }
        }
        Ok(())
    }
}

fn ready() -> Answer {
    Answer::ReadyForQuery(ReadyForQuery::new(TransactionStatus::Idle))
}

fn lost() -> Answer {
    error("ERROR", "08006", "the server's connection was lost; try again")
}

fn refused(severity: &str, name: &str, code: &str) -> Answer {
    error(severity, code, &format!("parameter \"{name}\" is unknown or can't be set"))
}

fn error(severity: &str, code: &str, message: &str) -> Answer {
    let fields = [(b'S', severity), (b'V', severity), (b'C', code), (b'M', message)];
    let fields = fields.map(|(field, text)| (field, text.to_owned())).to_vec();
    Answer::ErrorResponse(ErrorResponse::new(fields))
}

fn own_pid() -> [Answer; 4] {
    let name = "pg_backend_pid".to_owned();
    let mut value = BytesMut::new();
    value.put_i32(i32::try_from(OWN_PID.len()).unwrap_or_default());
    value.put_slice(OWN_PID.as_bytes());
    [
        Answer::RowDescription(RowDescription::new(vec![FieldDescription::new(name, 0, 0, INT4, 4, -1, 0)])),
        Answer::DataRow(DataRow::new(value, 1)),
        Answer::CommandComplete(CommandComplete::new("SELECT 1".to_owned())),
        ready(),
    ]
}

fn is_bare_pid(asked: &[Asked]) -> bool {
    let [Asked::Query(query)] = asked else { return false };
    query.query.trim_end_matches(';').trim().eq_ignore_ascii_case("select pg_backend_pid()")
}

fn statement(message: &Asked) -> &str {
    match message {
        Asked::Query(query) => &query.query,
        Asked::Parse(parse) => &parse.query,
        _ => "",
    }
}

/// `-c name=value` for each setting becomes `SET`, after the settings of the last client are gone.
fn statements(options: &str, how: Options) -> Option<String> {
    let wanted = |name: &str| match how {
        Options::Set => true,
        // A name with a dot is an extension's, or the client's own.
        Options::SetIfKnown => !name.contains('.'),
        Options::Forwarded | Options::Dropped => false,
    };
    if matches!(how, Options::Forwarded | Options::Dropped) {
        return None;
    }
    let mut set = vec!["reset all".to_owned()];
    let pairs = options.split_whitespace().filter_map(|word| word.split_once('='));
    set.extend(
        pairs.filter(|(name, _)| wanted(name)).map(|(name, value)| format!("set {name} to '{value}'")),
    );
    Some(set.join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn startup_options_become_statements() {
        let options = "-c tenure.canary=ab -c idle_session_timeout=15000";
        assert_eq!(
            statements(options, Options::Set).unwrap(),
            "reset all; set tenure.canary to 'ab'; set idle_session_timeout to '15000'"
        );
        assert_eq!(
            statements(options, Options::SetIfKnown).unwrap(),
            "reset all; set idle_session_timeout to '15000'"
        );
        assert_eq!(statements(options, Options::Dropped), None);
    }
}
