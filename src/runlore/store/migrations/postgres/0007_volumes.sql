-- The index over words is kept by runlore itself, on pages of a few kilobytes (store/_pages.py), in place of GIN over tsvectors. What is in
-- the store already is brought over by whoever migrates it (store/postgres.py).
create sequence volume_numbers;

-- The index of some segments. It is never changed: several are bound into a new one.
create table volumes (
  number bigint primary key,
  key bigint not null,                    -- at random: also after a server was set back, no other volume has it
  segments bigint not null,
  size bigint not null,                   -- of its pages, in bytes
  ids bytea not null                      -- zstd of the ids of its segments, eight bytes each, the lowest first
);
alter table volumes alter column ids set storage external;

-- Words in order, each with the segments that have it. A word that many have is on several pages, which have no other.
create table pages (
  volume bigint not null,
  first bytea not null,                   -- the first word on it
  part bigint not null,
  body bytea not null,
  primary key (volume, first, part)
);
alter table pages alter column body set storage plain;

-- Segments that are not there any more, or not as they were, and the last volume there was then.
create table struck (
  id bigint not null,
  until bigint not null,
  primary key (id, until)
);

alter table segments add column stream bytea;  -- zstd of the words of its prompts, replies and tools, one line each, to prove phrases
alter table segments alter column stream set storage external;
update segments s set stream = w.stream from search w where w.session = s.session and w.id = s.id and w.part = 0;
drop table search;
drop index segments_by_id;
