//! Where the leases are, and what the operator says stands in front of them.

use serde::{Deserialize, Serialize};
use sqlx::postgres::PgConnectOptions;
use std::{fmt, str::FromStr};
use thiserror::Error;

/// What the operator declares to answer on the lease address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FrontDoor {
    /// `PostgreSQL` itself, or something that only passes bytes on. The default.
    #[default]
    Direct,
    /// A pooler in session mode. Canary and age can't be demanded of it; all else still is.
    SessionPooler,
}

/// The address of the lease database. Shows itself without its password.
#[derive(Clone)]
pub struct LeaseAddress {
    pub(crate) options: PgConnectOptions,
    pub(crate) front_door: FrontDoor,
}

/// The lease address can't be read. The text holds no part of the address: it may hold a password.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("the lease address is not a PostgreSQL URL like postgres://user@host:5432/database: {reason}")]
pub struct AddressError {
    /// What is wrong with it.
    pub reason: String,
}

impl LeaseAddress {
    /// Reads a `postgres://` URL. A password in `PGPASSWORD` or `~/.pgpass` is found as by libpq.
    ///
    /// # Errors
    ///
    /// [`AddressError`] when it isn't one.
    pub fn parse(url: &str, front_door: FrontDoor) -> Result<Self, AddressError> {
        let refuse = |reason: &str| AddressError { reason: reason.to_owned() };
        if !url.starts_with("postgres://") && !url.starts_with("postgresql://") {
            return Err(refuse("it has to begin with postgres:// or postgresql://"));
        }
        let options = PgConnectOptions::from_str(url).map_err(|error| match error {
            // sqlx quotes nothing of the address in its parse errors but query values; keep the kind only.
            sqlx::Error::Configuration(_) => refuse("it can't be parsed; is a reserved character unescaped?"),
            _ => refuse("it can't be used"),
        })?;
        // A stock pooler refuses this parameter with a protocol error, and nothing here needs it.
        Ok(Self { options: options.extra_float_digits(None), front_door })
    }

    /// What the operator declared.
    pub const fn front_door(&self) -> FrontDoor {
        self.front_door
    }

    /// The host, or the folder of the socket.
    pub fn host(&self) -> &str {
        self.options.get_host()
    }

    /// The port.
    pub fn port(&self) -> u16 {
        self.options.get_port()
    }
}

impl fmt::Display for LeaseAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let o = &self.options;
        write!(f, "{}@{}:{}", o.get_username(), o.get_host(), o.get_port())?;
        if let Some(database) = o.get_database() {
            write!(f, "/{database}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for LeaseAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LeaseAddress({self}, {:?})", self.front_door)
    }
}
