-- +goose Up
-- How people prove who they are on the pages. Whatever opens a door (a password, a session, a link) is
-- here as a hash alone.

CREATE TABLE logins (
	account_id  TEXT PRIMARY KEY REFERENCES accounts (id),
	password    TEXT NOT NULL, -- argon2id, with its parameters and salt; empty: none
	totp_secret TEXT NOT NULL,
	totp_on     INTEGER NOT NULL,
	totp_step   BIGINT NOT NULL -- of the last code taken: each is good once
);

CREATE TABLE sessions (
	id         TEXT PRIMARY KEY,
	token      BYTEA NOT NULL UNIQUE,
	account_id TEXT NOT NULL REFERENCES accounts (id),
	created_at BIGINT NOT NULL,
	seen_at    BIGINT NOT NULL,
	expires_at BIGINT NOT NULL,
	remote     TEXT NOT NULL,
	agent      TEXT NOT NULL
);

CREATE INDEX sessions_by_account ON sessions (account_id, seen_at);
CREATE INDEX sessions_by_expiry ON sessions (expires_at);

CREATE TABLE one_time_links (
	token      BYTEA PRIMARY KEY,
	purpose    TEXT NOT NULL, -- signup, invite, signin, code, reset, email
	account_id TEXT NOT NULL, -- empty where there is none yet
	email      TEXT NOT NULL,
	password   TEXT NOT NULL, -- argon2id, of an account to come
	expires_at BIGINT NOT NULL
);

CREATE INDEX one_time_links_by_account ON one_time_links (account_id);
CREATE INDEX one_time_links_by_expiry ON one_time_links (expires_at);

-- What the service has told an account, and what its owner answered.
CREATE TABLE notices (
	id          TEXT PRIMARY KEY,
	account_id  TEXT NOT NULL REFERENCES accounts (id),
	at          BIGINT NOT NULL,
	kind        TEXT NOT NULL, -- warning, inquiry, payment, suspended, deactivated, restored
	title       TEXT NOT NULL,
	body        TEXT NOT NULL,
	read_at     BIGINT NOT NULL, -- 0: not yet
	answer      TEXT NOT NULL,
	answered_at BIGINT NOT NULL
);

CREATE INDEX notices_by_account ON notices (account_id, at);
