-- What calls have in common, once: see the tables of SQLite.
create table models (
  number bigint primary key,
  provider text collate "C",
  model text collate "C",
  tier text collate "C",
  region text collate "C"
);
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
insert into models
  select row_number() over (), * from (select distinct provider, model, tier, region from calls) d;
insert into tariffs
  select row_number() over () * case when price_match != 'exact' and basis != 'invoiced' then -1 else 1 end, *
  from (
    select distinct basis, price_source, price_since, price_match, price_name, price_above, price_notes from calls
    where basis is not null and price_match is not null
  ) d;
alter table calls rename to old_calls;
alter table old_calls drop constraint calls_pkey;
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
  request_id text collate "C",
  superseded bytea,
  usd bigint,
  priced_by bigint,
  old_usd bigint
);
insert into calls
  select c.hash, c.key, c.session, c.seq, c.ts, m.number, c.flags, c.input_tokens, c.output_tokens, c.cache_read_tokens,
    c.cache_write_5m_tokens, c.cache_write_1h_tokens, c.reasoning_tokens, c.web_searches, c.invoiced, c.request_id, c.superseded, c.usd,
    t.number, c.old_usd
  from old_calls c
  join models m on (m.provider, m.model, m.tier, m.region) is not distinct from (c.provider, c.model, c.tier, c.region)
  left join tariffs t on (t.basis, t.price_source, t.price_since, t.price_match, t.price_name, t.price_above, t.price_notes)
    is not distinct from (c.basis, c.price_source, c.price_since, c.price_match, c.price_name, c.price_above, c.price_notes);
drop table old_calls;
create index calls_by_place on calls (session, seq, usd);
create index calls_without_price on calls (hash) where usd is null;
create index calls_not_exact on calls (priced_by) where priced_by < 0;
create view ledger as
  select c.hash, c.key, c.session, c.seq, c.ts, m.provider, m.model, m.tier, m.region, c.flags, c.input_tokens, c.output_tokens,
    c.cache_read_tokens, c.cache_write_5m_tokens, c.cache_write_1h_tokens, c.reasoning_tokens, c.web_searches, c.invoiced, c.request_id,
    c.superseded, c.usd, t.basis, t.price_source, t.price_since, t.price_match, t.price_name, t.price_above, t.price_notes, c.old_usd
  from calls c left join models m on m.number = c.made_by left join tariffs t on t.number = c.priced_by;
