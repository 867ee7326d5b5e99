//! The lease on real `PostgreSQL`.

mod hints;
mod holders;
pub(crate) mod problem;
mod session;
mod sql;

pub use holders::{LockHolder, lock_holders};
pub(crate) use session::{Identity, PgSession, read_timeline};

use crate::{
    LeaseAddress, Timing,
    front_door::{self, Verdict},
    lease::{Hint, LeaseDatabase},
    telemetry,
};
use async_trait::async_trait;
use std::{future::Future, pin::Pin};
use tokio::sync::mpsc::UnboundedSender;
use uuid::Uuid;

/// Opens lease sessions at an address.
pub(crate) struct PgLeaseDatabase {
    pub(crate) address: LeaseAddress,
    pub(crate) timing: Timing,
    pub(crate) instance: Uuid,
    pub(crate) host: String,
}

#[async_trait]
impl LeaseDatabase for PgLeaseDatabase {
    type Session = PgSession;

    async fn open(&self) -> Result<PgSession, Verdict> {
        let (examination, opened) = front_door::open(&self.address, &self.timing, self.instance, None).await;
        telemetry::front_door(&examination);
        match opened {
            Some((connection, identity)) => {
                Ok(PgSession::new(connection, identity, self.timing, self.instance, self.host.clone()))
            }
            None => Err(examination.verdict),
        }
    }

    fn hints(&self, to: UnboundedSender<Hint>) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(hints::forward(self.address.options.clone(), self.instance, to))
    }
}
