//! What the poller is at during one term: three loops in one future, so that they end together.
//!
//! *Fetching* asks for due jobs and claims as many as there are free slots. *Working* runs the attempts.
//! *Keeping* moves the deadlines of living attempts forward. Nothing is spawned: when the term ends and
//! the worker's future is dropped, every attempt is dropped with it.

use crate::{
    Poller,
    attempt::Outcome,
    fenced, telemetry,
    trouble::{PollerError, Trouble},
};
use futures_util::stream::{FuturesUnordered, StreamExt as _};
use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};
use tenure::{Term, Wake};
use tenure_jobs::{AttemptId, Claim, ClaimedJob, DueProbe, JobState, claim, extend, release_dead};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, mpsc};

/// How many dead attempts are released in one transaction.
const RELEASE_BATCH: u32 = 100;

/// What one poll found and took.
#[derive(Debug, Default)]
pub(crate) struct Poll {
    pub(crate) claimed: Vec<ClaimedJob>,
    pub(crate) released: usize,
    pub(crate) discarded: usize,
}

impl Poll {
    fn found_work(&self) -> bool {
        !self.claimed.is_empty() || self.released + self.discarded > 0
    }
}

/// A claimed job on its way to be run, with the slot that it occupies.
type Handed = (ClaimedJob, OwnedSemaphorePermit);

/// One term of the poller.
pub(crate) struct Shift<'a> {
    poller: &'a Poller,
    term: Term,
    probe: DueProbe,
    kinds: Vec<String>,
    slots: Arc<Semaphore>,
    living: Mutex<HashMap<AttemptId, Arc<Notify>>>,
    /// An attempt ended: its slot is free, and the next job of its ordering key may have its turn.
    ended: Notify,
}

impl<'a> Shift<'a> {
    pub(crate) fn new(poller: &'a Poller, term: Term) -> Self {
        let kinds: Vec<String> = poller.routes.keys().cloned().collect();
        Self {
            poller,
            term,
            probe: DueProbe::new(kinds.iter().map(String::as_str)),
            kinds,
            slots: Arc::new(Semaphore::new(poller.config.max_concurrency as usize)),
            living: Mutex::default(),
            ended: Notify::new(),
        }
    }

    /// Works until a planned stop is finished, or until the term is over.
    pub(crate) async fn work_through(&self) -> Result<(), PollerError> {
        let (hand, handed) = mpsc::unbounded_channel();
        let work = async { tokio::try_join!(self.fetch(hand), self.work(handed, |_| ())).map(drop) };
        Box::pin(self.while_keeping(work)).await
    }

    /// Polls once and runs what was claimed to its end.
    pub(crate) async fn one_pass(&self) -> Result<(Poll, Vec<Outcome>), PollerError> {
        let (hand, handed) = mpsc::unbounded_channel();
        let mut outcomes = Vec::new();
        let free = self.free_slots();
        let mut poll = self.poll(u32::try_from(free.len()).unwrap_or(u32::MAX)).await?;
        for pair in poll.claimed.drain(..).zip(free) {
            self.hand(&hand, pair);
        }
        drop(hand);
        self.while_keeping(self.work(handed, |outcome| outcomes.push(outcome))).await?;
        Ok((poll, outcomes))
    }

    async fn while_keeping(
        &self,
        work: impl Future<Output = Result<(), PollerError>>,
    ) -> Result<(), PollerError> {
        tokio::select! {
            result = work => result,
            fenced = self.keep() => Err(fenced),
        }
    }

    /// Fetches until a planned stop begins. Then the channel closes, and what was claimed is finished.
    async fn fetch(&self, hand: mpsc::UnboundedSender<Handed>) -> Result<(), PollerError> {
        let mut trouble = Trouble::default();
        loop {
            tokio::select! {
                biased;
                () = self.term.draining() => return Ok(()),
                () = self.free_slot() => {}
            }
            let free = self.free_slots();
            let wait = match self.poll(u32::try_from(free.len()).unwrap_or(u32::MAX)).await {
                Ok(poll) => {
                    trouble.over();
                    let again = poll.found_work();
                    for pair in poll.claimed.into_iter().zip(free) {
                        self.hand(&hand, pair);
                    }
                    if again { Duration::ZERO } else { self.poller.config.poll_interval }
                }
                Err(error) => {
                    let (wait, error) = trouble.after(error)?;
                    telemetry::database_trouble(&self.term, "polling", &error);
                    wait
                }
            };
            let wake = tokio::select! {
                wake = self.term.sleep(wait) => wake,
                () = self.ended.notified(), if !trouble.is_any() => self.term.wake(),
            };
            match wake {
                Wake::Leading => {}
                Wake::Draining | Wake::Ended => return Ok(()),
            }
        }
    }

    /// Waits until a slot is free.
    async fn free_slot(&self) {
        // The semaphore is never closed.
        let _taken_for_a_moment = self.slots.acquire().await;
    }

