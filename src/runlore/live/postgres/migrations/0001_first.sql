-- A session. `last_seq` and `last_ns` are those of its last record; -1 and 0 before the first.
create table live_sessions (
    number bigint generated always as identity primary key,
    id text not null,
    last_seq bigint not null default -1,
    last_ns bigint not null default 0,
    -- The exclusive lease: whoever writes under another epoch is refused.
    lease_epoch integer not null default 0,
    lease_until timestamptz,
    lease_holder json,
    -- Set while the session is in the trash.
    deleted_at timestamptz,
    -- The facts for the list, as they were after record `info_seq`.
    info_seq bigint not null default -1,
    info json,
    cwd text,
    agent text,
    status text,
    updated_at timestamptz
) with (fillfactor = 70);

create unique index live_sessions_by_id on live_sessions (id) where deleted_at is null;
create index live_sessions_by_time on live_sessions (updated_at desc, id) where deleted_at is null;

create table live_records (
    session bigint not null,
    seq bigint not null,
    id text not null,
    ts timestamptz not null,
    type text not null,
    key text,
    epoch integer,
    -- Kept as it was written: another type would change the order of names, and numbers.
    payload json not null,
    primary key (session, seq)
);

create unique index live_records_by_key on live_records (session, key) where key is not null;

-- What is too large for a record, named by its SHA-256.
create table live_blobs (
    session bigint not null,
    name text not null,
    data bytea not null,
    primary key (session, name)
);

-- Saved views. They can be deleted at any time.
create table live_snapshots (
    session bigint not null,
    name text not null,
    seq bigint not null,
    data bytea not null,
    primary key (session, name)
);
