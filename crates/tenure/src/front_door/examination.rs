//! The steps of the examination.

use super::{
    Examination, Step, StepOutcome, StepReport, Verdict,
    advice::advise,
    probe::{Facts, Probe},
};
use crate::{
    FrontDoor, LeaseAddress, Timing,
    lease::APPLICATION_NAME_PREFIX,
    postgres::{
        Identity,
        problem::{Kind, diagnose},
    },
};
use sqlx::PgConnection;
use uuid::Uuid;

/// The oldest server that can end a silent session by itself.
const OLDEST: i32 = 140_000;
/// Connections that are held in transactions, beside the one that is examined. One isn't enough: a pool
/// that hands out its servers in turn can miss it.
const BLOCKERS: usize = 3;

/// Why an examination ended before it was accepted.
enum Ended {
    /// A step decided against the door.
    Refused(Step, String),
    /// The database failed.
    Failed(sqlx::Error),
}

impl From<sqlx::Error> for Ended {
    fn from(error: sqlx::Error) -> Self {
        Ended::Failed(error)
    }
}

/// An examination under way.
struct Examiner<'a> {
    address: &'a LeaseAddress,
    timing: &'a Timing,
    steps: Vec<StepReport>,
}

/// Examines the address; when it is accepted, the examined session itself is handed out with what it is.
pub(crate) async fn open(
    address: &LeaseAddress,
    timing: &Timing,
    instance: Uuid,
) -> (Examination, Option<(PgConnection, Identity)>) {
    let mut examiner = Examiner { address, timing, steps: Vec::new() };
    let (verdict, session) = match examiner.examine(instance).await {
        Ok(session) => (Verdict::Accepted, Some(session)),
        Err(Ended::Refused(step, because)) => {
            let advice = advise(address, step);
            (Verdict::Refused { step, because, advice }, None)
        }
        Err(Ended::Failed(error)) => (examiner.failed(&error), None),
    };
    (Examination { address: address.to_string(), steps: examiner.steps, verdict }, session)
}

