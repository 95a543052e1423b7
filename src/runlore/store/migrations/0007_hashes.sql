-- From here on the hash of a segment, and of a digest, is that of its packed bytes, and no longer of what they hold: a fifth as many. Old ones
-- stay as they are, and are known by either. An older runlore would take the new ones for damage, hence this number.
select 1;
