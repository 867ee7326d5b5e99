//! The steps of the examination.

use super::{
    Examination, Step, StepOutcome, StepReport, Verdict,
    advice::advise,
    bounds::Bounds,
    company::Company,
    probe::{Answer, Backend, Facts, Probe, Table, is_code},
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

/// How often a declared pooler is given the occasion to give our backend away, before anything is put into
/// the session. A busy pool may return it by chance: about one time in three with as many clients as
/// backends to spare.
const STIRS: usize = 12;

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
    /// The step that is being made.
    at: Step,
    /// What the server calls itself, once it is known.
    version: Option<String>,
    /// For tests: the step that is left out.
    without: Option<Step>,
}

/// Examines the address; when it is accepted, the examined session itself is handed out with what it is.
pub(crate) async fn open(
    address: &LeaseAddress,
    timing: &Timing,
    instance: Uuid,
    without: Option<Step>,
) -> (Examination, Option<(PgConnection, Identity)>) {
    let mut examiner =
        Examiner { address, timing, steps: Vec::new(), at: Step::Connect, version: None, without };
    let (verdict, session) = match examiner.examine(instance).await {
        Ok(session) => (Verdict::Accepted, Some(session)),
        Err(Ended::Refused(step, because)) => (examiner.refused(step, because), None),
        Err(Ended::Failed(error)) => (examiner.failed(&error), None),
    };
    (Examination { address: address.to_string(), steps: examiner.steps, verdict }, session)
}

