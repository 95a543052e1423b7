-- Digests, and the errors in them: see the tables of SQLite.
create table digests (
  session bigint primary key,
  version bigint not null,
  last_seq bigint not null,
  content_hash text collate "C" not null,
  made_at text collate "C" not null,
  length bigint not null,
  hash bytea not null,
  body bytea not null
);
alter table digests alter column body set storage external;
create index digests_by_version on digests (version);

create table errors (
  session bigint not null,
  fingerprint text collate "C" not null,
  kind text collate "C" not null,
  name text collate "C" not null,
  template text collate "C" not null,
  count bigint not null,
  first_seq bigint not null,
  last_seq bigint not null,
  first_at text collate "C",
  last_at text collate "C",
  tool text collate "C",
  fixed_seq bigint,
  how text collate "C",
  confidence double precision not null,
  primary key (fingerprint, session)
);
create index errors_by_session on errors (session);

alter table sessions add column quality text collate "C";
create index sessions_to_digest on sessions (ended_at)
  where analyzed_hash is distinct from content_hash or analyzed_seq is distinct from last_seq;

create index calls_by_place on calls (session, seq, usd);
drop index calls_by_session;
