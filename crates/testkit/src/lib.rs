//! What the tests of this workspace share: real servers, real poolers and real processes.
//!
//! Everything is started for one test, listens on loopback, and is stopped by its id when it is dropped.
//! A test that can't have what it needs fails and says how to get it; none is skipped.

mod event;
mod eventually;
mod fetched;
mod pgbouncer;
mod pgpool;
mod replica;
mod server;

pub use event::Event;
pub use eventually::{eventually, free_port};
pub use pgbouncer::{PgBouncer, PgBouncerBuilder, PgBouncerVersion, PoolMode};
pub use pgpool::Pgpool;
pub use replica::Replica;
pub use rustix::process::Signal;
pub use server::TestServer;
pub use tenure_private_postgres::StopMode;
