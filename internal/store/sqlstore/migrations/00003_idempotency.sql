-- +goose Up
-- Replies kept for requests that repeat an Idempotency-Key. What is sealed can be read with that key
-- alone, and the key is not here.

CREATE TABLE idempotent_replies (
	id         BYTEA PRIMARY KEY, -- a hash of account, path and key
	account_id TEXT NOT NULL,
	size       BIGINT NOT NULL,
	expires_at BIGINT NOT NULL,
	sealed     BYTEA NOT NULL
);

CREATE INDEX idempotent_replies_by_account ON idempotent_replies (account_id, expires_at);
CREATE INDEX idempotent_replies_by_expiry ON idempotent_replies (expires_at);

-- How many bytes the replies of an account take. Whoever changes them locks this row first.
CREATE TABLE idempotent_sizes (
	account_id TEXT PRIMARY KEY,
	bytes      BIGINT NOT NULL
);
