-- What reports add up, as in a file: by session, model and quarter of an hour. Made from `calls`.
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
  priced bigint not null
);
create index sums_by_session on sums (session);
create index calls_not_exact on calls (price_source) where price_match != 'exact' and basis != 'invoiced';
insert into sums
  select session, model, flags, floor(extract(epoch from ts::timestamptz))::bigint / 900, count(*), sum(input_tokens), sum(output_tokens),
    sum(cache_read_tokens), sum(cache_write_5m_tokens), sum(cache_write_1h_tokens), sum(reasoning_tokens), sum(web_searches),
    coalesce(sum(usd / 1000000), 0), coalesce(sum(usd % 1000000), 0),
    count(*) filter (where (usd is null or basis = 'none') and (model is null or model not like '<%')),
    count(*) filter (where price_match = 'fuzzy'), count(*) filter (where usd is not null and basis != 'none')
  from calls group by 1, 2, 3, 4;
update sessions set usd = (
  select case when sum(priced) > 0 then (sum(whole)::double precision * 1000000.0 + sum(rest)::double precision) / 1e12 end
  from sums where session = number
);
