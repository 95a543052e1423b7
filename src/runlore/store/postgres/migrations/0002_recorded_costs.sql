-- What an agent itself wrote that a call cost.

alter table calls add column recorded bigint;     -- by its agent's own account, in 1e-12 USD
alter table sums add column recorded bigint not null default 0; -- calls that cost what was recorded

-- Replaced and not dropped, so that who was allowed to read it still is. That only adds columns.
create or replace view ledger as
  select c.hash, c.key, c.session, c.seq, c.ts, m.provider, m.model, m.tier, m.region, c.flags,
    c.input_tokens, c.output_tokens, c.cache_read_tokens, c.cache_write_5m_tokens,
    c.cache_write_1h_tokens, c.reasoning_tokens, c.web_searches, c.invoiced, c.request_id,
    c.superseded, c.usd, t.basis, t.price_source, t.price_since, t.price_match, t.price_name,
    t.price_above, t.price_notes, c.old_usd, c.recorded
  from calls c
  left join models m on m.number = c.made_by
  left join tariffs t on t.number = c.priced_by;
