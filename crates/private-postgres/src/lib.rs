//! Starts a private PostgreSQL server from the binaries on the machine, and leaves nothing behind.
//!
//! For the demo and for tests: the server listens on loopback only, keeps its data in a folder that is
//! removed on drop, and doesn't sync it to disk. It dies with the process that started it. Everything here
//! blocks; in an async program call it by `spawn_blocking`.
//!
//! ```no_run
//! use tenure_private_postgres::{Binaries, PrivatePostgres};
//! let server = PrivatePostgres::builder(Binaries::find()?).setting("max_connections", "50").start()?;
//! println!("{}", server.url("postgres"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod abandoned;
mod account;
mod binaries;
mod builder;
mod error;
mod keeper;
mod password;
mod server;
mod template;

pub use binaries::{Binaries, FindError};
pub use builder::Builder;
pub use error::ServerError;
pub use server::{PrivatePostgres, StopMode};
