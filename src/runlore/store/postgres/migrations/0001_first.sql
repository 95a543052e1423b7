-- The tables of SQLite, where their columns are described (../0001_first.sql), with what a server
-- needs besides: whose a session is, which machine reads a source, and partitions by month. Texts
-- are compared byte by byte, as SQLite does. The number of a session has the month in which it
-- started in its upper bits (months since 1970 << 31), so events, segments and words of a month lie
-- together and are dropped together.

-- The migrations that this store has seen. Its name marks the schema as a store of runlore.
create table runlore_migrations (
  number bigint primary key,
  applied_at timestamptz not null
);

create sequence session_numbers maxvalue 2147483647;
create sequence source_numbers;

-- Tier 2: kept for good. --------------------------------------------------------------------------

-- One session of an agent. What is a fold over its streams (title, cost, counts …) is written
-- again with each of them.
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
  outcome_level text collate "C" not null default 'unknown',
  outcome_by text collate "C" not null default '',
  marked_outcome text collate "C",        -- by `runlore mark`
  git_state text collate "C",             -- open, merged, reverted; null: no commits
  git_note text collate "C",              -- the commit that shows it
  git_at text collate "C",                -- when its repository was asked
  quality text collate "C",
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
  pinned bigint not null default 0,
  name text collate "C",
  tags text collate "C" not null default '[]',
  note text collate "C",
  extra text collate "C"
);
create index sessions_by_native on sessions (native_session_id);
create index sessions_by_end on sessions (ended_at desc nulls last, uid);
create index sessions_by_parent on sessions (parent_uid) where parent_uid is not null;
create index sessions_evicted on sessions (number) where evicted_at is not null;
create index sessions_with_commits on sessions (cwd) where git_state is not null;
-- Sessions without a digest, or with one that covers less.
create index sessions_to_digest on sessions (ended_at)
  where analyzed_hash is distinct from content_hash or analyzed_seq is distinct from last_seq;

-- The session that a uid names for an author, if that is not simply the author's own with it:
-- another author's session with the same records, or the author's own, stored under another uid.
create table claims (
  author text collate "C" not null,
  uid text collate "C" not null,
  session bigint not null,
  primary key (author, uid)
);
create index claims_by_session on claims (session);

