create table if not exists tenure.sweep_run (
    id           bigint      generated always as identity primary key,
    sweep        text        not null,
    table_name   text        not null,
    epoch        bigint      not null,
    started_at   timestamptz not null,
    ended_at     timestamptz not null,
    cutoff       timestamptz not null,
    deleted      bigint      not null check (deleted >= 0),
    batches      integer     not null check (batches >= 0),
    batch_size   integer     not null,
    debt         bigint      check (debt >= 0),
    outcome      text        not null check (outcome in ('done', 'budget', 'locked', 'slow', 'failed', 'stopped')),
    reason       text
);
comment on table  tenure.sweep_run            is 'Sweeps that did something, or could not. A pass that finds nothing to do and nothing changed leaves no row.';
comment on column tenure.sweep_run.id         is 'Number of the run.';
comment on column tenure.sweep_run.sweep      is 'Name of the sweep, as declared.';
comment on column tenure.sweep_run.table_name is 'The table that was swept.';
comment on column tenure.sweep_run.epoch      is 'Epoch of the reconciler''s term.';
comment on column tenure.sweep_run.started_at is 'When the pass began, by the database''s clock.';
comment on column tenure.sweep_run.ended_at   is 'When the row was written.';
comment on column tenure.sweep_run.cutoff     is 'Rows older than this were past their retention.';
comment on column tenure.sweep_run.deleted    is 'Rows that were deleted, in batches that each were committed.';
comment on column tenure.sweep_run.batches    is 'Batches that were committed.';
comment on column tenure.sweep_run.batch_size is 'Size that the next batch would have had.';
comment on column tenure.sweep_run.debt       is 'Rows past their retention that were left, counted up to a limit. Null when counting failed.';
comment on column tenure.sweep_run.outcome    is 'done: nothing left that isn''t locked; budget: the pass ran out of time or rows; locked: others hold locks; slow: even the smallest batch met the statement timeout; failed: the database refused; stopped: the term was drained.';
comment on column tenure.sweep_run.reason     is 'Why it isn''t done.';

-- The newest runs of a sweep.
create index if not exists sweep_run_newest on tenure.sweep_run (sweep, id desc);
-- Old runs by age, for retention.
create index if not exists sweep_run_ended on tenure.sweep_run (ended_at);
