-- +goose Up
-- What narrows a sub-key, as a JSON object (empty: nothing), and who made a key, as in the audit log (empty: not known).

ALTER TABLE api_keys ADD COLUMN limits TEXT NOT NULL DEFAULT '';
ALTER TABLE api_keys ADD COLUMN created_by TEXT NOT NULL DEFAULT '';