-- A file or a database of an agent, and up to where it has been read.
create table sources (
  number bigint primary key default nextval('source_numbers'),
  reader text collate "C" not null default '',  -- author@machine
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

-- A block of 2^20 sequence numbers in a session that belongs to one source, with the facts and
-- totals from this source. A block is never assigned twice.
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

-- Records that could not be understood, with where they are.
create table skips (
  source bigint not null,
  "offset" bigint not null,
  reason text collate "C" not null,
  primary key (source, "offset", reason)
);

-- What was forgotten, so that no sync brings it back.
create table tombstones (
  uid text collate "C" primary key,
  forgotten_at text collate "C" not null
);

-- What happened in a session, as `model.Digest` has it; made from its events, and made again
-- when these change.
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

-- The errors of each session, to look them up by; written with the digest, and the same as in it.
create table errors (
  session bigint not null,
  fingerprint text collate "C" not null,
  kind text collate "C" not null,
  name text collate "C" not null,
  template text collate "C" not null,
  sample text collate "C" not null,
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

-- One row for each API call, whatever the number of its copies; only forgetting a session
-- deletes any.
create table calls (
  hash bigint primary key,
  key text collate "C" not null,
  session bigint not null,
  seq bigint not null,
  ts text collate "C",
  made_by bigint not null,
  flags bigint not null,
  input_tokens bigint not null,
  output_tokens bigint not null,
  cache_read_tokens bigint not null,
  cache_write_5m_tokens bigint not null,
  cache_write_1h_tokens bigint not null,
  reasoning_tokens bigint not null,
  web_searches bigint not null,
  invoiced bigint,
  recorded bigint,
  request_id text collate "C",
  superseded bytea,
  usd bigint,
  priced_by bigint,
  old_usd bigint
);
-- What was spent between two events of a session.
create index calls_by_place on calls (session, seq, usd);
create index calls_without_price on calls (hash) where usd is null;
create index calls_not_exact on calls (priced_by) where priced_by < 0;

-- What many calls have in common: the model that was asked for. A call has its number.
create table models (
  number bigint primary key,
  provider text collate "C",
  model text collate "C",
  tier text collate "C",
  region text collate "C"
);

-- How the price of a call is known, once for all calls with the same. A number below zero: a
-- newer list of prices may know better.
create table tariffs (
  number bigint primary key,
  basis text collate "C" not null,
  price_source text collate "C",
  price_since text collate "C",
  price_match text collate "C" not null,
  price_name text collate "C",
  price_above bigint,
  price_notes text collate "C"
);

-- The calls with their models and tariffs.
create view ledger as
  select c.hash, c.key, c.session, c.seq, c.ts, m.provider, m.model, m.tier, m.region, c.flags,
    c.input_tokens, c.output_tokens, c.cache_read_tokens, c.cache_write_5m_tokens,
    c.cache_write_1h_tokens, c.reasoning_tokens, c.web_searches, c.invoiced, c.recorded,
    c.request_id, c.superseded, c.usd, t.basis, t.price_source, t.price_since, t.price_match,
    t.price_name, t.price_above, t.price_notes, c.old_usd
  from calls c
  left join models m on m.number = c.made_by
  left join tariffs t on t.number = c.priced_by;

-- Rollups of `calls` for reports, by session, model and quarter of an hour. In all time zones, days
-- begin at a full quarter of an hour.
create table sums (
  session bigint not null,
  model text collate "C",
  flags bigint not null,
  slot bigint,
  calls bigint not null,
  input_tokens bigint not null,
  output_tokens bigint not null,
  cache_read_tokens bigint not null,
  cache_write_5m_tokens bigint not null,
  cache_write_1h_tokens bigint not null,
  reasoning_tokens bigint not null,
  web_searches bigint not null,
  whole bigint not null,
  rest bigint not null,
  unpriced bigint not null,
  fuzzy bigint not null,
  priced bigint not null,
  recorded bigint not null
);
create index sums_by_session on sums (session);

-- Tier 1: may be evicted, and made again while the sources are there. -----------------------------

-- The events of a session, in order; their bodies are in its segments.
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

-- The bodies of consecutive events, about 64 KB of them, compressed. id = session << 20 |
-- running number.
create table segments (
  id bigint not null,
  session bigint not null,
  first_seq bigint not null,
  last_seq bigint not null,
  length bigint not null,
  hash bytea not null,
  body bytea not null,
  stream bytea,  -- zstd of all words of its prompts, replies and tools in order, one line each
  primary key (session, first_seq)
) partition by range (session);
-- Both are compressed already.
alter table segments alter column body set storage external;
alter table segments alter column stream set storage external;

-- The words of each segment, each once, by what they are said in. A tsvector holds a megabyte: what
-- is longer goes on in further parts. Phrases are looked for in `segments.stream`.
create table search (
  session bigint not null,
  id bigint not null,
  part bigint not null,
  prompt tsvector,
  reply tsvector,
  tool tsvector,
  primary key (session, id, part)
) partition by range (session);
create index search_words on search using gin (prompt, reply, tool);
create index search_parts on search (id) where part > 0;

-- Which event a native id is: links parents across reads, and finds what was copied from another
-- session.
create table natives (
  hash bigint not null,
  session bigint not null,
  seq bigint not null,
  primary key (hash, session)
);
create index natives_by_session on natives (session);

-- Records that gave no event but stand in the chain, and the event that they follow.
create table aliases (
  source bigint not null,
  hash bigint not null,
  session bigint not null,
  seq bigint not null,
  primary key (source, hash)
);
create index aliases_by_session on aliases (session);

-- The native records of a source, redacted, so that a newer adapter can derive the session again.
create table records (
  source bigint not null,
  first bigint not null,
  count bigint not null,
  length bigint not null,
  body bytea not null,
  primary key (source, first)
);
alter table records alter column body set storage external;
