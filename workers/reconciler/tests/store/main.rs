//! The reconciler on a real server.

mod database;
mod declared;
mod returning;
mod sweeping;
