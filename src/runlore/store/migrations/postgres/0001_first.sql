-- The tables are those of SQLite (docs/schema.md says what they hold), with what a server needs: whose a session is, which machine reads
-- a source, and partitions. Texts are compared byte by byte, as SQLite does. The number of a session has the month in which it
-- started in its upper bits (months since 1970 << 31), so events, segments and words of a month lie together and leave together.

create table migrations (
  number bigint primary key,
  applied_at timestamptz not null
);

create sequence session_numbers maxvalue 2147483647;

create table sessions (
  number bigint primary key,
  uid text collate "C" not null unique,
  flavor text collate "C" not null,
  native_session_id text collate "C" not null,
  title text collate "C",
  repo text collate "C",
  domain text collate "C",
  cwd text collate "C",
  git_branch text collate "C",
  model text collate "C",
  started_at text collate "C",
  ended_at text collate "C",
  outcome text collate "C" not null default 'unknown',
  outcome_evidence text collate "C",
  task_ref text collate "C",
  source_path text collate "C",
  source_bytes bigint not null default 0,
  source_missing_at text collate "C",
  parent_uid text collate "C",
  relation text collate "C",
  machine text collate "C",
  author text collate "C",
  events bigint not null default 0,
  errors bigint not null default 0,
  turns bigint not null default 0,
  retries bigint not null default 0,
  wall_clock_s double precision not null default 0,
  input_tokens bigint not null default 0,
  output_tokens bigint not null default 0,
  cache_read_tokens bigint not null default 0,
  cache_write_tokens bigint not null default 0,
  reasoning_tokens bigint not null default 0,
  usd double precision,
  last_seq bigint not null default -1,
  content_hash text collate "C" not null default '',
  discovered_at text collate "C",
  ingested_at text collate "C",
  analyzed_at text collate "C",
  analyzed_seq bigint,
  analyzed_hash text collate "C",
  evicted_at text collate "C",
  schema_version bigint not null,
  extra text collate "C"
);
create index sessions_by_native on sessions (native_session_id);
create index sessions_by_end on sessions (ended_at desc nulls last, uid);
create index sessions_by_parent on sessions (parent_uid) where parent_uid is not null;

-- What an author means by a uid, where that is not a session of their own of this uid: someone else's that they have as well, or
-- their own beside it.
create table claims (
  author text collate "C" not null,
  uid text collate "C" not null,
  session bigint not null,
  primary key (author, uid)
);
create index claims_by_session on claims (session);

create sequence source_numbers;
create table sources (
  number bigint primary key default nextval('source_numbers'),
  reader text collate "C" not null default '',  -- author@machine: two machines may have the same path
  author text collate "C" not null default '',
  agent text collate "C" not null,
  path text collate "C" not null,
  root text collate "C" not null,
  machine text collate "C",
  size bigint not null,
  mtime_ns bigint not null,
  inode bigint not null,
  "offset" bigint not null default 0,
  head bytea not null default '',
  tail bytea not null default '',
  records bigint not null default 0,
  carry bytea,
  adapter_version bigint not null,
  redact_version text collate "C" not null,
  merged text collate "C" not null default '{}',
  discovered_at text collate "C" not null,
  synced_at text collate "C",
  missing_at text collate "C",
  problem text collate "C",
  unique (reader, agent, path)
);

create table streams (
  session bigint not null,
  block bigint not null,
  source bigint not null,
  facts bytea not null,
  tally bytea not null,
  hash bytea not null,
  primary key (session, block)
);
create index streams_by_source on streams (source, session, block);

create table skips (
  source bigint not null,
  "offset" bigint not null,
  reason text collate "C" not null,
  primary key (source, "offset", reason)
);

create table tombstones (
  uid text collate "C" primary key,
  forgotten_at text collate "C" not null
);

create table natives (
  hash bigint not null,
  session bigint not null,
  seq bigint not null,
  primary key (hash, session)
);
create index natives_by_session on natives (session);

create table aliases (
  source bigint not null,
  hash bigint not null,
  session bigint not null,
  seq bigint not null,
  primary key (source, hash)
);
create index aliases_by_session on aliases (session);

create table records (
  source bigint not null,
  first bigint not null,
  count bigint not null,
  length bigint not null,
  body bytea not null,
  primary key (source, first)
);
alter table records alter column body set storage external;

create table events (
  session bigint not null,
  seq bigint not null,
  ts text collate "C",
  kind text collate "C" not null,
  parent_seq bigint,
  tool text collate "C",
  action text collate "C",
  flags bigint not null,
  exit_code bigint,
  native_id text collate "C",
  call_id text collate "C",
  summary text collate "C",
  "offset" bigint,
  length bigint,
  rest bytea not null,
  primary key (session, seq)
) partition by range (session);

create table segments (
  id bigint not null,
  session bigint not null,
  first_seq bigint not null,
  last_seq bigint not null,
  length bigint not null,
  hash bytea not null,
  body bytea not null,
  primary key (session, first_seq)
) partition by range (session);
-- It is compressed already.
alter table segments alter column body set storage external;
create index segments_by_id on segments (id);

-- The words of each segment, each once, and all in their order to prove phrases. What is too large for one row goes on in further parts.
create table search (
  session bigint not null,
  id bigint not null,
  part bigint not null,
  prompt tsvector,
  reply tsvector,
  tool tsvector,
  stream bytea,                           -- zstd of the words of the three columns, one on each line
  primary key (session, id, part)
) partition by range (session);
alter table search alter column stream set storage external;
create index search_words on search using gin (prompt, reply, tool) with (fastupdate = on, gin_pending_list_limit = 16384);
create index search_by_part on search (id) where part > 0;

create table calls (
  hash bigint primary key,
  key text collate "C" not null,
  session bigint not null,
  seq bigint not null,
  ts text collate "C",
  provider text collate "C",
  model text collate "C",
  tier text collate "C",
  region text collate "C",
  flags bigint not null,
  input_tokens bigint not null,
  output_tokens bigint not null,
  cache_read_tokens bigint not null,
  cache_write_5m_tokens bigint not null,
  cache_write_1h_tokens bigint not null,
  reasoning_tokens bigint not null,
  web_searches bigint not null,
  invoiced bigint,
  request_id text collate "C",
  superseded bytea,
  usd bigint,
  basis text collate "C",
  price_source text collate "C",
  price_since text collate "C",
  price_match text collate "C",
  price_name text collate "C",
  price_above bigint,
  price_notes text collate "C",
  old_usd bigint
);
create index calls_by_session on calls (session);
create index calls_by_ts on calls (ts);
create index calls_without_price on calls (hash) where usd is null;
