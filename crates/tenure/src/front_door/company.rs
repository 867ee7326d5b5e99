//! The other connections of an examination. Each is held in a transaction, so that even a pooler has to
//! give it a backend of its own.

use super::{
    bounds::Bounds,
    probe::{Answer, Backend, Probe, hindered},
};
use crate::LeaseAddress;

/// How many. One isn't enough: a pool that hands out its servers in turn can miss it.
const MOST: usize = 3;
const NAME: &str = "tenure front door";

/// See the module.
pub(super) struct Company<'a> {
    address: &'a LeaseAddress,
    bounds: Bounds,
    pub(super) members: Vec<Probe>,
    /// No more connections were let in while these are open.
    pub(super) full: bool,
}

impl<'a> Company<'a> {
    pub(super) fn new(address: &'a LeaseAddress, bounds: Bounds) -> Self {
        Self { address, bounds, members: Vec::new(), full: false }
    }

    /// The first one, beside our own session, which is closed if it may be in the way.
    pub(super) async fn first(&mut self, session: &mut Option<Probe>) -> Result<Answer<()>, sqlx::Error> {
        let limit = self.bounds.statement_timeout();
        let attempt = Probe::connect(self.address, NAME, &mut self.bounds, limit * 2);
        let free = async {
            if let Some(session) = session.take() {
                session.close().await;
            }
        };
        Ok(match hindered(limit, attempt, free).await? {
            Answer::AtOnce(probe) => {
                self.members.push(probe);
                Answer::AtOnce(())
            }
            Answer::OnceFree(probe) => {
                probe.close().await;
                Answer::OnceFree(())
            }
        })
    }

    /// Whether there is to be one more.
    pub(super) fn wants_more(&self) -> bool {
        self.members.len() < MOST && !self.full
    }

    /// One more, unless it isn't let in: a pool of a few servers is full by now.
    pub(super) async fn one_more(&mut self) -> Result<(), sqlx::Error> {
        let limit = self.bounds.statement_timeout();
        let attempt = Probe::connect(self.address, NAME, &mut self.bounds, limit * 2);
        match tokio::time::timeout(limit, attempt).await {
            Ok(probe) => self.members.push(probe?),
            Err(_elapsed) => self.full = true,
        }
        Ok(())
    }

    /// The backend of `session` while these are in transactions. `None` when it answered only after they
    /// had gone.
    pub(super) async fn backend_of(&mut self, session: &mut Probe) -> Result<Option<Backend>, sqlx::Error> {
        let members = &mut self.members;
        let free = async {
            for member in members.drain(..) {
                member.close().await;
            }
        };
        Ok(match session.backend_beside(free).await? {
            Answer::AtOnce(backend) => Some(backend),
            Answer::OnceFree(_) => None,
        })
    }

    /// The first one that can lock `key` as well, if any. It lets go at once, in the same statement.
    pub(super) async fn intruder(&mut self, key: i64) -> Result<Option<Backend>, sqlx::Error> {
        for member in &mut self.members {
            let attempt = format!(
                "select case when pg_try_advisory_lock({key}) then pg_advisory_unlock({key}) is not null else false end"
            );
            if member.truth(attempt).await? {
                return Ok(Some(member.facts.backend));
            }
        }
        Ok(None)
    }

    /// One of these ends its transaction, or begins the next: a backend changes hands if it can.
    pub(super) async fn stir(&mut self, begin: bool) -> Result<(), sqlx::Error> {
        match self.members.last_mut() {
            Some(member) if begin => member.begin().await,
            Some(member) => member.run("rollback").await,
            None => Ok(()),
        }
    }

    /// Whether one of these, when it leaves and comes back, finds what it had left. If it gets another
    /// backend this time, nothing is known.
    pub(super) async fn hands_on_unclean(&mut self) -> Result<bool, sqlx::Error> {
        let Some(mut member) = self.members.pop() else { return Ok(false) };
        let before = member.facts.backend;
        member.run("rollback").await?;
        member.mark("left by an examination").await?;
        member.close().await;
        let known = self.members.len();
        self.one_more().await?;
        let Some(back) = self.members.get_mut(known) else { return Ok(false) };
        let (backend, stamp) = back.backend().await?;
        let found = backend == before && stamp.is_some_and(|stamp| !stamp.is_empty());
        if found {
            back.mark("").await?;
        }
        Ok(found)
    }

    pub(super) async fn leave(self) {
        for member in self.members {
            member.close().await;
        }
    }
}
