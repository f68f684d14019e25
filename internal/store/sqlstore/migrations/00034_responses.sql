-- +goose Up
-- Responses that are kept for their callers. Input and output are sealed under the data key and the id of the response,
-- which is not here.

CREATE TABLE responses (
	id         BYTEA PRIMARY KEY, -- a hash of account and response id
	account_id TEXT NOT NULL,
	previous   BYTEA NOT NULL, -- the id of the response before it; empty if it begins a conversation
	size       BIGINT NOT NULL,
	expires_at BIGINT NOT NULL,
	sealed     BYTEA NOT NULL
);

CREATE INDEX responses_by_account ON responses (account_id, expires_at);
CREATE INDEX responses_by_expiry ON responses (expires_at);

-- How much the responses of an account take. Whoever changes them locks this row first.
CREATE TABLE response_sizes (
	account_id TEXT PRIMARY KEY,
	entries    BIGINT NOT NULL,
	bytes      BIGINT NOT NULL
);
