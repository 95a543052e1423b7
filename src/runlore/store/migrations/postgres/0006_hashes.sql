-- Hashes are of packed bytes: see the migration of SQLite.
select 1;
