-- Tier 2: kept for good. One row for each API call, whatever the number of its copies; only forgetting a session deletes any.
create table calls (
  hash integer primary key,               -- of agent and key
  key text not null,
  session integer not null,               -- where the copy that counts was made
  seq integer not null,                   -- its event; -1 when it has none
  ts text,
  provider text,
  model text,
  tier text,
  region text,
  flags integer not null,                 -- 1 sidechain, 2 a sum over several requests
  input_tokens integer not null,
  output_tokens integer not null,
  cache_read_tokens integer not null,
  cache_write_5m_tokens integer not null,
  cache_write_1h_tokens integer not null,
  reasoning_tokens integer not null,      -- a part of output
  web_searches integer not null,
  invoiced integer,                       -- what the provider says it charged, in 1e-12 USD
  request_id text,
  superseded blob,                        -- msgpack: copies that do not count
  usd integer,                            -- 1e-12 USD; null: not priced yet
  basis text,                             -- invoiced, listed or none
  price_source text,
  price_since text,
  price_match text,                       -- exact, alias, fuzzy or none
  price_name text,
  price_above integer,                    -- of how many tokens in the prompt, when that made all of it dearer
  price_notes text,
  old_usd integer                         -- before it was priced again
);
-- Every report is a sum over this index alone, by quarters of an hour: all time zones begin their days at one.
create index calls_to_sum on calls (
  session, model, flags, unixepoch(ts) / 900, ts, input_tokens, output_tokens, cache_read_tokens, cache_write_5m_tokens,
  cache_write_1h_tokens, reasoning_tokens, web_searches, usd,
  (usd is null or basis = 'none') and (model is null or model not glob '<*'), price_match = 'fuzzy'
);
create index calls_by_ts on calls (ts);
create index calls_without_price on calls (hash) where usd is null;
