//! What a proxy does differently from PostgreSQL. Each is documented of some product.

/// What becomes of the `options` in a client's startup packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Options {
    /// They are passed on to the backend.
    Forwarded,
    /// They are left out, as by `ignore_startup_parameters`.
    Dropped,
    /// Each is repeated by `SET` on the backend that the client gets.
    Set,
    /// Those that PostgreSQL knows are repeated by `SET`, others left out.
    SetIfKnown,
}

/// Who has a backend, and for how long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sharing {
    /// A client has one backend for itself until it leaves. With `reuse`, the next client gets it then,
    /// after `DISCARD ALL`.
    Session {
        /// Whether a backend is kept for another client.
        reuse: bool,
    },
    /// A client has a backend for a transaction. With `reuse` it comes from a pool, else it is a new one
    /// each time.
    Transaction {
        /// Whether a backend is kept for the next transaction, of any client.
        reuse: bool,
    },
    /// As `Transaction`, until a statement contains this word; then the client keeps its backend.
    UntilStatement {
        /// The word, in lower case.
        word: &'static str,
        /// As for `Transaction`.
        reuse: bool,
    },
    /// All clients share one backend, one statement after the other.
    OneForAll,
}

/// Something else that a proxy does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Quirk {
    /// It answers a bare `SELECT pg_backend_pid()` itself.
    AnswersPid,
    /// It doesn't tell the client the backend's pid and secret.
    HidesKeyData,
    /// When the backend ends, the client's connection stays and gets another one.
    OutlivesBackend,
    /// After so many transactions of a client, its connection is moved to a new backend.
    MovesAfter(usize),
    /// A client has one backend for so many transactions; after that it has one for each transaction, out
    /// of a pool.
    PoolsAfter(usize),
    /// It refuses a setting, with this SQLSTATE.
    RefusesSetting {
        /// The setting.
        name: &'static str,
        /// The code.
        code: &'static str,
    },
    /// It brings every second connection to the database `template1`.
    AlternatesDatabase,
}

/// How a proxy behaves. The default passes everything on, a backend for each client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Behavior {
    /// What becomes of startup options.
    pub options: Options,
    /// Who has a backend, and for how long.
    pub sharing: Sharing,
    /// What else it does.
    pub quirk: Option<Quirk>,
}

impl Default for Behavior {
    fn default() -> Self {
        Self { options: Options::Forwarded, sharing: Sharing::Session { reuse: false }, quirk: None }
    }
}

impl Behavior {
    /// Whether a backend may outlive its client.
    pub fn reuses(&self) -> bool {
        if matches!(self.quirk, Some(Quirk::PoolsAfter(_))) {
            return true;
        }
        match self.sharing {
            Sharing::Session { reuse }
            | Sharing::Transaction { reuse }
            | Sharing::UntilStatement { reuse, .. } => reuse,
            Sharing::OneForAll => true,
        }
    }
}
