-- Tier 2: kept for good. What happened in a session, as `model.Digest` has it; made from its events, and made again when these change.
create table digests (
  session integer primary key,
  version integer not null,               -- of the rules that made it
  last_seq integer not null,              -- what it covers: the last event,
  content_hash text not null,             -- and the hash of all
  made_at text not null,
  length integer not null,                -- before compression
  hash blob not null,                     -- of the same
  body blob not null                      -- zstd of JSON
);
create index digests_by_version on digests (version);

-- Tier 2. The errors of each session, to look them up by; written with the digest, and the same as in it.
create table errors (
  session integer not null,
  fingerprint text not null,
  kind text not null,
  name text not null,                     -- the exception, the code or the missing command
  template text not null,
  count integer not null,
  first_seq integer not null,
  last_seq integer not null,
  first_at text,
  last_at text,
  tool text,
  fixed_seq integer,                      -- where it was gone; null: it never went away
  how text,                               -- what made it go away, where that is sure enough to be told
  confidence real not null,
  primary key (fingerprint, session)
) without rowid;
create index errors_by_session on errors (session);

alter table sessions add column quality text;
-- What has no digest, or one that covers less.
create index sessions_to_digest on sessions (ended_at)
  where analyzed_hash is distinct from content_hash or analyzed_seq is distinct from last_seq;

-- What was spent between two events of a session.
create index calls_by_place on calls (session, seq, usd);
drop index calls_by_session;