impl Examiner<'_> {
    async fn examine(&mut self, instance: Uuid) -> Result<(PgConnection, Identity), Ended> {
        let name = format!("{APPLICATION_NAME_PREFIX}{instance}");
        let limit = self.timing.statement_timeout();
        let mut bounds = Bounds::new(self.timing);
        let mut session = Probe::connect(self.address, &name, &mut bounds, limit).await?;
        self.version = Some(session.facts.version_text.clone());
        let endpoint = format!("{}:{}", self.address.host(), self.address.port());
        self.note(Step::Connect, StepOutcome::Passed, format!("{endpoint} answers{}", without(&bounds)));
        self.canary(&session)?;
        let mut company = Company::new(self.address, bounds.clone());
        session = self.age(session, &mut company).await?;
        self.exclusion(&mut session, &mut company).await?;
        let stamp = self.stability(&mut session, &mut company, &mut bounds).await?;
        company.leave().await;
        self.role(&session.facts)?;
        let Facts { backend, timeline, database_oid: database, .. } = session.facts;
        let identity = Identity { pid: backend.pid, backend_start: backend.start, stamp, database, timeline };
        Ok((session.connection, identity))
    }

    /// The startup packet reached the backend: canary and bounds read back.
    fn canary(&mut self, session: &Probe) -> Result<(), Ended> {
        self.at = Step::Canary;
        let facts = &session.facts;
        let canary = facts.canary.as_deref() == Some(session.canary.as_str());
        let wanted = self.timing.ttl().as_millis();
        let evidence = format!(
            "canary {}, idle_session_timeout {} where {wanted} ms was asked",
            if canary { "read back" } else { "not found" },
            facts.idle_session_timeout.map_or_else(|| "unknown".to_owned(), |ms| format!("{ms} ms")),
        );
        self.demand(canary && facts.idle_session_timeout == Some(wanted), Step::Canary, evidence)
    }

    /// On two connections in a row, the backend is younger than our attempt.
    async fn age(&mut self, session: Probe, company: &mut Company<'_>) -> Result<Probe, Ended> {
        self.at = Step::Age;
        if session.age > session.elapsed {
            self.demand(false, Step::Age, older(&session))?;
        }
        let mut ours = Some(session);
        let answer = company.first(&mut ours).await?;
        let (Answer::AtOnce(()), Some(session)) = (answer, ours) else {
            let because = format!(
                "no second connection got an answer within {:?} while ours was open, and one did as soon as \
                 ours had ended: there is one session for all",
                self.timing.statement_timeout()
            );
            return self.refuse(Step::Exclusion, because);
        };
        let first = &company.members[0];
        if first.age > first.elapsed {
            self.demand(false, Step::Age, older(first))?;
        }
        let seen = format!(
            "backends {:?} and {:?} old, {:?} and {:?} after connecting began",
            session.age, first.age, session.elapsed, first.elapsed
        );
        if !self.steps.iter().any(|report| report.step == Step::Age) {
            self.note(Step::Age, StepOutcome::Passed, seen);
        }
        Ok(session)
    }

    /// Others have backends of their own in the same database, and our lock keeps them out.
    async fn exclusion(&mut self, session: &mut Probe, company: &mut Company<'_>) -> Result<(), Ended> {
        self.at = Step::Exclusion;
        let ours = session.facts.backend;
        let mut seen: Vec<Backend> = vec![ours];
        while let Some(next) = self.next(company, seen.len()).await? {
            next.begin().await?;
            let (theirs, _) = next.backend().await?;
            next.facts.backend = theirs;
            let (here, there) = (place(&session.facts), place(&next.facts));
            if here != there {
                let because = format!("our connection is in {here}, another one came to {there}");
                self.refuse_unless_left_out(Step::Exclusion, because)?;
            }
            if seen.contains(&theirs) {
                let whose = if theirs == ours { "ours" } else { "that of a third connection" };
                let because = format!("another connection has backend {}, which is {whose}", theirs.pid);
                self.refuse_unless_left_out(Step::Exclusion, because)?;
            }
            seen.push(theirs);
            self.kept(session, company).await?;
        }
        let key = rand::random::<i64>();
        session.begin().await?;
        let locked = session.truth(format!("select pg_try_advisory_lock({key})")).await?;
        let intruder = company.intruder(key).await?;
        let unlocked = session.truth(format!("select pg_advisory_unlock({key})")).await?;
        session.run("commit").await?;
        if let Some(backend) = intruder {
            let because = format!(
                "backend {} was granted a lock that backend {} held: these locks exclude nobody",
                backend.pid, ours.pid
            );
            self.refuse_unless_left_out(Step::Exclusion, because)?;
        }
        if !locked || !unlocked {
            let because = "a fresh random key could not be locked, and unlocked again".to_owned();
            self.refuse_unless_left_out(Step::Exclusion, because)?;
        }
        let pids: Vec<i32> = seen[1..].iter().map(|backend| backend.pid).collect();
        let full = if company.full { " (no more are let in at a time)" } else { "" };
        let evidence =
            format!("backends {pids:?}{full} are others, and the lock of {} refused them", ours.pid);
        self.note(Step::Exclusion, StepOutcome::Passed, evidence);
        Ok(())
    }

    /// The member of the company that isn't in a transaction yet, if there is to be one.
    async fn next<'c>(
        &mut self,
        company: &'c mut Company<'_>,
        examined: usize,
    ) -> Result<Option<&'c mut Probe>, Ended> {
        if company.members.len() < examined && company.wants_more() {
            company.one_more().await?;
        }
        Ok(company.members.get_mut(examined - 1))
    }

    /// Our session still has its backend, while others are in transactions.
    async fn kept(&mut self, session: &mut Probe, company: &mut Company<'_>) -> Result<(), Ended> {
        let (ours, others) = (session.facts.backend, company.members.len());
        match company.backend_of(session).await? {
            Some(backend) if backend == ours => Ok(()),
            Some(backend) => {
                let because =
                    format!("our backend {} became {} beside {others} transactions", ours.pid, backend.pid);
                self.refuse_unless_left_out(Step::Stability, because)
            }
            None => {
                let because = format!(
                    "our connection got no answer within {:?} beside {others} transactions, and one as soon \
                     as they had ended: they share backends",
                    self.timing.statement_timeout()
                );
                self.refuse(Step::Stability, because)
            }
        }
    }

    /// Our session keeps its backend although others come and go.
    async fn unmoved(&mut self, session: &mut Probe, company: &mut Company<'_>) -> Result<(), Ended> {
        for _ in 0..STIRS {
            for begin in [false, true] {
                company.stir(begin).await?;
                self.kept(session, company).await?;
            }
        }
        Ok(())
    }

    /// One backend answers throughout, and keeps what a session has. Returns the session's stamp.
    async fn stability(
        &mut self,
        session: &mut Probe,
        company: &mut Company<'_>,
        bounds: &mut Bounds,
    ) -> Result<String, Ended> {
        self.at = Step::Stability;
        let ours = session.facts.backend;
        if self.address.front_door == FrontDoor::SessionPooler {
            self.unmoved(session, company).await?;
        }
        if let Some(leftovers) = session.leftovers().await? {
            let because =
                format!("the session was handed to us with leftovers of somebody else: {leftovers}");
            self.refuse_unless_left_out(Step::Stability, because)?;
        }
        if self.address.front_door == FrontDoor::SessionPooler {
            if company.hands_on_unclean().await? {
                let because = "what a client leaves on a session is handed on to the next one".to_owned();
                self.refuse_unless_left_out(Step::Stability, because)?;
            }
            let (bound, wanted) = (session.set_bounds(bounds).await?, bounds.ttl().as_millis());
            if bound != Some(wanted) {
                // Without the bound a silent leader would keep its lock for ever.
                let because = format!("idle_session_timeout is {bound:?} ms after it was set to {wanted} ms");
                return self.refuse(Step::Stability, because);
            }
        }
        let (stamp, key) = (Uuid::new_v4().simple().to_string(), rand::random::<i64>());
        session.mark(&stamp).await?;
        session.run(format!("select pg_try_advisory_lock({key})")).await?;
        let table = session.temporary_table().await?;
        let unlocked = session.truth(format!("select pg_advisory_unlock({key})")).await?;
        let (backend, seen) = session.backend().await?;
        let stamped = seen.as_deref() == Some(stamp.as_str());
        let evidence = format!(
            "backend {} stayed {}, stamp {}, lock {}, {table}",
            ours.pid,
            backend.pid,
            if stamped { "kept" } else { "lost" },
            if unlocked { "kept" } else { "lost" },
        );
        if backend != ours || !stamped || !unlocked || table == Table::Lost {
            self.refuse_unless_left_out(Step::Stability, evidence.clone())?;
        }
        self.note(Step::Stability, StepOutcome::Passed, evidence);
        Ok(stamp)
    }

    /// A primary that can be written to, and that has the bounds.
    fn role(&mut self, facts: &Facts) -> Result<(), Ended> {
        self.at = Step::Role;
        let what = match (facts.in_recovery, facts.read_only) {
            (true, _) => "in recovery: a standby, not the primary",
            (false, true) => "primary, but default_transaction_read_only is on",
            (false, false) => "primary",
        };
        let evidence = format!(
            "server {}.{}, {what}, timeline {}, {}",
            facts.version / 10_000,
            facts.version % 10_000,
            facts.timeline.map_or_else(|| "not shown".to_owned(), |timeline| timeline.to_string()),
            place(facts)
        );
        if facts.in_recovery || facts.read_only || facts.version < OLDEST {
            self.refuse_unless_left_out(Step::Role, evidence.clone())?;
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

    fn refuse_unless_left_out(&mut self, step: Step, because: String) -> Result<(), Ended> {
        if self.without == Some(step) { Ok(()) } else { self.refuse(step, because) }
    }

    /// A step that is only advisory when the operator declared a session pooler.
    fn demand(&mut self, met: bool, step: Step, evidence: String) -> Result<(), Ended> {
        match (met, self.address.front_door) {
            (true, _) => self.note(step, StepOutcome::Passed, evidence),
            (false, FrontDoor::SessionPooler) => self.note(step, StepOutcome::Advisory, evidence),
            (false, FrontDoor::Direct) => return self.refuse_unless_left_out(step, evidence),
        }
        Ok(())
    }

    fn refused(&self, step: Step, because: String) -> Verdict {
        let advice = advise(self.address, step, self.version.as_deref(), &because);
        Verdict::Refused { step, because, advice }
    }

    /// The database failed in the middle. Some failures are themselves a proof of what it is.
    fn failed(&mut self, error: &sqlx::Error) -> Verdict {
        let problem = diagnose(error);
        let refused = match problem.kind {
            // It didn't like our startup packet, or what a later step needs.
            Kind::Pooler => Some(self.at.max(Step::Canary)),
            Kind::TooOld | Kind::ReadOnly => Some(Step::Role),
            _ if is_code(error, UNDEFINED_FUNCTION) => Some(self.at.max(Step::Exclusion)),
            Kind::Answered | Kind::Broken(_) => None,
        };
        match refused {
            Some(step) => {
                self.note(step, StepOutcome::Refused, problem.because.clone());
                self.refused(step, problem.because)
            }
            None => Verdict::Unreachable { because: problem.because, advice: problem.advice.to_owned() },
        }
    }
}

/// `PostgreSQL` has every function that the examination calls.
const UNDEFINED_FUNCTION: &str = "42883";

fn without(bounds: &Bounds) -> String {
    if bounds.without.is_empty() {
        return String::new();
    }
    format!(", but lets nobody set {}", bounds.without.join(", "))
}

fn older(probe: &Probe) -> String {
    format!(
        "the backend is {:?} old, but connecting began only {:?} ago: it was made for somebody else",
        probe.age, probe.elapsed
    )
}

/// Locks are per server and per database.
fn place(facts: &Facts) -> String {
    format!("database {} ({}), system {}", facts.database, facts.database_oid, facts.system)
}
