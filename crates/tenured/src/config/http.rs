//! The section `[http]`.

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};
use std::net::{Ipv4Addr, SocketAddr};

/// The HTTP endpoints.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct HttpConfig {
    /// Where they listen, or `off`.
    pub(crate) listen: Listen,
}

/// An address, or none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Listen {
    /// No endpoints.
    Off,
    /// Here. Loopback by default.
    On(SocketAddr),
}

impl Default for HttpConfig {
    fn default() -> Self {
        Self { listen: Listen::On(SocketAddr::from((Ipv4Addr::LOCALHOST, 9464))) }
    }
}

impl Serialize for Listen {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Listen::Off => serializer.serialize_str("off"),
            Listen::On(address) => serializer.collect_str(address),
        }
    }
}

impl<'de> Deserialize<'de> for Listen {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        if text.eq_ignore_ascii_case("off") {
            return Ok(Listen::Off);
        }
        text.parse()
            .map(Listen::On)
            .map_err(|_not_quoted| D::Error::custom("has to be an address like 127.0.0.1:9464, or \"off\""))
    }
}
