-- What people say of a session: `runlore mark`. Tier 2, and never derived.
alter table sessions add column pinned smallint not null default 0;  -- 1: it is not evicted
alter table sessions add column name text;                          -- instead of its title
alter table sessions add column tags text not null default '[]';    -- JSON
alter table sessions add column note text;

-- What was evicted: every sync asks for it.
create index sessions_evicted on sessions (number) where evicted_at is not null;
