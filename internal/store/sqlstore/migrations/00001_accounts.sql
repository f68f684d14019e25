-- +goose Up
-- The same text runs on SQLite and PostgreSQL: ids are made by us, times are Unix milliseconds,
-- yes and no are 1 and 0.

CREATE TABLE accounts (
	id                 TEXT PRIMARY KEY,
	email              TEXT NOT NULL UNIQUE,
	plan               TEXT NOT NULL CHECK (plan IN ('none', 'free', 'basic', 'premium', 'scale')),
	plan_granted       INTEGER NOT NULL,
	staff              INTEGER NOT NULL,
	rpm_override       BIGINT, -- NULL: the plan's; -1: unlimited
	concurrent_override BIGINT,
	tpm_override       BIGINT,
	suspended_at       BIGINT,
	suspend_reason     TEXT NOT NULL DEFAULT '',
	deactivated_at     BIGINT,
	deactivate_reason  TEXT NOT NULL DEFAULT '',
	created_at         BIGINT NOT NULL,
	version            BIGINT NOT NULL
);

CREATE TABLE api_keys (
	id           TEXT PRIMARY KEY,
	account_id   TEXT NOT NULL REFERENCES accounts (id),
	master       INTEGER NOT NULL,
	name         TEXT NOT NULL,
	hash         BYTEA NOT NULL UNIQUE,
	last_four    TEXT NOT NULL,
	created_at   BIGINT NOT NULL,
	last_used_at BIGINT NOT NULL DEFAULT 0,
	revoked_at   BIGINT -- a revoked key stays, so that its usage keeps a name
);

CREATE INDEX api_keys_by_account ON api_keys (account_id);
CREATE UNIQUE INDEX api_keys_one_master ON api_keys (account_id) WHERE master = 1 AND revoked_at IS NULL;

CREATE TABLE audit_log (
	seq        BIGINT PRIMARY KEY,
	at         BIGINT NOT NULL,
	actor      TEXT NOT NULL,
	action     TEXT NOT NULL,
	account_id TEXT NOT NULL,
	detail     TEXT NOT NULL,
	reason     TEXT NOT NULL
);

CREATE INDEX audit_log_by_account ON audit_log (account_id, seq);

-- One row a sequence. Taking a number locks the row until the transaction ends, so numbers appear in
-- the order in which their transactions became visible.
CREATE TABLE counters (
	name  TEXT PRIMARY KEY,
	value BIGINT NOT NULL
);

INSERT INTO counters (name, value) VALUES ('audit_log', 0);
