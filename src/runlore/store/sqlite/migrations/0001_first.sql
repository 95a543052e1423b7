-- Tier 2: kept for good. --------------------------------------------------------------------------

-- One session of an agent. What is a fold over its streams (title, cost, counts …) is written
-- again with each of them.
create table sessions (
  number integer primary key,
  uid text not null unique,
  flavor text not null,                   -- the name of the agent
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
  outcome_level text not null default 'unknown',
  outcome_by text not null default '',
  marked_outcome text,                    -- by `runlore mark`
  git_state text,                         -- open, merged, reverted; null: no commits
  git_note text,                          -- the commit that shows it
  git_at text,                            -- when its repository was asked
  quality text,
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
  -- What people say with `runlore mark`, up to `note`.
  pinned integer not null default 0,      -- 1: it is not evicted
  name text,                              -- shown instead of its title
  tags text not null default '[]',        -- JSON
  note text,
  extra text                              -- JSON of fields that a newer version wrote
);
create index sessions_by_native on sessions (native_session_id);
create index sessions_by_end on sessions (ended_at desc, uid);
create index sessions_by_parent on sessions (parent_uid) where parent_uid is not null;
create index sessions_evicted on sessions (number) where evicted_at is not null;
create index sessions_with_commits on sessions (cwd) where git_state is not null;
-- Sessions without a digest, or with one that covers less.
create index sessions_to_digest on sessions (ended_at)
  where analyzed_hash is distinct from content_hash or analyzed_seq is distinct from last_seq;

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
  -- JSON: records that are a part of something else, by native word
  merged text not null default '{}',
  discovered_at text not null,
  synced_at text,
  missing_at text,
  problem text,                           -- why it could not be read, the last time
  unique (agent, path)
);

-- A block of 2^20 sequence numbers in a session that belongs to one source, with the facts and
-- totals from this source. A block is never assigned twice.
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

-- What happened in a session, as `model.Digest` has it; made from its events, and made again
-- when these change.
create table digests (
  session integer primary key,
  version integer not null,               -- of the rules that made it
  last_seq integer not null,              -- what it covers: the last event,
  content_hash text not null,             -- and the hash of all
  made_at text not null,
  length integer not null,                -- before compression
  hash blob not null,                     -- of the compressed bytes
  body blob not null                      -- zstd of JSON
);
create index digests_by_version on digests (version);

-- The errors of each session, to look them up by; written with the digest, and the same as in it.
create table errors (
  session integer not null,
  fingerprint text not null,
  kind text not null,
  name text not null,                     -- the exception, the code or the missing command
  template text not null,
  sample text not null,                   -- the line as it was printed, secrets removed
  count integer not null,
  first_seq integer not null,
  last_seq integer not null,
  first_at text,
  last_at text,
  tool text,
  fixed_seq integer,                      -- where it was gone; null: it never went away
  -- what made it go away, where that is sure enough to be told
  how text,
  confidence real not null,
  primary key (fingerprint, session)
) without rowid;
create index errors_by_session on errors (session);

-- One row for each API call, whatever the number of its copies; only forgetting a session
-- deletes any.
create table calls (
  hash integer primary key,               -- of agent and key
  key text not null,
  session integer not null,               -- where the copy that counts was made
  seq integer not null,                   -- its event; -1 when it has none
  ts text,
  made_by integer not null,               -- number in models
  -- 1 sidechain, 2 a sum over several requests; 4, 8, 16 led nowhere; 32 at no event; 64 has
  -- no copy elsewhere; 128 made of two copies
  flags integer not null,
  input_tokens integer not null,
  output_tokens integer not null,
  cache_read_tokens integer not null,
  cache_write_5m_tokens integer not null,
  cache_write_1h_tokens integer not null,
  reasoning_tokens integer not null,      -- a part of output
  web_searches integer not null,
  invoiced integer,                       -- what the provider says it charged, in 1e-12 USD
  recorded integer,                       -- what its agent itself wrote that it cost
  request_id text,
  -- msgpack: of copies that do not count, what they say otherwise
  superseded blob,
  usd integer,                            -- 1e-12 USD; null: not priced yet
  priced_by integer,                      -- number in tariffs
  old_usd integer                         -- before it was priced again
);
-- What was spent between two events of a session.
create index calls_by_place on calls (session, seq, usd);
create index calls_without_price on calls (hash) where usd is null;
create index calls_not_exact on calls (priced_by) where priced_by < 0;

-- What many calls have in common: the model that was asked for. A call has its number.
create table models (
  number integer primary key,
  provider text,
  model text,
  tier text,
  region text
);

-- How the price of a call is known, once for all calls with the same. A number below zero: a
-- newer list of prices may know better.
create table tariffs (
  number integer primary key,
  basis text not null,                    -- invoiced, listed or none
  price_source text,
  price_since text,
  price_match text not null,              -- exact, alias, fuzzy or none
  price_name text,
  -- of how many tokens in the prompt, when that made all of it dearer
  price_above integer,
  price_notes text
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
  session integer not null,
  model text,
  flags integer not null,
  slot integer,                           -- quarters of an hour since 1970; null: at no known time
  calls integer not null,
  input_tokens integer not null,
  output_tokens integer not null,
  cache_read_tokens integer not null,
  cache_write_5m_tokens integer not null,
  cache_write_1h_tokens integer not null,
  reasoning_tokens integer not null,
  web_searches integer not null,
  -- money in parts of 1e-6 USD, and the rest in 1e-12: all in one would overflow
  whole integer not null,
  rest integer not null,
  unpriced integer not null,
  fuzzy integer not null,
  priced integer not null,
  recorded integer not null                 -- calls that cost what was recorded
);
create index sums_by_session on sums (session);

-- Tier 1: may be evicted, and made again while the sources are there. -----------------------------

-- The events of a session, in order; their bodies are in its segments.
create table events (
  session integer not null,
  seq integer not null,
  ts text,
  kind text not null,
  parent_seq integer,
  tool text,
  action text,
  -- 1 sidechain, 2 error, 4 gone from its source, 8 cut by an eviction, 16 another source has
  -- it better
  flags integer not null,
  exit_code integer,
  native_id text,
  call_id text,
  summary text,
  -- of the body in its segment, in bytes; null: no body here
  "offset" integer,
  length integer,
  rest blob not null,                     -- msgpack of the rarer fields
  primary key (session, seq)
) without rowid;

-- The bodies of consecutive events, about 64 KB of them, compressed. id = session << 20 |
-- running number.
create table segments (
  id integer primary key,
  session integer not null,
  first_seq integer not null,
  last_seq integer not null,
  length integer not null,                -- before compression
  hash blob not null,                     -- of the compressed bytes
  body blob not null,                     -- zstd
  unique (session, first_seq)
);

-- The index over everything said and done; its document is a segment, its rowid the segment's id.
create virtual table search using fts5 (
  prompt, reply, tool,
  content = '', contentless_delete = 1, tokenize = 'unicode61 remove_diacritics 2'
);
-- More memory before words are written, and more pieces merged at a time: each word is written
-- less often in a first sync.
insert into search (search, rank) values ('hashsize', 16777216);
insert into search (search, rank) values ('automerge', 16);

-- Which event a native id is: links parents across reads, and finds what was copied from another
-- session.
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
  -- zstd of a msgpack list of [offset, bytes, name of the sidecar or nil]
  body blob not null,
  primary key (source, first)
) without rowid;