    /// The slots that are free, up to a batch, taken.
    fn free_slots(&self) -> Vec<OwnedSemaphorePermit> {
        std::iter::from_fn(|| Arc::clone(&self.slots).try_acquire_owned().ok())
            .take(self.poller.config.batch_size as usize)
            .collect()
    }

    /// Asks what there is to do, and does it: one cheap statement when that is nothing.
    async fn poll(&self, free: u32) -> Result<Poll, PollerError> {
        let due = self.probe.ask(&self.poller.pool).await?;
        let mut poll = Poll::default();
        if due.dead_attempts {
            let mut tx = fenced::begin(&self.term, &self.poller.pool, fenced::OWN_STATEMENTS).await?;
            // After an outage of the database our own attempts may be overdue, and alive: those first.
            let living = self.living_attempts();
            self.stop(&extend(&mut tx, &living, self.poller.config.attempt_lease).await?);
            let released = release_dead(&mut tx, RELEASE_BATCH).await?;
            tx.commit().await?;
            for job in &released {
                telemetry::released(&self.term, job);
            }
            poll.discarded = released.iter().filter(|job| job.state == JobState::Discarded).count();
            poll.released = released.len() - poll.discarded;
        }
        if due.jobs || poll.released + poll.discarded > 0 {
            let mut tx = fenced::begin(&self.term, &self.poller.pool, fenced::OWN_STATEMENTS).await?;
            let request = Claim {
                kinds: &self.kinds,
                limit: free,
                epoch: self.term.epoch(),
                instance: self.term.instance(),
                lease: self.poller.config.attempt_lease,
            };
            poll.claimed = claim(&mut tx, &request).await?;
            tx.commit().await?;
        }
        Ok(poll)
    }

    fn hand(&self, hand: &mpsc::UnboundedSender<Handed>, (job, slot): Handed) {
        let id = AttemptId { job: job.id, attempt: job.attempt };
        let mut living = self.living();
        for (_, earlier) in living.iter().filter(|(other, _)| other.job == id.job) {
            earlier.notify_one();
        }
        living.insert(id, Arc::default());
        // The receiver is gone only when this future is about to be dropped as well.
        let _closed = hand.send((job, slot));
    }

    /// Runs attempts until the channel is closed and all have ended.
    async fn work(
        &self,
        mut handed: mpsc::UnboundedReceiver<Handed>,
        mut ended: impl FnMut(Outcome),
    ) -> Result<(), PollerError> {
        let mut running = FuturesUnordered::new();
        let mut open = true;
        loop {
            tokio::select! {
                next = handed.recv(), if open => match next {
                    Some(job) => running.push(self.attempt(job)),
                    None => open = false,
                },
                Some(outcome) = running.next(), if !running.is_empty() => {
                    ended(outcome?);
                    self.ended.notify_one();
                }
                else => return Ok(()),
            }
        }
    }

    async fn attempt(&self, (job, _slot): Handed) -> Result<Outcome, PollerError> {
        let id = AttemptId { job: job.id, attempt: job.attempt };
        let gone = self.living().get(&id).map(Arc::clone).unwrap_or_default();
        let outcome = tokio::select! {
            biased;
            outcome = self.poller.attempt(&self.term, &job) => outcome,
            () = gone.notified() => {
                telemetry::attempt_ended(&self.term, &job, Outcome::Gone, None, Duration::ZERO);
                Ok(Outcome::Gone)
            }
        };
        self.living().remove(&id);
        outcome
    }

    /// Keeps living attempts alive. Ends only when the term is over.
    async fn keep(&self) -> PollerError {
        loop {
            // Two of three may fail without harm.
            tokio::time::sleep(self.poller.config.attempt_lease / 3).await;
            let living = self.living_attempts();
            if living.is_empty() {
                continue;
            }
            match self.extend(&living).await {
                Ok(gone) => self.stop(&gone),
                Err(error) if error.is_fenced() => return error,
                Err(error) => telemetry::database_trouble(&self.term, "extending attempts", &error),
            }
        }
    }

    async fn extend(&self, living: &[AttemptId]) -> Result<Vec<AttemptId>, PollerError> {
        let mut tx = fenced::begin(&self.term, &self.poller.pool, fenced::OWN_STATEMENTS).await?;
        let gone = extend(&mut tx, living, self.poller.config.attempt_lease).await?;
        tx.commit().await?;
        Ok(gone)
    }

    fn living_attempts(&self) -> Vec<AttemptId> {
        self.living().keys().copied().collect()
    }

    /// Stops attempts that aren't under way any more: their jobs may be running again already.
    fn stop(&self, gone: &[AttemptId]) {
        let living = self.living();
        for attempt in gone.iter().filter_map(|id| living.get(id)) {
            attempt.notify_one();
        }
    }

    fn living(&self) -> std::sync::MutexGuard<'_, HashMap<AttemptId, Arc<Notify>>> {
        // Nothing panics while it is held.
        self.living.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
