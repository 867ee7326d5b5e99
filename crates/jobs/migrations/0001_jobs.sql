create table if not exists tenure.job (
    id               bigint      generated always as identity primary key,
    kind             text        not null,
    queue            text        not null default 'default',
    payload          jsonb       not null default '{}',
    priority         smallint    not null default 0,
    run_at           timestamptz not null default now(),
    state            text        not null default 'available'
                                 check (state in ('available', 'running', 'completed', 'discarded', 'cancelled')),
    attempt          integer     not null default 0 check (attempt >= 0),
    max_attempts     integer     not null default 25 check (max_attempts > 0),
    unique_key       text,
    ordering_key     text,
    delivery_key     uuid        not null default gen_random_uuid(),
    last_error       text,
    claimed_by       bigint,
    attempt_deadline timestamptz,
    created_at       timestamptz not null default now(),
    finished_at      timestamptz,
    constraint job_running_has_deadline check ((state = 'running') = (attempt_deadline is not null)),
    constraint job_finished_has_time
        check ((state in ('completed', 'discarded', 'cancelled')) = (finished_at is not null))
);
comment on table  tenure.job                  is 'Jobs: one row from enqueueing until its retention ends.';
comment on column tenure.job.id               is 'Number of the job; jobs of one ordering key run in its order.';
comment on column tenure.job.kind             is 'What kind of work it is. The poller''s routes say what runs it; a kind without a route waits.';
comment on column tenure.job.queue            is 'A label that backlogs are grouped by. It does not decide what runs a job; the kind does.';
comment on column tenure.job.payload          is 'What the job is about, at most 1 MiB of JSON.';
comment on column tenure.job.priority         is 'Among due jobs the higher number runs first.';
comment on column tenure.job.run_at           is 'Not before this time by the database''s clock: the wished start, or the next try.';
comment on column tenure.job.state            is 'available: waits for its time or its turn; running: an attempt is under way; completed: succeeded; discarded: given up, the dead letters; cancelled: by hand.';
comment on column tenure.job.attempt          is 'Number of the newest attempt, counted when the job is claimed. It never goes back.';
comment on column tenure.job.max_attempts     is 'A job whose attempt with this number fails or dies is discarded.';
comment on column tenure.job.unique_key       is 'At most one unfinished job has this key; null for any number.';
comment on column tenure.job.ordering_key     is 'Jobs with the same key run one at a time, by id; null for no order.';
comment on column tenure.job.delivery_key     is 'Idempotency key for receivers: the same for every attempt of the job, and never another job''s.';
comment on column tenure.job.last_error       is 'Why the newest failed attempt failed, shortened.';
comment on column tenure.job.claimed_by       is 'Epoch of the poller''s term that claimed it last.';
comment on column tenure.job.attempt_deadline is 'While running: the attempt counts as dead after this. A living attempt moves it forward.';
comment on column tenure.job.created_at       is 'When it was enqueued.';
comment on column tenure.job.finished_at      is 'When it was completed, discarded or cancelled.';

-- The order in which a kind's jobs are claimed.
create index if not exists job_claim on tenure.job (kind, priority desc, run_at, id) where state = 'available';
-- Whether anything is due, also when very many jobs wait for a later time.
create index if not exists job_due on tenure.job (kind, run_at) where state = 'available';
-- Attempts that may have died.
create index if not exists job_deadline on tenure.job (attempt_deadline) where state = 'running';
-- At most one unfinished job for each unique key.
create unique index if not exists job_unique_key on tenure.job (unique_key)
    where unique_key is not null and state in ('available', 'running');
-- Whose turn it is within an ordering key.
create index if not exists job_ordering on tenure.job (ordering_key, id)
    where ordering_key is not null and state in ('available', 'running');
-- At most one running job for each ordering key, whatever a claim believes.
create unique index if not exists job_ordering_running on tenure.job (ordering_key)
    where ordering_key is not null and state = 'running';
-- Finished jobs by age, for retention.
create index if not exists job_finished on tenure.job (finished_at) where finished_at is not null;

create table if not exists tenure.job_attempt (
    job_id     bigint      not null references tenure.job (id) on delete cascade,
    attempt    integer     not null,
    epoch      bigint      not null,
    instance   uuid        not null,
    started_at timestamptz not null,
    ended_at   timestamptz,
    outcome    text        check (outcome in ('completed', 'failed', 'discarded', 'died')),
    error      text,
    primary key (job_id, attempt)
);
comment on table  tenure.job_attempt            is 'Every attempt at a job, kept as long as the job.';
comment on column tenure.job_attempt.job_id     is 'The job.';
comment on column tenure.job_attempt.attempt    is 'Its number, from 1.';
comment on column tenure.job_attempt.epoch      is 'Epoch of the poller''s term that claimed it.';
comment on column tenure.job_attempt.instance   is 'Incarnation of the process that ran it.';
comment on column tenure.job_attempt.started_at is 'When it was claimed.';
comment on column tenure.job_attempt.ended_at   is 'When its end was recorded. Null while it goes on.';
comment on column tenure.job_attempt.outcome    is 'completed; failed: tried again unless it was the last; discarded: failed for good; died: its end was never heard of.';
comment on column tenure.job_attempt.error      is 'Why it failed, shortened.';
