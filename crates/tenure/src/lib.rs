//! Leader-only background workers, elected through `PostgreSQL` advisory locks.

pub mod clock;
pub mod fence;
pub mod gate;
pub mod lease;
mod role;
pub mod schema;
mod singleton;
mod telemetry;
mod term;
#[cfg(feature = "testing")]
pub mod testing;
mod timing;

pub use async_trait::async_trait;
pub use fence::{FenceError, FencedTransaction};
pub use gate::{Declaration, Gate, Outcome};
pub use role::Role;
pub use singleton::{Singleton, Worker, WorkerError};
pub use term::{Epoch, Term, TermEnded, Wake};
pub use timing::{Timing, TimingConfig, TimingError};
