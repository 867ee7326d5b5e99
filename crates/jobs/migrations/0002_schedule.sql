create table if not exists tenure.schedule (
    name            text        primary key check (name <> ''),
    kind            text        not null,
    expression      text        not null,
    time_zone       text        not null default 'UTC',
    payload         jsonb       not null default '{}',
    queue           text        not null default 'default',
    misfire         text        not null default 'run_once' check (misfire in ('skip', 'run_once', 'catch_up')),
    catch_up_window interval,
    catch_up_cap    integer     check (catch_up_cap > 0),
    grace           interval    not null default interval '60 seconds' check (grace >= interval '0'),
    dst_rule        text        not null default 'auto' check (dst_rule in ('auto', 'once', 'real_time')),
    overlap         text        not null default 'allow' check (overlap in ('allow', 'skip')),
    enabled         boolean     not null default true,
    source          text        not null default 'hand' check (source in ('config', 'hand')),
    active_from     timestamptz not null default now(),
    last_tick       timestamptz,
    created_at      timestamptz not null default now(),
    updated_at      timestamptz not null default now(),
    constraint schedule_catch_up_has_bounds
        check ((misfire = 'catch_up') = (catch_up_window is not null and catch_up_cap is not null))
);
comment on table  tenure.schedule                 is 'Schedules. Whoever leads the scheduler fires all enabled ones, declared by its own configuration or not.';
comment on column tenure.schedule.name            is 'Name of the schedule. Renaming one makes another with a record of its own.';
comment on column tenure.schedule.kind            is 'Kind of the job that a tick enqueues.';
comment on column tenure.schedule.expression      is 'Cron expression: five fields as in crontab, or six with seconds first. Days of the week: 0 and 7 are Sunday.';
comment on column tenure.schedule.time_zone       is 'IANA time zone whose wall clock the expression follows.';
comment on column tenure.schedule.payload         is 'Payload of the jobs.';
comment on column tenure.schedule.queue           is 'Queue of the jobs.';
comment on column tenure.schedule.misfire         is 'What becomes of ticks that nobody fired in time. skip: nothing; run_once: the newest runs for all; catch_up: those within the window run, up to the cap.';
comment on column tenure.schedule.catch_up_window is 'With catch_up: how old a tick may be to be caught up.';
comment on column tenure.schedule.catch_up_cap    is 'With catch_up: how many ticks at most are caught up at once, the newest ones.';
comment on column tenure.schedule.grace           is 'Until so long after it was due, a tick counts as on time.';
comment on column tenure.schedule.dst_rule        is 'Wall-clock times that a clock change skips or repeats. once: once; real_time: as the clock shows them; auto: real_time for a steady rhythm, else once.';
comment on column tenure.schedule.overlap         is 'skip: a tick doesn''t fire while a job of an earlier tick of this schedule is unfinished; allow: it does.';
comment on column tenure.schedule.enabled         is 'Whether it fires. Enabling it again starts from now; set active_from with it.';
comment on column tenure.schedule.source          is 'config: kept as a configuration declares it; hand: no configuration touches it.';
comment on column tenure.schedule.active_from     is 'Ticks up to this time are none of its own: it was created, enabled again, or got another expression then.';
comment on column tenure.schedule.last_tick       is 'The newest tick that is settled: fired or skipped. The next one is strictly later.';
comment on column tenure.schedule.created_at      is 'When it was created.';
comment on column tenure.schedule.updated_at      is 'When its definition last changed.';

create table if not exists tenure.tick (
    schedule     text        not null,
    due_at       timestamptz not null,
    epoch        bigint      not null,
    job_id       bigint,
    outcome      text        not null check (outcome in ('enqueued', 'skipped', 'failed')),
    reason       text,
    first_due_at timestamptz not null,
    ticks        integer     not null default 1 check (ticks > 0),
    recorded_at  timestamptz not null default now(),
    primary key (schedule, due_at)
);
comment on table  tenure.tick              is 'What became of every tick, and why. The primary key is what makes a tick fire once.';
comment on column tenure.tick.schedule     is 'Name of the schedule. It may have been removed since.';
comment on column tenure.tick.due_at       is 'When the tick was due: of a run of skipped ticks, the last.';
comment on column tenure.tick.epoch        is 'Epoch of the scheduler''s term that recorded it.';
comment on column tenure.tick.job_id       is 'The job that was enqueued. It may have been removed since.';
comment on column tenure.tick.outcome      is 'enqueued: its job was added in the same transaction; skipped: no job, on purpose; failed: the job can''t be stored.';
comment on column tenure.tick.reason       is 'Why there is no job.';
comment on column tenure.tick.first_due_at is 'The first of a run of skipped ticks; otherwise the same as due_at.';
comment on column tenure.tick.ticks        is 'How many ticks the row stands for, counted up to 10000.';
comment on column tenure.tick.recorded_at  is 'When it was recorded, by the database''s clock.';

-- Old ticks by age, for retention.
create index if not exists tick_recorded on tenure.tick (recorded_at);
