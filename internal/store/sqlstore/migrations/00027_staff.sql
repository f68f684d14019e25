-- +goose Up
-- Staff: when a code of the second factor was last typed in a session, and tokens for the admin API. A token
-- is here as a hash alone.

ALTER TABLE sessions ADD COLUMN proved_at BIGINT NOT NULL DEFAULT 0;

CREATE TABLE staff_tokens (
	id           TEXT PRIMARY KEY,
	hash         BYTEA NOT NULL UNIQUE,
	account_id   TEXT NOT NULL REFERENCES accounts (id),
	name         TEXT NOT NULL,
	last_four    TEXT NOT NULL,
	scopes       TEXT NOT NULL, -- separated by spaces
	created_at   BIGINT NOT NULL,
	expires_at   BIGINT NOT NULL,
	last_used_at BIGINT NOT NULL -- 0: never
);

CREATE INDEX staff_tokens_by_account ON staff_tokens (account_id, id);
