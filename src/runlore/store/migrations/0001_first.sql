-- Tier 2: kept for good. --------------------------------------------------------------------------------------------

-- One session of an agent. What is a fold over its streams (title, cost, counts …) is written again with each of them.
create table sessions (
  number integer primary key,
  uid text not null unique,
  flavor text not null,
  native_session_id text not null,
  title text,
  repo text,
  domain text,
  cwd text,
  git_branch text,
  model text,
  started_at text,
  ended_at text,
  outcome text not null default 'unknown',
  outcome_evidence text,
  task_ref text,
  source_path text,
  source_bytes integer not null default 0,
  source_missing_at text,
  parent_uid text,
  relation text,
  machine text,
  author text,
  events integer not null default 0,
  errors integer not null default 0,
  turns integer not null default 0,
  retries integer not null default 0,
  wall_clock_s real not null default 0,
  input_tokens integer not null default 0,
  output_tokens integer not null default 0,
  cache_read_tokens integer not null default 0,
  cache_write_tokens integer not null default 0,
  reasoning_tokens integer not null default 0,
  usd real,
  last_seq integer not null default -1,
  content_hash text not null default '',
  discovered_at text,
  ingested_at text,
  analyzed_at text,
  analyzed_seq integer,
  analyzed_hash text,
  evicted_at text,
  schema_version integer not null,
  extra text                              -- JSON of fields that a newer version wrote
);
create index sessions_by_native on sessions (native_session_id);
create index sessions_by_end on sessions (ended_at desc, uid);
create index sessions_by_parent on sessions (parent_uid) where parent_uid is not null;

-- A file or a database of an agent, and up to where it has been read.
create table sources (
  number integer primary key,
  agent text not null,
  path text not null,
  root text not null,
  machine text,
  size integer not null,
  mtime_ns integer not null,
  inode integer not null,
  "offset" integer not null default 0,
  head blob not null default x'',         -- hash of the first 4 KiB
  tail blob not null default x'',         -- hash of the 4 KiB before the offset
  records integer not null default 0,
  carry blob,                             -- what the adapter must remember between two reads
  adapter_version integer not null,
  redact_version text not null,
  merged text not null default '{}',      -- JSON: records that are a part of something else, by native word
  discovered_at text not null,
  synced_at text,
  missing_at text,
  problem text,                           -- why it could not be read, the last time
  unique (agent, path)
);

-- A block of 2^20 sequence numbers that a source has in a session, and what the source says of it. Never given twice.
create table streams (
  session integer not null,
  block integer not null,
  source integer not null,
  facts blob not null,                    -- msgpack
  tally blob not null,                    -- msgpack
  hash blob not null,                     -- a chain over the events, of the text before redaction
  primary key (session, block)
) without rowid;
create index streams_by_source on streams (source, session, block);

-- Records that could not be understood, with where they are.
create table skips (
  source integer not null,
  "offset" integer not null,
  reason text not null,
  primary key (source, "offset", reason)
) without rowid;

-- What was forgotten, so that no sync brings it back.
create table tombstones (
  uid text primary key,
  forgotten_at text not null
) without rowid;

-- Tier 1: may be evicted, and made again while the sources are there. -----------------------------------------------

create table events (
  session integer not null,
  seq integer not null,
  ts text,
  kind text not null,
  parent_seq integer,
  tool text,
  action text,
  flags integer not null,                 -- 1 sidechain, 2 error, 4 gone from its source
  exit_code integer,
  native_id text,
  call_id text,
  summary text,
  "offset" integer,                       -- of the body in its segment, in bytes; null: no body here
  length integer,
  rest blob not null,                     -- msgpack of the rarer fields
  primary key (session, seq)
) without rowid;

-- The bodies of consecutive events, about 64 KB of them, compressed. id = session << 20 | running number.
create table segments (
  id integer primary key,
  session integer not null,
  first_seq integer not null,
  last_seq integer not null,
  length integer not null,                -- before compression
  hash blob not null,                     -- of the same
  body blob not null,                     -- zstd
  unique (session, first_seq)
);

-- The index over everything said and done; its document is a segment, its rowid the segment's id.
create virtual table search using fts5 (
  prompt, reply, tool,
  content = '', contentless_delete = 1, tokenize = 'unicode61 remove_diacritics 2'
);

-- Which event a native id is: links parents across reads, and finds what was copied from another session.
create table natives (
  hash integer not null,
  session integer not null,
  seq integer not null,
  primary key (hash, session)
) without rowid;

-- Records that gave no event but stand in the chain, and the event that they follow.
create table aliases (
  source integer not null,
  hash integer not null,
  session integer not null,
  seq integer not null,
  primary key (source, hash)
) without rowid;

-- The native records of a source, redacted, so that a newer adapter can derive the session again.
create table records (
  source integer not null,
  first integer not null,
  count integer not null,
  length integer not null,
  body blob not null,                     -- zstd of a msgpack list of [offset, bytes]
  primary key (source, first)
) without rowid;
