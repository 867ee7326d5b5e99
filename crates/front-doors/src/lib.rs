//! Front doors for tests: whatever can stand between a lease and PostgreSQL, started for real on loopback.
//!
//! Real poolers and servers come from `tenure-testkit`. Here are tunnels, and proxies that each imitate one
//! documented behavior of a pooler.

pub mod matrix;
mod tunnel;
mod wire;

pub use tunnel::Tunnel;
pub use wire::{Behavior, Options, Proxy, Quirk, Sharing};
