-- Tier 2. What many calls have in common, once: what was asked for. A call has its number.
create table models (
  number integer primary key,
  provider text,
  model text,
  tier text,
  region text
);
-- Tier 2. How a price is known, once for all calls that have one of the kind. Below zero: a newer list of prices may know better.
create table tariffs (
  number integer primary key,
  basis text not null,                    -- invoiced, listed or none
  price_source text,
  price_since text,
  price_match text not null,              -- exact, alias, fuzzy or none
  price_name text,
  price_above integer,                    -- of how many tokens in the prompt, when that made all of it dearer
  price_notes text
);
insert into models (provider, model, tier, region) select distinct provider, model, tier, region from calls;
insert into tariffs
  select row_number() over () * case when price_match != 'exact' and basis != 'invoiced' then -1 else 1 end, *
  from (
    select distinct basis, price_source, price_since, price_match, price_name, price_above, price_notes from calls
    where basis is not null and price_match is not null
  );
alter table calls rename to old_calls;
-- Tier 2: kept for good. One row for each API call, whatever the number of its copies; only forgetting a session deletes any.
create table calls (
  hash integer primary key,               -- of agent and key
  key text not null,
  session integer not null,               -- where the copy that counts was made
  seq integer not null,                   -- its event; -1 when it has none
  ts text,
  made_by integer not null,               -- number in models
  flags integer not null,                 -- 1 sidechain, 2 a sum over several requests; 4, 8, 16 led nowhere; 32 at no event; 64 has no copy elsewhere
  input_tokens integer not null,
  output_tokens integer not null,
  cache_read_tokens integer not null,
  cache_write_5m_tokens integer not null,
  cache_write_1h_tokens integer not null,
  reasoning_tokens integer not null,      -- a part of output
  web_searches integer not null,
  invoiced integer,                       -- what the provider says it charged, in 1e-12 USD
  request_id text,
  superseded blob,                        -- msgpack: of copies that do not count, what they say otherwise
  usd integer,                            -- 1e-12 USD; null: not priced yet
  priced_by integer,                      -- number in tariffs
  old_usd integer                         -- before it was priced again
);
insert into calls
  select c.hash, c.key, c.session, c.seq, c.ts, m.number, c.flags, c.input_tokens, c.output_tokens, c.cache_read_tokens,
    c.cache_write_5m_tokens, c.cache_write_1h_tokens, c.reasoning_tokens, c.web_searches, c.invoiced, c.request_id, c.superseded, c.usd,
    t.number, c.old_usd
  from old_calls c
  join models m on (m.provider, m.model, m.tier, m.region) is (c.provider, c.model, c.tier, c.region)
  left join tariffs t on (t.basis, t.price_source, t.price_since, t.price_match, t.price_name, t.price_above, t.price_notes)
    is (c.basis, c.price_source, c.price_since, c.price_match, c.price_name, c.price_above, c.price_notes);
drop table old_calls;
create index calls_by_place on calls (session, seq, usd);  -- What was spent between two events of a session.
create index calls_without_price on calls (hash) where usd is null;
create index calls_not_exact on calls (priced_by) where priced_by < 0;
-- The calls in full words.
create view ledger as
  select c.hash, c.key, c.session, c.seq, c.ts, m.provider, m.model, m.tier, m.region, c.flags, c.input_tokens, c.output_tokens,
    c.cache_read_tokens, c.cache_write_5m_tokens, c.cache_write_1h_tokens, c.reasoning_tokens, c.web_searches, c.invoiced, c.request_id,
    c.superseded, c.usd, t.basis, t.price_source, t.price_since, t.price_match, t.price_name, t.price_above, t.price_notes, c.old_usd
  from calls c left join models m on m.number = c.made_by left join tariffs t on t.number = c.priced_by;
