-- +goose Up
-- The door that a call came in by. Empty: chat completions, or a call that a server of an earlier version settled.

ALTER TABLE settlements ADD COLUMN door TEXT NOT NULL DEFAULT '';
UPDATE settlements SET door = 'videos' WHERE id IN (SELECT id FROM video_jobs);

-- Names of models that an account calls instead of those of the catalog, as a JSON object. Empty: none of its own.
ALTER TABLE accounts ADD COLUMN aliases TEXT NOT NULL DEFAULT '';
