//! Every statement of the lease session.
//!
//! Those that a leader depends on read no shared catalog such as `pg_database`: locking one takes a slot
//! in the server's lock table, and that may be full. Relations of the own database need none.

/// Proves the session and its locks, and finds the wanted keys that nobody holds. One read, no write.
///
/// `$1` the keys that are held, `$2` those that are wanted, `$3` this database, `$4` whether the timeline
/// can be asked for. The subqueries are written with `in`, which
/// `PostgreSQL` hashes: a join would be planned for ten keys and take seconds for ten thousand.
pub(super) const PULSE: &str = "\
with advisory as materialized (
    select pid, (classid::bigint << 32) | objid::bigint as key
    from pg_locks
    where locktype = 'advisory' and objsubid = 1 and granted and database = $3::bigint::oid
)
select me.pid,
       (extract(epoch from me.backend_start) * 1000000)::bigint as backend_start,
       current_setting('tenure.stamp', true) as stamp,
       pg_is_in_recovery() as in_recovery,
       case when $4 and not pg_is_in_recovery()
            then substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8) end as timeline,
       (select count(*) from advisory where pid = pg_backend_pid()) as own,
       (select count(*) from unnest($1::bigint[]) as held(key)
        where (key in (select key from advisory where pid = pg_backend_pid())) is true) as proven,
       array(select key from unnest($2::bigint[]) as wanted(key)
        where (key in (select key from advisory)) is not true) as free
from pg_stat_get_activity(pg_backend_pid()) as me";

/// Begins the one transaction of acquiring. A fenced transaction of the last leader may hold the lease
/// row for a moment; it is waited for no longer than this, since the other terms need their pulse.
pub(super) fn begin_acquiring(lock_timeout_ms: u128) -> String {
    format!("begin; set local lock_timeout = {lock_timeout_ms}")
}

/// Tries the lock of each role that may be tried. `$1` names, `$2` keys.
pub(super) const TRY_LOCKS: &str = "\
with mine as materialized (
    select (classid::bigint << 32) | objid::bigint as key
    from pg_locks
    where locktype = 'advisory' and objsubid = 1 and pid = pg_backend_pid()
), known as materialized (
    select role, key from tenure.lease where role = any($1::text[]) or key = any($2::bigint[])
)
select wanted.key,
       case
           when wanted.key in (select key from mine) then 'shared'
           when (wanted.role in (select role from known) or wanted.key in (select key from known))
                and (wanted.role, wanted.key) not in (select role, key from known) then 'mismatch'
           when pg_try_advisory_lock(wanted.key) then 'locked'
           else 'busy'
       end as answer
from unnest($1::text[], $2::bigint[]) as wanted(role, key)";

/// What the database knows of a role or key that was refused. `$1` name, `$2` key.
pub(super) const KNOWN_AS: &str =
    "select role, key from tenure.lease where role = $1 or key = $2 order by role = $1 desc limit 1";

/// Raises the epochs of the roles that were locked, closes the terms that their last leaders left open,
/// and opens the new ones. `$1` names, `$2` keys, `$3` the first epoch of this timeline, `$4` instance,
/// `$5` host.
pub(super) const BEGIN_TERMS: &str = "\
with won as (
    insert into tenure.lease as lease (role, key, epoch, instance, host, backend_pid, acquired_at)
    select role, key, $3, $4, $5, pg_backend_pid(), clock_timestamp()
    from unnest($1::text[], $2::bigint[]) as locked(role, key)
    order by role
    on conflict (role) do update
    set epoch = greatest(lease.epoch + 1, excluded.epoch), instance = excluded.instance,
        host = excluded.host, backend_pid = excluded.backend_pid, acquired_at = excluded.acquired_at
    returning role, key, epoch, acquired_at
), superseded as (
    update tenure.term as term set ended_at = won.acquired_at, end_reason = 'superseded'
    from won where term.role = won.role and term.ended_at is null
), forgotten as (
    delete from tenure.term as term using won
    where term.role = won.role and term.ended_at < now() - interval '90 days'
), begun as (
    insert into tenure.term (role, epoch, instance, host, acquired_at)
    select role, epoch, $4, $5, acquired_at from won
)
select key, epoch, pg_notify('tenure_acquired', key || ' ' || epoch) is null as announced from won";

/// Ends terms: history, unlock and announcement in one. `$1` names, `$2` epochs, `$3` reasons, `$4` keys.
pub(super) const RELEASE: &str = "\
with ended as (
    update tenure.term as term set ended_at = clock_timestamp(), end_reason = given.reason
    from unnest($1::text[], $2::bigint[], $3::text[]) as given(role, epoch, reason)
    where term.role = given.role and term.epoch = given.epoch and term.ended_at is null
)
select pg_advisory_unlock(key) as unlocked, pg_notify('tenure_released', key::text) is null as announced
from unnest($4::bigint[]) as released(key)";

/// Unlocks every key of this backend but `$1`, after a failed try that may have locked some.
pub(super) const UNLOCK_OTHERS: &str = "\
select pg_advisory_unlock((classid::bigint << 32) | objid::bigint) as unlocked
from pg_locks
where locktype = 'advisory' and objsubid = 1 and pid = pg_backend_pid()
  and ((classid::bigint << 32) | objid::bigint) <> all ($1::bigint[])";
