create table if not exists tenure.lease (
    role        text        primary key,
    key         bigint      not null unique,
    epoch       bigint      not null,
    instance    uuid        not null,
    host        text        not null,
    backend_pid integer     not null,
    acquired_at timestamptz not null
);
comment on table  tenure.lease             is 'One row for each role that was ever led. The advisory lock says who leads; this row holds the epoch that fences writes.';
comment on column tenure.lease.role        is 'Name of the role.';
comment on column tenure.lease.key         is 'Key of the advisory lock. A binary with another key for this role is refused.';
comment on column tenure.lease.epoch       is 'Fencing token of the newest term: timeline * 2^32 + count. It only rises.';
comment on column tenure.lease.instance    is 'Incarnation of the process that leads or last led.';
comment on column tenure.lease.host        is 'Host name of that process, for people.';
comment on column tenure.lease.backend_pid is 'Server process of its lease session.';
comment on column tenure.lease.acquired_at is 'When the newest term began.';

create table if not exists tenure.term (
    role        text        not null,
    epoch       bigint      not null,
    instance    uuid        not null,
    host        text        not null,
    acquired_at timestamptz not null,
    ended_at    timestamptz,
    end_reason  text,
    primary key (role, epoch)
);
comment on table  tenure.term             is 'History of terms, kept for 90 days.';
comment on column tenure.term.role        is 'Name of the role.';
comment on column tenure.term.epoch       is 'Fencing token of the term.';
comment on column tenure.term.instance    is 'Incarnation of the process that led.';
comment on column tenure.term.host        is 'Host name of that process, for people.';
comment on column tenure.term.acquired_at is 'When the term began.';
comment on column tenure.term.ended_at    is 'When the leader released it, or when the next leader found it lost. Null while it goes on.';
comment on column tenure.term.end_reason  is 'Why it ended: a reason of the leader''s own, or superseded.';

-- The fence for a single statement, usable from any language: raises TN001 unless this epoch is current,
-- and keeps the next term from beginning until the statement's transaction ends.
create or replace function tenure.fence(fenced_role text, fenced_epoch bigint) returns void
language plpgsql volatile as $fence$
begin
    perform from tenure.lease where role = fenced_role and epoch = fenced_epoch for share;
    if not found then
        raise exception 'fenced: % is no longer led with epoch %', fenced_role, fenced_epoch
            using errcode = 'TN001';
    end if;
end
$fence$;
comment on function tenure.fence(text, bigint) is 'Locks the lease row of the role while its epoch is the given one; otherwise raises TN001.';
