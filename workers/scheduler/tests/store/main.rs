//! The scheduler on a real server.

mod database;
mod declared;
mod schema;
mod ticks;
