-- +goose Up
-- States of tool calls are bounded by account and in all. What was stored before has no account here, and
-- expires within the hour.

ALTER TABLE continuations ADD COLUMN account_id TEXT NOT NULL DEFAULT '';
ALTER TABLE continuations ADD COLUMN size BIGINT NOT NULL DEFAULT 0;

CREATE INDEX continuations_by_account ON continuations (account_id, expires_at);

-- What the states of an account take. Whoever changes them locks this row first.
CREATE TABLE continuation_sizes (
	account_id TEXT PRIMARY KEY,
	entries    BIGINT NOT NULL,
	bytes      BIGINT NOT NULL
);
