//! Leader-only background workers, elected through `PostgreSQL` advisory locks.

mod address;
pub mod clock;
pub mod fence;
pub mod front_door;
pub mod gate;
mod instance;
pub mod lease;
mod postgres;
mod role;
pub mod schema;
mod shutdown;
mod singleton;
mod telemetry;
mod term;
#[cfg(feature = "testing")]
pub mod testing;
mod timing;

pub use address::{AddressError, FrontDoor, LeaseAddress};
pub use async_trait::async_trait;
pub use fence::{FenceError, FencedTransaction};
pub use gate::{Declaration, Gate, Outcome};
pub use instance::{EngineFailed, Instance, InstanceBuilder, InstanceWatch, StartError, StopMode};
pub use lease::EndReason;
pub use role::Role;
pub use shutdown::Signals;
pub use singleton::{Singleton, Worker, WorkerError};
pub use term::{Epoch, Term, TermEnded, Wake};
pub use timing::{Timing, TimingConfig, TimingError};
