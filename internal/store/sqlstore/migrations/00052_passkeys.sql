-- +goose Up
-- Passkeys: what is kept of each is public. The counter is what the authenticator said at the last use.

CREATE TABLE passkeys (
	credential BYTEA PRIMARY KEY,
	account_id TEXT NOT NULL,
	name       TEXT NOT NULL,
	public_key BYTEA NOT NULL, -- PKIX
	algorithm  INTEGER NOT NULL, -- a number of COSE
	counter    BIGINT NOT NULL,
	created_at BIGINT NOT NULL,
	used_at    BIGINT NOT NULL -- 0: never
);

CREATE INDEX passkeys_by_account ON passkeys (account_id, created_at);
