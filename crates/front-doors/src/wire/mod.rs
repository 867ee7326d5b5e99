//! Proxies that speak PostgreSQL's protocol, each imitating one documented behavior of a pooler.

mod backend;
mod behavior;
mod client;
mod framed;
mod proxy;

pub use behavior::{Behavior, Options, Quirk, Sharing};
pub use proxy::Proxy;
