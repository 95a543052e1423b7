-- How the outcome of a session is known, what a person says it was, and what git says of its
-- commits.

alter table sessions add column outcome_level text not null default 'unknown';
alter table sessions add column outcome_by text not null default '';
alter table sessions add column marked_outcome text; -- by `runlore mark`
alter table sessions add column git_state text;      -- open, merged, reverted; null: no commits
alter table sessions add column git_note text;       -- the commit that shows it
alter table sessions add column git_at text;         -- when its repository was asked
create index sessions_with_commits on sessions (cwd) where git_state is not null;
