-- How the outcome of a session is known, what a person says it was, and what git says of its
-- commits.

alter table sessions add column outcome_level text collate "C" not null default 'unknown';
alter table sessions add column outcome_by text collate "C" not null default '';
alter table sessions add column marked_outcome text collate "C"; -- by `runlore mark`
alter table sessions add column git_state text collate "C";      -- open, merged, reverted; null: no commits
alter table sessions add column git_note text collate "C";       -- the commit that shows it
alter table sessions add column git_at text collate "C";         -- when its repository was asked
create index sessions_with_commits on sessions (cwd) where git_state is not null;