impl Examiner<'_> {
    async fn examine(&mut self, instance: Uuid) -> Result<(PgConnection, Identity), Ended> {
        let name = format!("{APPLICATION_NAME_PREFIX}{instance}");
        let mut session = Probe::connect(self.address, self.timing, &name).await?;
        let endpoint = format!("{}:{}", self.address.host(), self.address.port());
        self.note(Step::Connect, StepOutcome::Passed, format!("{endpoint} answers"));
        self.canary(&session)?;
        self.age(&session)?;
        let mut blockers = Vec::new();
        let first = Probe::connect(self.address, self.timing, "tenure front door").await?;
        self.age(&first)?;
        let (a, b) = (&session, &first);
        let seen = format!(
            "backends {:?} and {:?} old, {:?} and {:?} after connecting began",
            a.age, b.age, a.elapsed, b.elapsed
        );
        if !self.steps.iter().any(|report| report.step == Step::Age) {
            self.note(Step::Age, StepOutcome::Passed, seen);
        }
        blockers.push(first);
        // Recovery and read-only servers fail the next step by their nature: say why.
        self.recovery(&session.facts)?;
        let stamp = self.stability(&mut session).await?;
        while blockers.len() < BLOCKERS {
            blockers.push(Probe::connect(self.address, self.timing, "tenure front door").await?);
        }
        self.exclusion(&mut session, &stamp, &mut blockers).await?;
        for blocker in blockers {
            blocker.close().await;
        }
        self.role(&session.facts)?;
        let Facts { pid, backend_start, timeline, database_oid: database, .. } = session.facts;
        let identity = Identity { pid, backend_start, stamp, database, timeline };
        Ok((session.connection, identity))
    }

    /// The startup packet reached the backend: canary and bounds read back.
    fn canary(&mut self, session: &Probe) -> Result<(), Ended> {
        let facts = &session.facts;
        let Some(bound) = facts.idle_session_timeout else {
            return self.refuse(Step::Role, format!("{} has no idle_session_timeout", facts.version_text));
        };
        let canary = facts.canary.as_deref() == Some(session.canary.as_str());
        let wanted = self.timing.ttl().as_millis();
        let evidence = format!(
            "canary {}, idle_session_timeout {bound} ms where {wanted} ms was asked",
            if canary { "read back" } else { "not found" },
        );
        if bound != wanted {
            // Without the bound a silent leader would keep its lock for ever.
            return self.refuse(Step::Canary, evidence);
        }
        self.demand(canary, Step::Canary, evidence)
    }

    /// The backend is younger than our attempt.
    fn age(&mut self, probe: &Probe) -> Result<(), Ended> {
        if probe.age <= probe.elapsed {
            return Ok(());
        }
        let evidence = format!(
            "the backend is {:?} old, but connecting began only {:?} ago: it was made for somebody else",
            probe.age, probe.elapsed
        );
        self.demand(false, Step::Age, evidence)
    }

    fn recovery(&mut self, facts: &Facts) -> Result<(), Ended> {
        if facts.in_recovery {
            return self
                .refuse(Step::Role, "the server is in recovery: a standby, not the primary".to_owned());
        }
        Ok(())
    }

    /// One backend answers throughout and keeps session state. Returns the session's stamp.
    async fn stability(&mut self, session: &mut Probe) -> Result<String, Ended> {
        let stamp = Uuid::new_v4().simple().to_string();
        let table = format!("tenure_{:016x}", rand::random::<u64>());
        session.run(format!("select set_config('tenure.stamp', '{stamp}', false)")).await?;
        let probed = Self::temporary_table(session, &table).await;
        let (pid, seen) = session.identity().await?;
        let table_evidence = match probed {
            Ok(true) => "the temporary table was there".to_owned(),
            Ok(false) => {
                return self.refuse(Step::Stability, "the temporary table was not found again".to_owned());
            }
            // Some roles may not make temporary tables. The stamp is session state as well.
            Err(error) if is_code(&error, "42501") => "no right to make a temporary table".to_owned(),
            Err(error) if is_code(&error, "42P01") => {
                return self.refuse(Step::Stability, "the temporary table was not found again".to_owned());
            }
            Err(error) => return Err(error.into()),
        };
        let same = pid == session.facts.pid && seen.as_deref() == Some(stamp.as_str());
        let evidence = format!(
            "backend {} stayed {pid}, stamp {}, {table_evidence}",
            session.facts.pid,
            if seen.as_deref() == Some(stamp.as_str()) { "kept" } else { "lost" },
        );
        if !same {
            return self.refuse(Step::Stability, evidence);
        }
        self.note(Step::Stability, StepOutcome::Passed, evidence);
        Ok(stamp)
    }

    async fn temporary_table(session: &mut Probe, table: &str) -> Result<bool, sqlx::Error> {
        session.run(format!("create temporary table {table} (probe integer)")).await?;
        session.run(format!("insert into pg_temp.{table} values (1)")).await?;
        let found = session.truth(format!("select count(*) = 1 from pg_temp.{table}")).await?;
        session.run(format!("drop table pg_temp.{table}")).await?;
        Ok(found)
    }

    /// Other connections have other backends, and our lock keeps them out.
    async fn exclusion(
        &mut self,
        session: &mut Probe,
        stamp: &str,
        blockers: &mut [Probe],
    ) -> Result<(), Ended> {
        let own = session.facts.pid;
        let mut pids = vec![own];
        for blocker in blockers.iter_mut() {
            blocker.run("begin").await?;
            let (pid, seen) = blocker.identity().await?;
            if seen.as_deref() == Some(stamp) {
                let evidence = format!("another connection reached our backend {pid} and saw our stamp");
                return self.refuse(Step::Exclusion, evidence);
            }
            if pids.contains(&pid) {
                let evidence = format!("two connections share the backend {pid}");
                return self.refuse(Step::Exclusion, evidence);
            }
            pids.push(pid);
            self.kept(session, stamp, "while another connection was in a transaction").await?;
        }
        let key = rand::random::<i64>();
        session.run("begin").await?;
        if !session.truth(format!("select pg_try_advisory_lock({key})")).await? {
            return self.refuse(Step::Exclusion, "a fresh random key could not be locked".to_owned());
        }
        let mut intruder = None;
        for blocker in blockers.iter_mut() {
            if blocker.truth(format!("select pg_try_advisory_lock({key})")).await? {
                intruder = Some(blocker.facts.pid);
                blocker.run(format!("select pg_advisory_unlock({key})")).await?;
                break;
            }
        }
        let unlocked = session.truth(format!("select pg_advisory_unlock({key})")).await?;
        session.run("commit").await?;
        if let Some(pid) = intruder {
            let evidence = format!(
                "backend {pid} was granted a lock that backend {own} held: these locks exclude nobody"
            );
            return self.refuse(Step::Exclusion, evidence);
        }
        if !unlocked {
            return self.refuse(Step::Exclusion, "our lock was gone when it was released".to_owned());
        }
        self.kept(session, stamp, "after the lock was tried").await?;
        for blocker in blockers.iter_mut() {
            blocker.run("rollback").await?;
        }
        let evidence = format!("backends {pids:?} all differ, and the lock of {own} refused the others");
        self.note(Step::Exclusion, StepOutcome::Passed, evidence);
        Ok(())
    }

    async fn kept(&mut self, session: &mut Probe, stamp: &str, when: &str) -> Result<(), Ended> {
        let own = session.facts.pid;
        let (pid, seen) = session.identity().await?;
        if pid != own || seen.as_deref() != Some(stamp) {
            return self.refuse(Step::Exclusion, format!("our backend {own} became {pid} {when}"));
        }
        Ok(())
    }

    fn role(&mut self, facts: &Facts) -> Result<(), Ended> {
        let evidence = format!(
            "server {}.{}, primary, timeline {}, database {}, system {}",
            facts.version / 10_000,
            facts.version % 10_000,
            facts.timeline,
            facts.database,
            facts.system
        );
        if facts.version < OLDEST {
            return self.refuse(Step::Role, evidence);
        }
        self.note(Step::Role, StepOutcome::Passed, evidence);
        Ok(())
    }

    fn note(&mut self, step: Step, outcome: StepOutcome, evidence: String) {
        self.steps.push(StepReport { step, outcome, proves: step.proves(), evidence });
    }

    fn refuse<T>(&mut self, step: Step, because: String) -> Result<T, Ended> {
        self.note(step, StepOutcome::Refused, because.clone());
        Err(Ended::Refused(step, because))
    }

    /// A step that is only advisory when the operator declared a session pooler.
    fn demand(&mut self, met: bool, step: Step, evidence: String) -> Result<(), Ended> {
        match (met, self.address.front_door) {
            (true, _) => self.note(step, StepOutcome::Passed, evidence),
            (false, FrontDoor::SessionPooler) => self.note(step, StepOutcome::Advisory, evidence),
            (false, FrontDoor::Direct) => return self.refuse(step, evidence),
        }
        Ok(())
    }

    /// The database failed in the middle. Some failures are themselves a proof of what it is.
    fn failed(&mut self, error: &sqlx::Error) -> Verdict {
        let problem = diagnose(error);
        let refused = match problem.kind {
            Kind::Pooler => Some(Step::Canary),
            Kind::TooOld | Kind::ReadOnly => Some(Step::Role),
            Kind::Answered | Kind::Broken(_) => None,
        };
        match refused {
            Some(step) => {
                self.note(step, StepOutcome::Refused, problem.because.clone());
                Verdict::Refused { step, because: problem.because, advice: advise(self.address, step) }
            }
            None => Verdict::Unreachable { because: problem.because, advice: problem.advice.to_owned() },
        }
    }
}

fn is_code(error: &sqlx::Error, code: &str) -> bool {
    error.as_database_error().and_then(sqlx::error::DatabaseError::code).is_some_and(|seen| seen == code)
}
