-- What reports add up, by session, model and quarter of an hour: all time zones begin their days at one. Made from `calls`.
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
  whole integer not null,                 -- money in parts of 1e-6 USD, and the rest in 1e-12: all in one would overflow
  rest integer not null,
  unpriced integer not null,
  fuzzy integer not null,
  priced integer not null
);
create index sums_by_session on sums (session);
drop index calls_to_sum;
create index calls_by_session on calls (session);
create index calls_not_exact on calls (price_source) where price_match != 'exact' and basis != 'invoiced';
insert into sums
  select session, model, flags, unixepoch(ts) / 900, count(*), sum(input_tokens), sum(output_tokens), sum(cache_read_tokens),
    sum(cache_write_5m_tokens), sum(cache_write_1h_tokens), sum(reasoning_tokens), sum(web_searches),
    coalesce(sum(usd / 1000000), 0), coalesce(sum(usd % 1000000), 0),
    sum((usd is null or basis = 'none') and (model is null or model not glob '<*')),
    coalesce(sum(price_match = 'fuzzy'), 0), coalesce(sum(usd is not null and basis != 'none'), 0)
  from calls group by 1, 2, 3, 4;
