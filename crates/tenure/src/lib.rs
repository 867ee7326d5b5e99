//! Leader-only background workers, elected through PostgreSQL advisory locks.
//!
//! A service runs in several replicas; some of its work must run on exactly one of them at a time. Give
//! that work a [`Role`], implement [`Singleton`], and start an [`Instance`] in every replica: one leads,
//! the others stand by, and nothing else has to be installed.
//!
//! ```no_run
//! use std::time::Duration;
//! use tenure::{
//!     FrontDoor, Instance, LeaseAddress, Role, Signals, Singleton, Term, Timing, WorkerError, async_trait,
//!     schema,
//! };
//!
//! struct Billing { pool: sqlx::PgPool }
//!
//! #[async_trait]
//! impl Singleton for Billing {
//!     const ROLE: Role = Role::new("billing", 1_840_000_100);
//!
//!     async fn run(&self, term: Term) -> Result<(), WorkerError> {
//!         while term.sleep(Duration::from_secs(5)).await.is_leading() {
//!             let mut tx = term.begin_fenced(&self.pool).await?; // `Err` once another leads
//!             sqlx::query("insert into invoice default values").execute(&mut *tx).await?;
//!             tx.commit().await?;
//!         }
//!         Ok(())
//!     }
//! }
//!
//! # async fn start(url: &str, pool: sqlx::PgPool) -> Result<(), WorkerError> {
//! let mut signals = Signals::listen()?;
//! schema::migrate(&pool, schema::MIGRATIONS).await?;
//! let instance = Instance::builder(LeaseAddress::parse(url, FrontDoor::Direct)?, Timing::default())
//!     .worker(Billing { pool })
//!     .start(uuid::Uuid::new_v4())?;
//! instance.run_until_signal(&mut signals).await?;
//! # Ok(())
//! # }
//! ```
//!
//! | to read about | see |
//! |---|---|
//! | the protocol, and what it promises | [`lease`] |
//! | late writes, and what is not covered | [`fence`] |
//! | poolers, and why an address is refused | [`front_door`] |
//! | features and toggles of a binary with several workers | [`gate`], [`workers!`] |
//! | intervals and bounds | [`Timing`] |

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
