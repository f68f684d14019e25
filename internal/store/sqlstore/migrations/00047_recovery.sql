-- +goose Up
-- Codes that stand in for the app of a second factor, each once. Only their hashes are kept.

CREATE TABLE recovery_codes (
	account_id TEXT NOT NULL,
	hash       BYTEA NOT NULL,
	used_at    BIGINT, -- NULL: still good
	PRIMARY KEY (account_id, hash)
);
