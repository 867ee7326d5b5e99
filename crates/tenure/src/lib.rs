//! Leader-only background workers, elected through `PostgreSQL` advisory locks.

mod address;
pub mod clock;
pub mod fence;
pub mod front_door;
pub mod gate;
mod instance;
pub mod lease;
mod role;
pub mod schema;
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
pub use instance::{Instance, InstanceBuilder, InstanceWatch, StartError, StopMode};
pub use role::Role;
pub use singleton::{Singleton, Worker, WorkerError};
pub use term::{Epoch, Term, TermEnded, Wake};
pub use timing::{Timing, TimingConfig, TimingError};
