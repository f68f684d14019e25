-- +goose Up
-- Copies of conversations that their owners show to others by a link. They are sealed under the data key and the token of
-- the link, which is not here; heads are sealed under the data key.

CREATE TABLE shares (
	id         BYTEA PRIMARY KEY, -- a hash of the token
	account_id TEXT NOT NULL,
	size       BIGINT NOT NULL,
	created_at BIGINT NOT NULL,
	expires_at BIGINT NOT NULL,
	head       BYTEA NOT NULL,
	sealed     BYTEA NOT NULL
);

CREATE INDEX shares_by_account ON shares (account_id, created_at);
CREATE INDEX shares_by_expiry ON shares (expires_at);

-- How much the shares of an account take. Whoever changes them locks this row first.
CREATE TABLE share_sizes (
	account_id TEXT PRIMARY KEY,
	entries    BIGINT NOT NULL,
	bytes      BIGINT NOT NULL
);
